"""PyTorch's networks, in the setting that both sides share."""

import torch
import torchvision

from .cases import NETWORKS

MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def set_precision(dtype):
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"


def make_network(name):
    network = NETWORKS[name]
    if network.library == "timm":
        import timm  # pylint: disable=import-outside-toplevel  # only this network needs it
        return timm.create_model(name, **dict(network.options))
    return getattr(torchvision.models, name)(**dict(network.options))


def memory_format(layout):
    return torch.channels_last if layout == "nhwc" else torch.contiguous_format


def autocast(device, dtype):
    """The context of the forward pass and the loss: weights stay fp32, 16-bit types are PyTorch's autocast."""
    return torch.autocast(torch.device(device).type, dtype=AUTOCAST.get(dtype, torch.bfloat16), enabled=dtype in AUTOCAST)


def sgd(model, learning_rate, fused=False):
    """The optimizer of both sides; `fused`, an argument since PyTorch 2, updates all parameters in a few kernels, and in fp16
    divides by the loss scale there."""
    return torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY,
                           **({"fused": True} if fused else {}))


def versions(device):
    """What a measurement depends on besides neap."""
    result = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    if torch.device(device).type == "cuda":
        result["cudnn"] = torch.backends.cudnn.version()
        result["gpu"] = torch.cuda.get_device_name(device)
    return result
