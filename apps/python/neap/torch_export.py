"""from_torch(): networks of PyTorch, by way of its ONNX exporter. PyTorch is needed for this alone."""
import copy
import inspect
import pathlib
import tempfile
from typing import Any

from neap._neap import Layer, OnnxGraph, from_onnx


def from_torch(module: Any, example: Any, *, batch: int | None = None, dtype: str | Any = "fp32",
               layout: str = "nchw", loss: str | Layer | Any = "cross-entropy") -> OnnxGraph:
    """The network of a torch.nn.Module, as it trains, with its weights.

    `example` is a tensor of images (n, channels, height, width) on the module's device, whose n is the batch unless `batch` gives
    another. `loss` is "cross-entropy", "mse" or "bce", a layer such as neap.MeanSquaredError(), or the criterion of torch.nn that
    the module is trained with. The names of parameters are the module's. Raises ImportError without PyTorch, neap.Error naming
    each operator that neap cannot train, and what torch.onnx.export() raises.
    """
    import torch  # a dependency of this function alone

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{type(module).__name__.lower()}.onnx"
        # Of a copy, because tracing a module that trains changes its running statistics. The exporter by tracing, because the
        # newer one, which earlier versions of PyTorch do not have, folds batch norms into convolutions.
        has_newer = "dynamo" in inspect.signature(torch.onnx.export).parameters
        torch.onnx.export(copy.deepcopy(module).train(), (example,), str(path), **({"dynamo": False} if has_newer else {}),
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=["images"],
                          dynamic_axes={"images": {0: "n"}})
        return from_onnx(path, batch=batch or example.shape[0], dtype=dtype, layout=layout, loss=loss)
