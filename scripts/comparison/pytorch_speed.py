"""The speed and memory of PyTorch: eager, torch.compile, or torch.compile with CUDA graphs.

PyTorch runs as someone would run it who wants speed: the batch is on the GPU before the first step, in the case's type and layout,
and stays there, so that no step waits for a copy or converts images; SGD is the fused one. (neap copies a batch from pinned
memory in every step.) The model is compiled, the loss and the optimizer are not. 16-bit types are autocast, with a GradScaler
for fp16.

If several processes were started, with the variables of torchrun, each has a GPU of its own and a replica
(DistributedDataParallel), and the speed is that of all.
"""

import os
import statistics
import time

import torch

from .cases import COMPILE, EAGER, NETWORKS, REDUCE_OVERHEAD
from .models import AUTOCAST, autocast, make_network, memory_format, set_precision, sgd, versions

CLASSES = 1000
COMPILE_MODES = {COMPILE: "default", REDUCE_OVERHEAD: "reduce-overhead"}


class Clock:
    """Times between marks: by the GPU's events, which do not wait for it, or by the host's clock."""

    def __init__(self, device):
        self._on_gpu = torch.device(device).type == "cuda"
        self._marks = []

    def mark(self):
        if self._on_gpu:
            self._marks.append(torch.cuda.Event(enable_timing=True))
            self._marks[-1].record()
        else:
            self._marks.append(time.perf_counter())

    def milliseconds(self):
        pairs = zip(self._marks, self._marks[1:])
        if not self._on_gpu:
            return [1000 * (end - begin) for begin, end in pairs]
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in pairs]


def ranks():
    """The number of processes that were started, or 1."""
    return int(os.environ.get("WORLD_SIZE", 1))


def make_batch(request):
    """Images and labels on the device, as the first layer reads them."""
    device, side = request["device"], NETWORKS[request["network"]].image
    images = torch.randn(request["batch"], 3, side, side).to(device, AUTOCAST.get(request["dtype"], torch.float32))
    labels = torch.randint(0, CLASSES, (request["batch"],)).to(device)
    return images.contiguous(memory_format=memory_format(request["layout"])), labels


def make_step(request):
    """A function that trains for one step and returns the loss."""
    device, dtype, program = request["device"], request["dtype"], request["program"]
    torch.manual_seed(1)
    model = make_network(request["network"]).to(device, memory_format=memory_format(request["layout"])).train()
    optimizer = sgd(model, 0.01, fused=True)
    scaler = torch.amp.GradScaler(torch.device(device).type, enabled=dtype == "fp16")
    if ranks() > 1:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device], gradient_as_bucket_view=True)
    forward = model if program == EAGER else torch.compile(model, mode=COMPILE_MODES[program])
    images, labels = make_batch(request)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(device, dtype):
            loss = torch.nn.functional.cross_entropy(forward(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    return step


def train(request):
    """Times steps; the peaks are of the timed steps, and of all steps with cuDNN's search for algorithms."""
    device = request["device"]
    on_gpu = torch.device(device).type == "cuda"
    set_precision(request["dtype"])
    torch.backends.cudnn.benchmark = True
    step = make_step(request)
    begin = time.monotonic()
    for _ in range(request["warm_up"]):
        step()
    result = {}
    if on_gpu:
        torch.cuda.synchronize()
        result["peak_with_search_bytes"] = torch.cuda.max_memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
    result["warm_up_s"] = time.monotonic() - begin
    clock = Clock(device)
    clock.mark()
    for _ in range(request["steps"]):
        loss = step()
        clock.mark()
    result["step_ms"] = statistics.median(clock.milliseconds())
    result["images_per_second"] = 1000 * ranks() * request["batch"] / result["step_ms"]
    result["loss"] = loss.item()
    if on_gpu:
        result["peak_bytes"] = torch.cuda.max_memory_allocated(device)
        result["reserved_bytes"] = torch.cuda.memory_reserved(device)
    return result


def measure(request):
    if ranks() > 1:
        request = {**request, "device": f"cuda:{os.environ['LOCAL_RANK']}"}
    if torch.device(request["device"]).type == "cuda":
        torch.cuda.set_device(request["device"])
    if ranks() > 1:
        torch.distributed.init_process_group("nccl")
    try:
        return {**train(request), **versions(request["device"])}
    except torch.OutOfMemoryError:
        return {"error": "out of memory"}
    finally:
        if ranks() > 1:
            torch.distributed.destroy_process_group()
