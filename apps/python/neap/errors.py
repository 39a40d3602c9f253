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


class NonFiniteLossError(Error):
    """The loss of a step is infinite or not a number, so the parameters are lost. `step` is its number, `loss` its loss."""

    def __init__(self, step: int, loss: float) -> None:
        super().__init__(f"the loss of step {step} is {loss}: load a checkpoint, and train with a lower learning rate, a warm-up "
                         "or clip_norm, or look for such values in the images or targets", "OUT_OF_RANGE")
        self.step = step
        self.loss = loss

    def __reduce__(self):
        return type(self), (self.step, self.loss)
