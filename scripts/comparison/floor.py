"""The time of a network's convolutions alone: forward, backward to the input and backward to the weight of each.

The shapes are collected by hooks on the network without data (PyTorch's meta device). Each distinct convolution is timed once
in the type of its operands, with cuDNN's search for algorithms and without launch gaps: repetitions are recorded in a CUDA graph.
Biases, other layers and the backward step to the image are not part of it.
"""

import gc
import statistics
from collections import Counter
from dataclasses import dataclass

import torch

from .cases import network_of
from .models import AUTOCAST, make_network, memory_format, set_precision, versions
from .pytorch_speed import Clock

REPETITIONS = 10  # of one sample
SAMPLES = 5


@dataclass(frozen=True)
class Convolution:
    x: tuple
    weight: tuple
    stride: tuple
    padding: tuple
    dilation: tuple
    groups: int
    has_backward_data: bool

    def forward(self, x, weight):
        return torch.ops.aten.convolution(x, weight, None, self.stride, self.padding, self.dilation, False, [0, 0],
                                          self.groups)

    def backward(self, dy, x, weight, mask):
        return torch.ops.aten.convolution_backward(dy, x, weight, None, self.stride, self.padding, self.dilation, False,
                                                   [0, 0], self.groups, mask)


def convolutions(network, batch):
    """How often the network has each distinct convolution."""
    found = Counter()

    def collect(layer, inputs):
        x = inputs[0]
        found[Convolution(tuple(x.shape), tuple(layer.weight.shape), tuple(layer.stride), tuple(layer.padding),
                          tuple(layer.dilation), layer.groups, x.requires_grad)] += 1

    side = network_of(network).image
    with torch.device("meta"):
        model = make_network(network).train()
        for layer in model.modules():
            if isinstance(layer, torch.nn.Conv2d):
                layer.register_forward_pre_hook(collect)
        model(torch.empty(batch, 3, side, side))
    return found


def recorded(run, device):
    """A function that runs `run` REPETITIONS times."""
    for _ in range(3):  # the search for algorithms happens here
        run()
    if torch.device(device).type != "cuda":
        return lambda: [run() for _ in range(REPETITIONS)]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPETITIONS):
            run()
    graph.replay()
    return graph.replay


def milliseconds(run, device):
    repeat = recorded(run, device)
    clock = Clock(device)
    clock.mark()
    for _ in range(SAMPLES):
        repeat()
        clock.mark()
    return statistics.median(clock.milliseconds()) / REPETITIONS


def time_convolution(convolution, request):
    device = request["device"]
    layout = memory_format(request["layout"])
    element = AUTOCAST.get(request["dtype"], torch.float32)

    def random(shape):
        return torch.randn(shape, device=device).to(element).contiguous(memory_format=layout)

    x, weight = random(convolution.x), random(convolution.weight)
    dy = random(convolution.forward(x, weight).shape)
    times = {
        "forward_ms": milliseconds(lambda: convolution.forward(x, weight), device),
        "backward_data_ms": 0.0,
        "backward_params_ms": milliseconds(lambda: convolution.backward(dy, x, weight, [False, True, False]), device),
    }
    if convolution.has_backward_data:
        times["backward_data_ms"] = milliseconds(lambda: convolution.backward(dy, x, weight, [True, False, False]), device)
    return times


def measure(request):
    if torch.device(request["device"]).type == "cuda":
        torch.cuda.set_device(request["device"])
    set_precision(request["dtype"])
    torch.backends.cudnn.benchmark = True
    found = convolutions(request["network"], request["batch"])  # with gradients, which say where backward_data runs
    gc.freeze()  # recording a graph collects garbage, which would look at all of PyTorch's objects each time
    rows, total = [], Counter()
    with torch.no_grad():
        for convolution, count in found.items():
            times = time_convolution(convolution, request)
            total.update({name: count * value for name, value in times.items()})
            rows.append({"x": convolution.x, "weight": convolution.weight, "stride": convolution.stride,
                         "count": count, **times})
            if torch.device(request["device"]).type == "cuda":
                torch.cuda.empty_cache()
    return {"floor_ms": sum(total.values()), **total, "convolutions": rows, **versions(request["device"])}
