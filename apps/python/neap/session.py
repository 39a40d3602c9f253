"""Session: a network on a device, training within a budget."""
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy

from neap import _neap
from neap.data import Loader, are_arrays, arrays_of_step, images_of_step, to_array, to_images, to_labels, to_targets, to_tokens
from neap.errors import Error, NonFiniteLossError
from neap.progress import progress_bar
from neap.rate import Rate, rate_at, schedule_of
from neap.results import Accuracy, History, LoadedKeys
from neap.state_dict import extents, without_counts


class Session(_neap.Session):
    """A network on a device, training inside one arena of at most `budget` bytes.

    Creating a session plans the iteration, verifies the plan, reserves the arena and initialises the parameters from `seed`.
    Raises BudgetError if the budget is too small.

    net              a Graph
    device           "cpu", "cuda" or "cuda:N", N, or a torch.device; the first GPU if there is one, else the CPU
    budget           bytes: a number, a text such as "12GiB", or "60%" of what the network takes if nothing is freed; None: no
                     limit
    dtype            "fp32", "tf32", "fp16" or "bf16", or PyTorch's or NumPy's name or object; None: that of the network
    lr               a number, a LearningRate, or a function of the step's number; Session.lr changes it
    optimizer        "sgd", with `momentum` (0.9) and `nesterov`, or "adamw", with `betas` (0.9, 0.999) and `eps` (1e-8), both
                     with `weight_decay`, as in torch.optim
    clip_norm        unless it is 0, gradients are scaled down so that their norm is at most this
    ema              unless it is 0, moving averages of the weights are kept with this decay (exchange_averages)
    seed             of initial parameters and dropout
    policy           how the plan is made: "auto" if there is a budget, else "liveness", and others that `neap plan --help` lists
    host_budget      bytes of pinned host memory; by default three quarters of the machine's, on the CPU 0
    sub_batches      in how many parts a batch is run; chosen by default
    batch_norm_in_parts
                     whether networks with batch norms may be run in parts, too: in training, these then have the statistics of
                     each part, which gives other results than the whole batch
    offload_params   whether parameters and the optimizer's tensors lie in host memory
    strict           whether results have the same bits under every budget; always on for the CPU
    inference_only   no memory is planned for training or the optimizer
    training_only    evaluation is not planned
    accumulate       the batches whose gradients are summed before an update: accumulate() and update() in place of step()
    label_smoothing  that of torch.nn.CrossEntropyLoss, in the losses of training and of evaluate()
    database         the file with measured times of kernels; None: the default one, if it exists, "none": none, so that nothing
                     is measured either
    divisions        the parts of a batch in which convolutions may run, if measured: "undivided", "power-of-two" or "all" (the
                     default)
    workspace_rule   what is done if memory is short: "left-over" (workspaces shrink), "gain" (tensors are evicted for them if
                     measured times gain by it), or "best" (the faster of both, the default)
    peer             "cuda:N", another GPU of which `peer_budget` bytes are used for tensors before the host's memory
    measure          on a GPU, kernels that the plan depends on and the database lacks are first measured for at most so many
                     seconds, and their times kept there; 0: never. Plans with the same bits under every budget do not depend
                     on times

    Images are arrays of floats (n, channels, height, width), labels arrays of integers (n,), or (n, height, width) for a network
    that labels pixels. A network whose loss reads targets takes arrays of floats of the predictions' shape, (n, channels) or
    (n, channels, height, width), in the place of labels, where NaN is no target; or labels, which stand for 1 for the class and
    0 for the others. Images of one pixel may be vectors (n, channels). The label -1 or -100 is none: it adds nothing to the
    loss. Arrays may be NumPy arrays or anything with __dlpack__. Steps read images where they are, on the host or in the memory
    of the session's GPU, after what was enqueued on CUDA's default stream; everything else is first copied to the host if it is
    on a GPU. Images on a GPU must not change before the step has finished.

    Several threads may use one session; their calls run one after another. Ctrl-C during a call takes effect when it returns.
    """

    __slots__ = ("_accumulate_count", "_custom_layers", "_output_shapes", "_schedule", "__weakref__")

    def __init__(self, net: _neap.Graph, device: str | int | Any | None = None, budget: int | str | None = None,
                 dtype: str | Any | None = None, *, lr: Rate = 0.01, optimizer: str = "sgd", momentum: float | None = None,
                 nesterov: bool = False, betas: tuple[float, float] | None = None, eps: float | None = None,
                 weight_decay: float = 0.0, clip_norm: float = 0.0, ema: float = 0.0, seed: int = 1, policy: str | None = None,
                 host_budget: int | str | None = None, sub_batches: int | None = None, batch_norm_in_parts: bool = False,
                 offload_params: bool = False, strict: bool = False, inference_only: bool = False, training_only: bool = False,
                 accumulate: int = 1, label_smoothing: float = 0.0, database: str | os.PathLike[str] | None = None,
                 divisions: str | None = None, workspace_rule: str | None = None, peer: str | int | Any | None = None,
                 peer_budget: int | str | None = None, measure: float = 10.0) -> None:
        if not isinstance(net, _neap.Graph):
            raise TypeError(f"a session is of a neap.Graph, not of a {type(net).__name__}; neap.from_torch(module, images) makes "
                            "one of a module of PyTorch, neap.from_onnx(path) of an ONNX file")
        self._schedule = schedule_of(lr)
        super().__init__(net, device, budget, dtype, lr=rate_at(lr, 0), optimizer=optimizer, momentum=momentum, nesterov=nesterov,
                         betas=betas, eps=eps, weight_decay=weight_decay, clip_norm=clip_norm, ema=ema, seed=seed, policy=policy,
                         host_budget=host_budget, sub_batches=sub_batches, batch_norm_in_parts=batch_norm_in_parts,
                         offload_params=offload_params, strict=strict, inference_only=inference_only,
                         training_only=training_only, accumulate=accumulate, label_smoothing=label_smoothing, database=database,
                         divisions=divisions, workspace_rule=workspace_rule, peer=peer, peer_budget=peer_budget,
                         measure=measure)
        self._accumulate_count = accumulate
        self._custom_layers: dict[int, Any] = {}
        self._output_shapes: dict[str, tuple[int, ...]] = {}  # of the last forward()
        self._keep_layers_of(net)
        if isinstance(net, _neap.OnnxGraph):
            _neap._start_from_weights(self, net)

    def __repr__(self) -> str:
        if self.closed:
            return "<neap.Session, closed>"
        plan = self.plan
        return (f"<neap.Session '{plan.net}' batch={plan.batch} {plan.dtype} on {plan.device}, "
                f"{self.memory.arena_bytes / 2**20:.1f} MiB, {self.steps} steps>")

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

    @property
    def lr(self) -> float:
        """The learning rate of the next step. It can be set to whatever Session takes: a number, a LearningRate or a function."""
        if self._schedule is not None:
            return float(self._schedule(self.steps))
        return float(str(numpy.float32(self._rate)))  # 0.1 as it was given, although the library has it in 32 bits

    @lr.setter
    def lr(self, rate: Rate) -> None:
        self.set_learning_rate(rate)

    def set_learning_rate(self, rate: Rate) -> None:
        """Trains with another rate from the next step on, as `session.lr = rate` does.

        A LearningRate and a function count steps as `steps` does. save() writes a rate that was set, and load() returns to it;
        but a session whose rate is a function follows that, whatever it loads.
        """
        self._rate = rate_at(rate, self.steps)
        self._schedule = schedule_of(rate)

    def _follow_schedule(self) -> None:
        if self._schedule is not None:
            self._rate = float(self._schedule(self.steps))

    def step(self, images: Any, labels: Any) -> float:
        """Trains with one batch and returns its mean loss. Raises NonFiniteLossError if that is infinite or not a number."""
        images, answers = self._inputs_of_step(images), self._answers(labels)
        self._follow_schedule()
        result = self._step(images, answers)
        _check_loss(result)
        return result.loss

    def step_feeds(self, feeds: Mapping[str, Any]) -> _neap.StepResult:
        """Trains with an array for each input of the network, by name, and returns its losses and outputs.

        Arrays of integers are for inputs of "int32", others for those of floats; -1 and -100 are no label, NaN is no target.
        Raises NonFiniteLossError if the sum of the losses is infinite or not a number.
        """
        arrays = arrays_of_step(feeds)
        self._follow_schedule()
        result = self._step_feeds(arrays)
        _check_loss(result)
        return result

    def forward(self, feeds: Mapping[str, Any]) -> dict[str, numpy.ndarray]:
        """Runs the first half of a step, with an array for each input of the network, by name. Returns all its outputs, by name.

        The network has outputs of which the caller computes a loss of its own (Graph.output_with_gradient). backward() or
        skip_backward() comes next.
        """
        arrays = arrays_of_step(feeds)
        self._follow_schedule()
        outputs = self._forward(arrays)
        self._output_shapes = {name: output.shape for name, output in outputs.items()}
        return outputs

    def backward(self, gradients: Mapping[str, Any]) -> _neap.StepResult:
        """Runs the rest of the step with the gradients of the caller's loss, one for each output_with_gradient(), of its shape.

        In fp16 the session multiplies them by the loss scale. Before an update() they are summed: for the mean over its batches,
        divide by their number. Returns the losses that the network has itself.
        """
        for name, gradient in gradients.items():
            expected = self._output_shapes.get(name)
            given = tuple(numpy.shape(gradient))
            if expected is not None and given != expected:
                raise ValueError(f"the gradient of output '{name}' has the shape {given}, not {expected}")
        result = self._backward(arrays_of_step(gradients))
        _check_loss(result, may_be_skipped=True)
        return result

    def accumulate(self, images: Any, labels: Any) -> float:
        """Adds the gradients of one batch, and returns its mean loss. After `accumulate` of them comes update().

        Training is that of one batch of all images; batch norms take the statistics of each batch. Raises NonFiniteLossError if
        the loss is infinite or not a number.
        """
        images, answers = self._inputs_of_step(images), self._answers(labels)
        self._follow_schedule()
        result = self._accumulate(images, answers)
        _check_loss(result, may_be_skipped=True)
        return result.loss

    def accumulate_feeds(self, feeds: Mapping[str, Any]) -> _neap.StepResult:
        """Like accumulate(), with an array for each input of the network, by name. Returns the losses and outputs."""
        arrays = arrays_of_step(feeds)
        self._follow_schedule()
        result = self._accumulate_feeds(arrays)
        _check_loss(result, may_be_skipped=True)
        return result

    def evaluate_feeds(self, feeds: Mapping[str, Any]) -> _neap.StepResult:
        """Runs forward alone, with running statistics and without dropout.

        There may be fewer examples than in a batch, and inputs that only losses read may be missing.
        """
        return self._evaluate_feeds(arrays_of_step(feeds))

    def begin(self, images: Any, labels: Any) -> None:
        """The first half of a step: sends the batch and returns. Two steps may be in flight."""
        self._follow_schedule()
        self._begin(self._inputs_of_step(images), self._answers(labels))

    def finish(self) -> _neap.StepResult:
        """The second half: waits for the oldest step in flight."""
        return self._finish()

    def fit(self, batches: Iterable[tuple[Any, Any]] | _neap.Dataset | tuple[Any, Any], epochs: int = 1,
            on_step: Callable[[_neap.StepResult], object] | None = None, *, val: Any = None) -> History:
        """Trains with all batches, `epochs` times, and returns the mean of the finite losses of each epoch.

        `batches` is a Loader, a DataLoader of PyTorch or another iterable of (images, labels); a Dataset or a pair of arrays
        (images, labels) is shuffled as Loader does. `val` is evaluated after each epoch, and is what evaluate() takes, or a pair
        of arrays; the results are in `val` of what is returned.

        With `accumulate`, an update follows every so many batches; those that are left over wait for the batches of a later call,
        or for discard().

        While a batch trains, the next one is taken from `batches`: images on a GPU must stay as they are until the next pair but
        one is taken. The progress is shown if tqdm is installed. After Ctrl-C or an error of `batches`, the steps that have begun
        are finished, and the session can go on. Raises NonFiniteLossError if a loss is infinite or not a number.
        """
        if isinstance(batches, _neap.Dataset) or are_arrays(batches):
            batches = Loader(batches, self.batch)
        history = History()
        for epoch in range(epochs):
            with progress_bar(batches, f"epoch {epoch + 1}/{epochs}") as bar:
                history.append(self._epoch(batches, bar, on_step))
                if val is not None:
                    history.val.append(self.evaluate(val))
                    bar.set_postfix(loss=f"{history[-1]:.4f}", val_loss=f"{history.val[-1].loss:.4f}",
                                    val_accuracy=f"{history.val[-1].accuracy:.4f}")
        return history

    def _epoch(self, batches: Iterable[tuple[Any, Any]], bar: Any,
               on_step: Callable[[_neap.StepResult], object] | None) -> float:
        losses, count = [], 0
        for result in self._train(batches):
            count += 1
            _check_loss(result, may_be_skipped=self._accumulate_count > 1)
            if math.isfinite(result.loss):
                losses.append(result.loss)
            bar.set_postfix(loss=f"{result.loss:.4f}", refresh=False)
            bar.update()
            if on_step is not None:
                on_step(result)
        if count == 0:
            raise ValueError("there are no batches to train with; a generator is empty after its first epoch")
        return sum(losses) / len(losses) if losses else math.nan  # in fp16, if all steps were skipped

    def _train(self, batches: Iterable[tuple[Any, Any]]) -> Iterator[_neap.StepResult]:
        in_flight = 0
        try:
            for images, labels in batches:
                self._check_size(images)
                if self._accumulate_count > 1 and self.accumulated == self._accumulate_count:
                    self.update()
                self.begin(images, labels)
                in_flight += 1
                if in_flight == 2:
                    in_flight -= 1
                    yield self._finish()
            if self._accumulate_count > 1 and self.accumulated == self._accumulate_count:
                self.update()
            while in_flight:
                in_flight -= 1
                yield self._finish()
        finally:
            while in_flight:
                in_flight -= 1
                self._finish()

    def _check_size(self, images: Any) -> None:
        if getattr(images, "shape", None) and len(images) != self.batch and not self._has_sizes:
            raise Error(f"a batch of {len(images)} images, but the network trains {self.batch}; DataLoader(drop_last=True) "
                        "leaves out an incomplete batch, and neap.Loader begins the next epoch with its images",
                        "INVALID_ARGUMENT")

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> LoadedKeys:
        """Takes parameters and running statistics from arrays, or tensors of any type, by PyTorch's names.

        Extents of 1 at the end make no difference: the weight of a torch.nn.Linear is that of a convolution of one pixel. Buffers
        that are no weights, such as the position indices of a Swin transformer, are left out.

        Training then starts at step 0, with the same learning rate. With strict=False, tensors that the state lacks keep their
        values, and those that the network lacks are left out; both are returned. A parameter that layers share may be there under
        its other names, too, with the same values. Raises neap.Error, and changes nothing, naming all tensors of another shape and,
        if `strict`, all that are missing or unexpected, and a shared parameter that has other values under one of its names.
        """
        own = without_counts(self.state_dict())
        given = without_counts(state, self._ignored())
        shared = [name for name, owner in self._shared().items() if name in given and owner in given]
        loaded = LoadedKeys([name for name in own if name not in given],
                            [name for name in given if name not in own and name not in shared])
        weights = {name: to_array(given[name], numpy.float32) for name in own if name in given}
        faults = [f"'{name}' has the shape {values.shape}, but the network has {own[name].shape}"
                  for name, values in weights.items() if extents(values) != extents(own[name])]
        if strict:
            faults += [f"'{name}' is missing" for name in loaded.missing_keys]
            faults += [f"'{name}' does not belong to the network" for name in loaded.unexpected_keys]
        if faults:
            raise Error(f"the state does not fit the network: {'; '.join(faults)}", "INVALID_ARGUMENT")
        weights = {name: values.reshape(own[name].shape) for name, values in weights.items()}
        self._load_weights(own | weights | {name: to_array(given[name], numpy.float32) for name in shared})
        return loaded

    def evaluate(self, batches: Any, labels: Any = None) -> Accuracy:
        """Evaluates with running statistics and without dropout.

        `batches` is a Dataset, an iterable of (images, labels), a pair of arrays (images, labels), or with `labels` an array of
        images, of any number.
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
        if len(images) == 0:
            return numpy.empty((0, *self._prediction_shape), numpy.float32)
        pieces = [self._predict(images[first:first + self.batch], probabilities)
                  for first in range(0, len(images), self.batch)]
        return numpy.concatenate(pieces)

    def _inputs_of_step(self, values: Any) -> Any:
        """Images where they are, or tokens on the host if the network reads these."""
        return to_tokens(values) if self._reads_tokens else images_of_step(values)

    def _answers(self, values: Any) -> numpy.ndarray:
        """Labels, or targets if the loss reads these and the values are floats."""
        values = to_array(values, None)
        return to_targets(values) if self._reads_targets and values.dtype.kind == "f" else to_labels(values)

    def _pieces(self, batches: Any, labels: Any) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        """Images and labels of at most a batch each."""
        pairs = batches
        if labels is not None:
            pairs = [(batches, labels)]
        elif are_arrays(batches):
            pairs = [batches]
        elif isinstance(batches, _neap.Dataset):
            pairs = (batches.read(first, self.batch) for first in range(0, len(batches), self.batch))
        for images, classes in pairs:
            images = to_tokens(images) if self._reads_tokens else to_images(images)
            classes = self._answers(classes)
            for first in range(0, max(1, len(images)), self.batch):
                yield images[first:first + self.batch], classes[first:first + self.batch]


def _check_loss(result: _neap.StepResult, may_be_skipped: bool = False) -> None:
    """Raises if the loss is no number, unless a step of fp16 was skipped: the next one has a smaller scale, at least 1.

    Of the step that a batch belongs to, this is not known before the update.
    """
    if not math.isfinite(result.loss) and not ((result.skipped or may_be_skipped) and result.used_loss_scale > 1):
        raise NonFiniteLossError(result.step, result.loss)


__all__ = ["Accuracy", "History", "LoadedKeys", "Session"]
