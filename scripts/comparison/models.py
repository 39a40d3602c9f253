"""PyTorch's networks, in the setting that both sides share."""

import torch
import torchvision

from .cases import IMAGES, TOKENS, VOLUMES, network_of

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def set_precision(dtype):
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"


def make_network(name):
    network = network_of(name)
    if network.kind == VOLUMES:
        from .volumes import make_volume_network  # pylint: disable=import-outside-toplevel
        return make_volume_network(network)
    if network.kind == TOKENS:
        from .gpt2 import make_gpt2  # pylint: disable=import-outside-toplevel
        return make_gpt2(network)
    base, options = name.partition("@")[0], dict(network.options)
    if network.library == "timm":
        import timm  # pylint: disable=import-outside-toplevel  # only this network needs it
        return timm.create_model(base, **options)
    if base.startswith("vit_"):  # whose position embeddings are of one size
        options["image_size"] = network.image
    return getattr(torchvision.models, base)(**options)


def memory_format(layout, kind=IMAGES):
    if layout != "nhwc" or kind == TOKENS:
        return torch.contiguous_format
    return torch.channels_last_3d if kind == VOLUMES else torch.channels_last


def autocast(device, dtype):
    """The context of the forward pass and the loss: weights stay fp32, 16-bit types are PyTorch's autocast."""
    return torch.autocast(torch.device(device).type, dtype=AUTOCAST.get(dtype, torch.bfloat16), enabled=dtype in AUTOCAST)


def make_optimizer(optimizer, model, fused=False):
    """The optimizer (cases.Optimizer) of all parameters; `fused` updates all of them in a few kernels, and in fp16 divides by the
    loss scale there."""
    options = {"lr": optimizer.learning_rate, "weight_decay": optimizer.weight_decay, **({"fused": True} if fused else {})}
    if optimizer.rule == "adamw":
        return torch.optim.AdamW(model.parameters(), **options)
    return torch.optim.SGD(model.parameters(), momentum=optimizer.momentum, nesterov=optimizer.nesterov, **options)


def versions(device):
    """What a measurement depends on besides neap."""
    result = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    if torch.device(device).type == "cuda":
        result["cudnn"] = torch.backends.cudnn.version()
        result["gpu"] = torch.cuda.get_device_name(device)
    return result
