"""Batches for training: from a dataset, or from any arrays."""
from collections.abc import Iterator, Mapping
from typing import Any

import numpy

from neap._neap import BatchStream, Dataset


IGNORE_INDEX = -100  # torch.nn.CrossEntropyLoss's default
NO_LABEL = -1


class Loader:
    """Batches of a dataset, read ahead by several threads, or of a pair of arrays (images, labels).

    Iterating over it once is an epoch of len(loader) batches; every image comes once in each pass through the dataset. The
    batches depend on the arguments alone: those of a loader with first_step=k are those that another has after k batches.
    Images of a Dataset are shifted by up to `shift` pixels along each axis, and with `flip` half of them are mirrored. With `crop`,
    photographs and their masks are cropped at random and mirrored, patches of volumes and windows of tokens are random ones; by
    default only these two are. Arrays are NumPy's, or tensors, and are not changed; the second one may have labels or targets.
    `dataset` and `batch` can be read.
    """

    __slots__ = ("batch", "dataset", "_stream", "__weakref__")

    def __init__(self, dataset: Dataset | tuple[Any, Any], batch: int, *, shuffle: bool = True, seed: int = 1, shift: int = 0,
                 flip: bool = False, crop: bool | None = None, first_step: int = 0) -> None:
        self.dataset = dataset
        self.batch = batch
        if isinstance(dataset, Dataset):
            axes_of_images = 3
            crop = len(dataset.shape) != axes_of_images if crop is None else crop
            self._stream: BatchStream | _ArrayStream = BatchStream(dataset, batch, shuffle, seed, shift, flip, crop, first_step)
            return
        if shift or flip or crop:
            raise TypeError("shift, flip and crop are for a Dataset; change the images of arrays beforehand")
        self._stream = _ArrayStream(*dataset, batch, shuffle, seed, first_step)

    def __len__(self) -> int:
        """Batches in an epoch, at least 1; the images that do not fill a batch begin the next epoch."""
        images = len(self.dataset) if isinstance(self.dataset, Dataset) else len(self.dataset[0])
        return max(1, images // self.batch)

    def __iter__(self) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        for _ in range(len(self)):
            yield self._stream.next()


class _ArrayStream:
    """The endless batches of a Loader of arrays."""

    def __init__(self, images: Any, answers: Any, batch: int, shuffle: bool, seed: int, first_step: int) -> None:
        self._images, self._answers = to_images(images), to_array(answers, None)
        if len(self._images) != len(self._answers):
            raise ValueError(f"{len(self._images)} images have {len(self._answers)} labels")
        if len(self._images) == 0 or batch < 1 or first_step < 0:
            raise ValueError("a loader needs images, a batch of at least 1, and a first step from 0")
        self._batch, self._shuffle, self._seed, self._step = batch, shuffle, seed, first_step
        self._order = (-1, numpy.arange(len(self._images)))  # that of a pass

    def next(self) -> tuple[numpy.ndarray, numpy.ndarray]:
        numbers = range(self._step * self._batch, (self._step + 1) * self._batch)
        self._step += 1
        chosen = [self._number_at(number) for number in numbers]
        return self._images[chosen], self._answers[chosen]

    def _number_at(self, position: int) -> int:
        part, offset = divmod(position, len(self._images))
        if not self._shuffle:
            return offset
        if part != self._order[0]:
            self._order = (part, numpy.random.default_rng((self._seed, part)).permutation(len(self._images)))
        return self._order[1][offset]


def are_arrays(batches) -> bool:
    """Whether this is a pair (images, labels) of arrays, rather than of batches."""
    return isinstance(batches, tuple) and len(batches) == 2 and all(hasattr(values, "shape") for values in batches)


def is_on_gpu(values) -> bool:
    """Whether the values are an array in a GPU's memory."""
    cuda = 2  # of DLDeviceType
    return hasattr(values, "__dlpack_device__") and values.__dlpack_device__()[0] == cuda


def without_gradient(values):
    """The values of a tensor of PyTorch that takes part in its differentiation, without that."""
    return values.detach() if getattr(values, "requires_grad", False) else values


def _to_host(values):
    """The values of a GPU's array on the host: by the method that PyTorch, or CuPy, has for it, or as NumPy asks for them."""
    for copy in ("cpu", "get"):
        if hasattr(values, copy):
            return getattr(values, copy)()
    return numpy.asarray(values)


def to_array(values, dtype) -> numpy.ndarray:
    """The values in C order as an array of this type: of NumPy arrays, sequences, and whatever has __dlpack__."""
    values = without_gradient(values)
    if is_on_gpu(values):
        values = _to_host(values)
    if str(getattr(values, "dtype", "")) == "torch.bfloat16":  # which NumPy does not have
        values = values.float()
    if not isinstance(values, numpy.ndarray) and hasattr(values, "__dlpack__"):
        values = numpy.from_dlpack(values)
    return numpy.ascontiguousarray(values, dtype)


def to_images(images) -> numpy.ndarray:
    return to_array(images, numpy.float32)


def images_of_step(images):
    """The images of a step, where they are."""
    return without_gradient(images) if is_on_gpu(images) else to_images(images)


def to_targets(targets) -> numpy.ndarray:
    return to_array(targets, numpy.float32)


def _to_int32(values, what: str) -> numpy.ndarray:
    """Errors: TypeError unless they are integers, OverflowError for one that does not fit into 32 bits."""
    wide = to_array(values, None)
    if wide.dtype.kind not in "iu":
        raise TypeError(f"{what}s are integers, not {wide.dtype}")
    limits = numpy.iinfo(numpy.int32)
    if wide.size and (wide.min() < limits.min or wide.max() > limits.max):
        raise OverflowError(f"a {what} does not fit into 32 bits")
    return wide.astype(numpy.int32)


def to_tokens(tokens) -> numpy.ndarray:
    """The integers that a network reads. Errors: those of _to_int32()."""
    return _to_int32(tokens, "token")


def to_labels(labels) -> numpy.ndarray:
    """Labels as neap has them: PyTorch's ignore_index, -100, is no label. Errors: those of _to_int32()."""
    narrow = _to_int32(labels, "label")
    return numpy.where(narrow == IGNORE_INDEX, NO_LABEL, narrow) if (narrow == IGNORE_INDEX).any() else narrow


def arrays_of_step(feeds: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The inputs of a step: floats where they are, integers on the host."""
    arrays = []
    for name, values in feeds.items():
        if is_on_gpu(values) and "float" in str(values.dtype):
            arrays.append((name, without_gradient(values)))
            continue
        array = to_array(values, None)
        arrays.append((name, to_labels(array) if array.dtype.kind in "iu" else to_array(array, numpy.float32)))
    return arrays
