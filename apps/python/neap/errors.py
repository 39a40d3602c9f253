"""The exceptions of neap. Their texts are those of the C++ library and name the file, layer or budget that is wrong."""


class Error(RuntimeError):
    """What neap refuses or cannot do. `code` is the name of the C++ status, "INVALID_ARGUMENT" for example."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code


class BudgetError(Error):
    """The budget is too small for the network. `minimum_bytes` is the smallest budget that is not refused."""

    def __init__(self, message: str, minimum_bytes: int) -> None:
        super().__init__(message, "RESOURCE_EXHAUSTED")
        self.minimum_bytes = minimum_bytes

    def __reduce__(self):
        return type(self), (self.args[0], self.minimum_bytes)
