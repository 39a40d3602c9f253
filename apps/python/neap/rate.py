"""Learning rates of a session: numbers, schedules, and functions of the step."""
from collections.abc import Callable
from typing import TypeAlias

from neap import _neap

# A constant, a schedule, or a function of the number of the step, which begins with 0.
Rate: TypeAlias = float | _neap.LearningRate | Callable[[int], float]


def schedule_of(rate: Rate) -> Callable[[int], float] | None:
    """The rate, if it is a function."""
    return rate if callable(rate) else None


def rate_at(rate: Rate, step: int) -> float | _neap.LearningRate:
    """The rate that the library takes at a step: a function's value there, and otherwise the rate itself."""
    return float(rate(step)) if callable(rate) else rate
