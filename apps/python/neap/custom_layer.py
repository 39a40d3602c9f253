"""Layers whose shapes and kernels are written in Python, to try them out on the CPU: docs/python.md."""
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy

Shape = tuple[int, ...]


class Parameter(NamedTuple):
    """A learned tensor of a CustomLayer, and how it is filled before the first step."""

    shape: Shape
    init: str = "constant"  # "normal": `scale` is the standard deviation; "uniform": the half-width around 0
    scale: float = 0.0


class CustomLayer:
    """A layer with kernels in Python. A subclass defines output() and the functions of the steps.

    The parameters of a step's function are the names of its operands: NumPy arrays over the memory that the plan has given them,
    valid during the call. From these names neap plans, so a function must take exactly the arrays that it uses. It writes all
    results of its step in place, reads the others, and gives equal bits for equal operands.

        step             results                     operands that it may read
        forward          y, saved tensors            x, parameters
        backward_data    dx                          x, y, dy, parameters, saved tensors
        backward_params  dNAME of each parameter     x, y, dy, parameters, saved tensors

    `x` is the first input; others are `x1`, `x2` and so on, with the gradients `dx1` and `dx2`.
    """

    # Results that may lie in the memory of an operand that their step reads: {"y": "x"}. The function must then read no element
    # after it has written the result of that element.
    in_place: ClassVar[Mapping[str, str]] = {}
    # Whether images do not depend on each other, so that the batch can be run in parts (sub_batches).
    independent_images: ClassVar[bool] = False

    forward: Callable[..., None]
    backward_data: Callable[..., None]

    def output(self, *inputs: Shape) -> Shape:
        """The shape (n, channels, height, width) of y, for inputs of these shapes."""
        raise NotImplementedError(f"{type(self).__name__} does not define output()")

    def parameters(self, *inputs: Shape) -> Mapping[str, Parameter]:
        """The learned tensors, by name."""
        return {}

    def saved(self, *inputs: Shape) -> Mapping[str, Shape]:
        """The shapes of tensors that forward writes for the backward steps besides y, by name."""
        return {}

    def _specify(self, inputs: list[Shape], training: bool) -> tuple:
        """What the C++ library needs to know; an operand is (slot, index, name)."""
        parameters, saved = self.parameters(*inputs), self.saved(*inputs)
        given = [("input", i, _numbered("x", i)) for i in range(len(inputs))]
        given += [("param", i, name) for i, name in enumerate(parameters)]
        kept = [("saved", i, name) for i, name in enumerate(saved)]
        read = given + kept + [("output", 0, "y"), ("output_grad", 0, "dy")]
        steps = [self._step("forward", given, [("output", 0, "y")] + kept)]
        if training:
            input_grads = [("input_grad", i, "d" + _numbered("x", i)) for i in range(len(inputs))]
            steps.append(self._step("backward_data", read, input_grads))
        if training and parameters:
            param_grads = [("param_grad", i, "d" + name) for i, name in enumerate(parameters)]
            steps.append(self._step("backward_params", read, param_grads))
        return (tuple(self.output(*inputs)), [(name, *Parameter(*parameter)) for name, parameter in parameters.items()],
                list(saved.items()), steps, self.independent_images)

    def _step(self, step: str, readable: list[tuple], written: list[tuple]) -> tuple:
        function = getattr(self, step, None)
        if function is None:
            raise TypeError(f"{type(self).__name__} does not define {step}()")
        where = f"{type(self).__name__}.{step}()"
        operands = {operand[-1]: operand for operand in readable + written}
        if len(operands) < len(readable + written):
            raise TypeError(f"{where}: two operands have one name: {', '.join(o[-1] for o in readable + written)}")
        taken = list(inspect.signature(function).parameters)
        for name in taken:
            if name not in operands:
                raise TypeError(f"{where} takes '{name}', which is not one of its operands: {', '.join(operands)}")
        for *_, name in written:
            if name not in taken:
                raise TypeError(f"{where} does not take its result '{name}'")
        results = {name for *_, name in written}
        reads = [operands[name] for name in taken if name not in results]
        in_place = [(operands[result], operands[source]) for result, source in self.in_place.items()
                    if result in results and operands.get(source) in reads]
        return step, reads, written, in_place

    def _run(self, step: str, arrays: dict[str, numpy.ndarray]) -> None:
        result = getattr(self, step)(**arrays)
        where = f"{type(self).__name__}.{step}()"
        if result is not None:
            raise TypeError(f"{where} returns a value; it must write its results into the arrays that it is given")
        for name in arrays:
            # The dictionary's reference, and that of the call to getrefcount().
            if sys.getrefcount(arrays[name]) > 2:
                raise RuntimeError(f"{where} keeps '{name}', or a view of it, but its memory will hold other tensors: copy it")


def _numbered(name: str, index: int) -> str:
    return f"{name}{index}" if index else name


__all__ = ["CustomLayer", "Parameter"]
