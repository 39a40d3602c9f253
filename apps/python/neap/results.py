"""The results of a session's evaluate(), fit() and load_state_dict()."""
from typing import NamedTuple


class Accuracy(NamedTuple):
    """The result of Session.evaluate(). Where pixels are labelled, each of them counts."""

    loss: float  # the mean over these labels
    accuracy: float  # from 0 to 1
    correct: int
    labels: int  # those that are classes, not -1


class History(list[float]):
    """The result of Session.fit(): the mean loss of each epoch, and in `val` what was evaluated after each of them."""

    __slots__ = ("val",)

    def __init__(self) -> None:
        super().__init__()
        self.val: list[Accuracy] = []


class LoadedKeys(NamedTuple):
    """The result of Session.load_state_dict(), as PyTorch names it."""

    missing_keys: list[str]
    unexpected_keys: list[str]
