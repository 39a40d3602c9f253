"""What state dicts of PyTorch may have otherwise than a session's: counts of batches, and extents of 1."""
from collections.abc import Mapping, Sequence
from typing import Any


def extents(values: Any) -> tuple[int, ...]:
    """The shape without extents of 1 at its end."""
    shape = tuple(values.shape)
    return extents(values[..., 0]) if shape and shape[-1] == 1 else shape


def without_counts(state: Mapping[str, Any], ignored: Sequence[str] = ()) -> dict[str, Any]:
    """Without PyTorch's counts of batches, which are the session's step, and without names that end as `ignored`."""
    ends = (".num_batches_tracked", *ignored)
    return {name: values for name, values in state.items() if not name.endswith(ends)}
