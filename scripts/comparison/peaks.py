"""The largest batch, or the deepest ResNet, that PyTorch trains in a part of the GPU's memory.

A size fits if two steps run: the first one also creates the optimizer's momentum, and only then is everything in memory. The
caching allocator is limited to the budget, so that what it holds counts, and not what it happens to have in use.
"""

import functools
import gc

from .cases import SGD, network_of

# Classes of blocks that are checkpointed, by the names of torchvision, timm, and volumes and gpt2.
BLOCKS = ("BasicBlock", "Bottleneck", "_DenseBlock", "InceptionA", "InceptionB", "InceptionC", "ReductionA", "ReductionB", "Mixed3a",
          "Mixed4a", "Mixed5a", "CNBlock", "EncoderBlock", "SwinTransformerBlock", "Stack", "ResidualBlock", "VolumeBlock",
          "UpsampleBlock", "Block")
# SuperNeurons' deep ResNets (section 4): depth = 3 (6 + 32 + n + 6) + 2.
DEEP = (6, 32, 6)


def largest(fits, unit, most):
    """The largest multiple of `unit` up to `most` that fits, or 0. Sizes are doubled, then halved into."""
    good, bad = 0, None
    size = unit
    while bad is None and size <= most:
        if fits(size):
            good, size = size, 2 * size
        else:
            bad = size
    bad = bad if bad is not None else most // unit * unit + unit
    while bad - good > unit:
        middle = (good + bad) // 2 // unit * unit
        if middle == good:
            middle += unit
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good


def depth_of(blocks):
    """The depth of SuperNeurons' ResNet with so many blocks in the third stage."""
    return 3 * (DEEP[0] + DEEP[1] + blocks + DEEP[2]) + 2


def checkpoint_blocks(model):
    """Lets every block of the model be computed again in backward. Returns how many there are."""
    from torch.utils.checkpoint import checkpoint  # pylint: disable=import-outside-toplevel  # the search needs no PyTorch

    blocks = [module for module in model.modules() if type(module).__name__ in BLOCKS]
    for block in blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    return len(blocks)


def make_model(name, blocks):
    """The network, or with `blocks` SuperNeurons' ResNet."""
    import torchvision  # pylint: disable=import-outside-toplevel  # the search needs no PyTorch

    from .models import make_network  # pylint: disable=import-outside-toplevel

    if blocks is None:
        return make_network(name)
    return torchvision.models.resnet.ResNet(torchvision.models.resnet.Bottleneck, [DEEP[0], DEEP[1], blocks, DEEP[2]])


def trains(request, batch, blocks=None):
    """Whether two steps at this batch fit."""
    import torch  # pylint: disable=import-outside-toplevel  # the search needs no PyTorch

    from .models import autocast, make_optimizer, memory_format  # pylint: disable=import-outside-toplevel

    device, dtype = request["device"], request["dtype"]
    layout = memory_format("nchw" if dtype == "fp32" else "nhwc")
    try:
        torch.manual_seed(1)
        model = make_model(request["network"], blocks).to(device, memory_format=layout).train()
        if request["checkpoint"] and checkpoint_blocks(model) == 0:
            raise ValueError(f"{request['network']} has no blocks to checkpoint")
        optimizer = make_optimizer(SGD, model)
        side = network_of(request["network"]).image if blocks is None else 224
        images = torch.randn(batch, 3, side, side, device=device).contiguous(memory_format=layout)
        labels = torch.randint(0, 1000, (batch,), device=device)
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            with autocast(device, dtype):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize(device)
        return True
    except torch.OutOfMemoryError:
        return False
    finally:
        model = optimizer = images = labels = loss = None  # noqa: F841  # what an error's frames still hold
        gc.collect()
        torch.cuda.empty_cache()


def search(request):
    """The result of one network, type and way of training, as a dictionary."""
    import torch  # pylint: disable=import-outside-toplevel  # the search needs no PyTorch

    from .models import set_precision, versions  # pylint: disable=import-outside-toplevel

    device = torch.device(request["device"])
    set_precision(request["dtype"])
    torch.backends.cudnn.benchmark = True
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, request["budget_bytes"] / total), device)
    tried = []

    def report(fits, size):
        tried.append({"size": size, "fits": fits})
        return fits

    if request["batch"] is not None:
        found = largest(lambda n: report(trains(request, request["batch"], n), n), 1, request["most"])
        size = {"depth": depth_of(found) if found > 0 else 0, "batch": request["batch"]}
    else:
        size = {"batch": largest(lambda n: report(trains(request, n), n), request["unit"], request["most"])}
    return {**{key: request[key] for key in ("network", "dtype", "checkpoint", "budget_bytes")}, **size, "tried": tried,
            **versions(request["device"])}
