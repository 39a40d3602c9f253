"""The speed and memory of PyTorch: eager, torch.compile, torch.compile with CUDA graphs, or eager with checkpoints, which computes
every block again in backward.

PyTorch runs as someone would run it who wants speed: the batch is on the GPU before the first step, in the case's type and layout,
and stays there, so that no step waits for a copy or converts images; the optimizer is a fused one. (neap copies a batch from
pinned memory in every step.) The model and its loss are compiled, the optimizer is not. 16-bit types are autocast, with a
GradScaler for fp16.

If several processes were started, with the variables of torchrun, each has a GPU of its own and a replica
(DistributedDataParallel), and the speed is that of all.
"""

import os
import statistics
import time

import torch

from .cases import CHECKPOINT, COMPILE, REDUCE_OVERHEAD, network_of
from .models import AUTOCAST, autocast, make_network, make_optimizer, memory_format, set_precision, versions
from .peaks import checkpoint_blocks
from .processes import OUT_OF_MEMORY, is_memory_failure
from .training import WithLoss, draw_batch, placed

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


def make_step(request):
    """A function that trains for one step and returns the loss."""
    device, dtype, program, layout = (request[name] for name in ("device", "dtype", "program", "layout"))
    network = network_of(request["network"])
    torch.manual_seed(1)
    model = make_network(request["network"])
    model = model.to(device, memory_format=memory_format(layout, network.kind)).train()
    if program == CHECKPOINT and checkpoint_blocks(model) == 0:
        raise ValueError(f"{request['network']} has no blocks to checkpoint")
    optimizer = make_optimizer(network.optimizer, model, fused=True)
    scaler = torch.amp.GradScaler(torch.device(device).type, enabled=dtype == "fp16")
    training = WithLoss(network, model)
    if ranks() > 1:
        training = torch.nn.parallel.DistributedDataParallel(training, device_ids=[device], gradient_as_bucket_view=True)
    forward = torch.compile(training, mode=COMPILE_MODES[program]) if program in COMPILE_MODES else training
    inputs, labels = draw_batch(network, request["batch"])
    inputs = placed(network, inputs, device, AUTOCAST.get(dtype, torch.float32), layout)
    labels = labels.to(device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(device, dtype):
            loss = forward(inputs, labels)
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
    except RuntimeError as error:  # that of the allocator, of a library, or of a compiled program
        if not is_memory_failure(str(error)):
            raise
        return dict(OUT_OF_MEMORY)
    finally:
        if ranks() > 1:
            torch.distributed.destroy_process_group()
