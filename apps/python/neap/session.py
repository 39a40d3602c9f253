"""Session: a network on a device, training within a budget."""
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy

from neap import _neap
from neap.data import is_on_gpu, to_array, to_images, to_labels, to_targets
from neap.errors import Error


class Accuracy(NamedTuple):
    """The result of Session.evaluate(). Where pixels are labelled, each of them counts."""

    loss: float  # the mean over these labels
    accuracy: float  # from 0 to 1
    correct: int
    labels: int  # those that are classes, not -1


class Session(_neap.Session):
    """A network on a device, training inside one arena of at most `budget` bytes.

    `net` is a Graph; `device` is "cpu" or "cuda:N" (cuda:0 if there is one, else cpu); `budget` is a number of bytes or a text
    such as "12GiB"; `dtype` is "fp32", "tf32", "fp16" or "bf16". `lr` is a number or a LearningRate. `optimizer` is "sgd",
    with `momentum` and `nesterov`, or "adamw", with `betas` and `eps`, both with `weight_decay`, as in torch.optim. If
    `clip_norm` is not 0, gradients are scaled down so that their norm is at most that; if `ema` is not 0, moving averages of the
    weights are kept with this decay (exchange_averages). `label_smoothing` is that of torch.nn.CrossEntropyLoss; the losses of
    training and evaluate() have it. Creating a session plans the iteration, verifies the plan, reserves the arena and
    initialises the parameters from `seed`. Raises BudgetError if the budget is too small.

    Images are arrays of floats (n, channels, height, width), labels arrays of integers (n,), or (n, height, width) for a network
    that labels pixels. A network whose loss reads targets takes arrays of floats of the predictions' shape, (n, channels) or
    (n, channels, height, width), in the place of labels, where NaN is no target; or labels, which stand for 1 for the class and
    0 for the others. Arrays may be NumPy arrays or anything with __dlpack__. Steps read images where they are, on the host or in
    the memory of the session's GPU, after what was enqueued on CUDA's default stream; everything else is first copied to the
    host if it is on a GPU. Images on a GPU must not change before the step has finished.

    Several threads may use one session; their calls run one after another. Ctrl-C during a call takes effect when it returns.
    """

    def __init__(self, net: _neap.Graph, *arguments: Any, **options: Any) -> None:
        super().__init__(net, *arguments, **options)
        self._custom_layers: dict[int, Any] = {}
        self._keep_layers_of(net)
        if isinstance(net, _neap.OnnxGraph):
            _neap._start_from_weights(self, net)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _keep_layers_of(self, net: _neap.Graph) -> None:
        """Layers that are written in Python live as long as the session: the C++ session only has weak references to them."""
        self._custom_layers.update(getattr(net, "_custom_layers", {}))

    def set_training_graph(self, net: _neap.Graph) -> None:
        """Trains another graph from the next step on, for example without some layers."""
        self._keep_layers_of(net)
        super().set_training_graph(net)

    def close(self) -> None:
        """Frees the memory. Later calls raise neap.Error."""
        super().close()
        self._custom_layers.clear()

    def step(self, images: Any, labels: Any) -> float:
        """Trains with one batch and returns its mean loss."""
        return self._step(_given(images), self._answers(labels))

    def begin(self, images: Any, labels: Any) -> None:
        """The first half of a step: sends the batch and returns. Two steps may be in flight."""
        self._begin(_given(images), self._answers(labels))

    def finish(self) -> _neap.StepResult:
        """The second half: waits for the oldest step in flight."""
        return self._finish()

    def fit(self, batches: Iterable[tuple[Any, Any]], epochs: int = 1,
            on_step: Callable[[_neap.StepResult], object] | None = None) -> list[float]:
        """Trains with all batches, `epochs` times, and returns the mean loss of each epoch.

        While a batch trains, the next one is taken from `batches`: images on a GPU must stay as they are until the next pair but
        one is taken. The progress is shown if tqdm is installed. After Ctrl-C or an error of `batches`, the steps that have begun
        are finished, and the session can go on.
        """
        losses = []
        for epoch in range(epochs):
            total, count = 0.0, 0
            with _progress(batches, f"epoch {epoch + 1}/{epochs}") as bar:
                for result in self._train(batches):
                    total, count = total + result.loss, count + 1
                    bar.set_postfix(loss=f"{result.loss:.4f}", refresh=False)
                    bar.update()
                    if on_step is not None:
                        on_step(result)
            losses.append(total / count if count else float("nan"))
        return losses

    def _train(self, batches: Iterable[tuple[Any, Any]]) -> Iterator[_neap.StepResult]:
        in_flight = 0
        try:
            for images, labels in batches:
                self.begin(images, labels)
                in_flight += 1
                if in_flight == 2:
                    in_flight -= 1
                    yield self._finish()
            while in_flight:
                in_flight -= 1
                yield self._finish()
        finally:
            while in_flight:
                in_flight -= 1
                self._finish()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes parameters and running statistics from arrays, or whatever has __dlpack__, by PyTorch's names.

        Training then starts at step 0. Raises neap.Error naming a tensor that is missing, unexpected or of another shape.
        """
        weights = {name: to_array(values, numpy.float32) for name, values in state.items()
                   if not name.endswith(".num_batches_tracked")}
        for name, own in self.state_dict().items():
            if name in weights and weights[name].shape != own.shape:
                raise Error(f"tensor '{name}' has the shape {weights[name].shape}, but the network has {own.shape}",
                            "INVALID_ARGUMENT")
        self._load_weights(weights)

    def evaluate(self, batches: Any, labels: Any = None) -> Accuracy:
        """Evaluates with running statistics and without dropout.

        `batches` is a Dataset, an iterable of (images, labels), or with `labels` an array of images, of any number.
        """
        loss, correct, terms, count = 0.0, 0, 0, 0
        for images, classes in self._pieces(batches, labels):
            result = self._evaluate(images, classes)
            loss += result.loss * result.labels
            correct += result.correct
            terms += result.labels
            count += classes.size // classes.shape[1] if classes.dtype.kind == "f" else result.labels
        if terms == 0:
            raise ValueError("there is nothing to evaluate")
        return Accuracy(loss / terms, correct / count, correct, count)

    def predict(self, images: Any, probabilities: bool = False) -> numpy.ndarray:
        """The logits of any number of images, (n, classes), or (n, classes, height, width) for a network that labels pixels.

        With `probabilities`, what the loss makes of them: their softmax over the classes, with BinaryCrossEntropy their sigmoid.
        """
        images = to_images(images)
        pieces = [self._predict(images[first:first + self.batch], probabilities)
                  for first in range(0, max(1, len(images)), self.batch)]
        return numpy.concatenate(pieces)

    def _answers(self, values: Any) -> numpy.ndarray:
        """Labels, or targets if the loss reads these and the values are floats."""
        values = to_array(values, None)
        return to_targets(values) if self._reads_targets and values.dtype.kind == "f" else to_labels(values)

    def _pieces(self, batches: Any, labels: Any) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        """Images and labels of at most a batch each."""
        pairs = batches
        if labels is not None:
            pairs = [(batches, labels)]
        elif isinstance(batches, _neap.Dataset):
            pairs = (batches.read(first, self.batch) for first in range(0, len(batches), self.batch))
        for images, classes in pairs:
            images, classes = to_images(images), self._answers(classes)
            for first in range(0, max(1, len(images)), self.batch):
                yield images[first:first + self.batch], classes[first:first + self.batch]


def _given(images: Any) -> Any:
    """The images of a step, where they are."""
    return images if is_on_gpu(images) else to_images(images)


class _Silent:
    """Takes the place of a progress bar."""

    def __enter__(self) -> "_Silent":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def set_postfix(self, **values: object) -> None:
        pass

    def update(self) -> None:
        pass


def _progress(batches: Iterable[Any], text: str) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Silent()
    total = len(batches) if hasattr(batches, "__len__") else None
    return tqdm(total=total, desc=text, unit="step")


__all__ = ["Accuracy", "Session"]
