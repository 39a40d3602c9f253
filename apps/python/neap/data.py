"""Batches for training: from a dataset, or from any arrays."""
from collections.abc import Iterator

import numpy

from neap._neap import BatchStream, Dataset


class Loader:
    """Batches of a dataset, read ahead by several threads.

    Iterating over it once is an epoch of len(loader) batches; every image comes once in each pass through the dataset. The
    batches depend on the arguments alone: those of a loader with first_step=k are those that another has after k batches.
    Images are shifted by up to `shift` pixels along each axis, and with `flip` half of them are mirrored.
    """

    def __init__(self, dataset: Dataset, batch: int, *, shuffle: bool = True, seed: int = 1, shift: int = 0,
                 flip: bool = False, first_step: int = 0) -> None:
        self.dataset = dataset
        self.batch = batch
        self._stream = BatchStream(dataset, batch, shuffle, seed, shift, flip, first_step)

    def __len__(self) -> int:
        """Batches in an epoch, at least 1; the images that do not fill a batch begin the next epoch."""
        return max(1, len(self.dataset) // self.batch)

    def __iter__(self) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        for _ in range(len(self)):
            yield self._stream.next()


def is_on_gpu(values) -> bool:
    """Whether the values are an array in a GPU's memory."""
    cuda = 2  # of DLDeviceType
    return hasattr(values, "__dlpack_device__") and values.__dlpack_device__()[0] == cuda


def _to_host(values):
    """The values of a GPU's array on the host: by the method that PyTorch, or CuPy, has for it, or as NumPy asks for them."""
    for copy in ("cpu", "get"):
        if hasattr(values, copy):
            return getattr(values, copy)()
    return numpy.asarray(values)


def to_array(values, dtype) -> numpy.ndarray:
    """The values in C order as an array of this type: of NumPy arrays, sequences, and whatever has __dlpack__."""
    if is_on_gpu(values):
        values = _to_host(values)
    if not isinstance(values, numpy.ndarray) and hasattr(values, "__dlpack__"):
        values = numpy.from_dlpack(values)
    return numpy.ascontiguousarray(values, dtype)


def to_images(images) -> numpy.ndarray:
    return to_array(images, numpy.float32)


def to_targets(targets) -> numpy.ndarray:
    return to_array(targets, numpy.float32)


def to_labels(labels) -> numpy.ndarray:
    """Errors: TypeError unless they are integers, OverflowError for one that does not fit into 32 bits."""
    wide = to_array(labels, None)
    if wide.dtype.kind not in "iu":
        raise TypeError(f"labels are integers, not {wide.dtype}")
    limits = numpy.iinfo(numpy.int32)
    if wide.size and (wide.min() < limits.min or wide.max() > limits.max):
        raise OverflowError("a label does not fit into 32 bits")
    return wide.astype(numpy.int32)
