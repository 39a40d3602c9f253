"""What cuDNN's fused training patterns would save in a network (fp16 or bf16, channels-last).

  cd scripts && python3 -m comparison.fused_convolutions --network resnet50 --batch 256 --dtype fp16

Each distinct convolution is timed alone and in the patterns of cuDNN's graph API: with the sums of a batch norm as its
epilogue (`statistics`), behind scale + bias + ReLU as its prologue (`prologue`), with both, its weight gradient behind the
prologue, its data gradient with the ReLU's gradient as its epilogue, and, for networks without batch norm, with bias + ReLU as
its epilogue. Every execution plan that cuDNN lists is built and timed, and the fastest counts. Beside the times stands what
the pattern saves: the passes over memory that it makes unnecessary, at the bandwidth of a copy on this GPU. A pattern pays
where its time is below the time of the convolution alone plus the passes saved.

Needs cuDNN's Python frontend (the package nvidia-cudnn-frontend) beside PyTorch.
"""

import argparse
import json
import math
import statistics
import time

import cudnn
import torch

from .floor import convolutions

REPETITIONS = 10
SAMPLES = 3
PATTERNS = ("forward", "statistics", "prologue", "prologue+statistics", "bias+relu", "wgrad", "prologue wgrad", "dgrad",
            "dgrad+relu")
# Passes saved, in sizes of (x, y): statistics read y; the prologue neither writes nor reads normalised x again (the pass that
# applies the batch norm reads x and writes it); the weight gradient gains nothing by itself; the ReLU's gradient reads and
# writes dx and reads its mask's source; bias + ReLU read and write y.
SAVED = {"bias+relu": (0, 2), "statistics": (0, 1), "prologue": (2, 0), "prologue+statistics": (2, 1), "prologue wgrad": (0, 0),
         "dgrad+relu": (2, 0)}
ALONE = {"bias+relu": "forward", "statistics": "forward", "prologue": "forward", "prologue+statistics": "forward",
         "prologue wgrad": "wgrad", "dgrad+relu": "dgrad"}


def arguments_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50", help="PyTorch's name (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=256, help="(default: %(default)s)")
    parser.add_argument("--dtype", default="fp16", choices=("fp16", "bf16"), help="(default: %(default)s)")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="of all measurements (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="append one line of JSON for each convolution and pattern")
    return parser


class Pattern:
    """One graph of cuDNN over tensors of PyTorch."""

    def __init__(self, handle, dtype):
        self.dtype = dtype
        kind = {torch.float16: cudnn.data_type.HALF, torch.bfloat16: cudnn.data_type.BFLOAT16}[dtype]
        self.graph = cudnn.pygraph(handle=handle, io_data_type=kind, intermediate_data_type=cudnn.data_type.FLOAT,
                                   compute_data_type=cudnn.data_type.FLOAT)
        self.kind = kind
        self.bound = {}

    def input(self, shape, dtype=None):
        tensor = torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype or self.dtype)
        tensor = tensor.contiguous(memory_format=torch.channels_last)
        node = self.graph.tensor_like(tensor)
        self.bound[node] = tensor
        return node

    def output(self, node, shape, dtype=None):
        tensor = torch.empty(shape, device="cuda", dtype=dtype or self.dtype).contiguous(memory_format=torch.channels_last)
        kind = cudnn.data_type.FLOAT if dtype == torch.float32 else self.kind
        node.set_output(True).set_data_type(kind).set_dim(list(tensor.shape)).set_stride(list(tensor.stride()))
        self.bound[node] = tensor

    def fastest(self):
        """(milliseconds, workspace bytes, plans timed) of the fastest execution plan."""
        self.graph.validate()
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        best, count = (math.inf, 0), 0
        for index in range(min(self.graph.get_execution_plan_count(), 12)):
            try:
                self.graph.build_plan_at_index(index)
                size = self.graph.get_workspace_size_plan_at_index(index)
                workspace = torch.empty(max(size, 1), device="cuda", dtype=torch.uint8)
                best = min(best, (timed(lambda i=index, w=workspace: self.graph.execute_plan_at_index(self.bound, w, i)), size))
                count += 1
            except Exception:  # a plan that this GPU does not run
                continue
        if not count:
            raise RuntimeError("no execution plan runs")
        return best[0], best[1], count


def timed(run):
    for _ in range(2):
        run()
    samples = []
    for _ in range(SAMPLES):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(REPETITIONS):
            run()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) / REPETITIONS)
    return statistics.median(samples)


def build(pattern, conv, name):
    n, c, _, _ = conv.x
    k = conv.weight[0]
    y_shape = tuple(torch.nn.functional.conv2d(torch.empty(conv.x, device="meta"), torch.empty(conv.weight, device="meta"), None,
                                               conv.stride, conv.padding, conv.dilation, conv.groups).shape)
    geometry = dict(padding=list(conv.padding), stride=list(conv.stride), dilation=list(conv.dilation))
    graph = pattern.graph

    def prologue(x):
        scale, bias = (pattern.input((1, c, 1, 1)) for _ in range(2))
        return graph.relu(input=graph.add(a=graph.mul(a=x, b=scale), b=bias))

    if name in ("forward", "statistics", "prologue", "prologue+statistics", "bias+relu"):
        x = pattern.input(conv.x)
        y = graph.conv_fprop(image=prologue(x) if "prologue" in name else x, weight=pattern.input(conv.weight), **geometry)
        if name == "bias+relu":
            y = graph.relu(input=graph.bias(input=y, bias=pattern.input((1, k, 1, 1))))
        pattern.output(y, y_shape)
        if "statistics" in name:
            for sums in graph.genstats(input=y):
                pattern.output(sums, (1, k, 1, 1), torch.float32)
    elif name in ("wgrad", "prologue wgrad"):
        x = pattern.input(conv.x)
        dw = graph.conv_wgrad(image=prologue(x) if "prologue" in name else x, loss=pattern.input(y_shape), **geometry)
        pattern.output(dw, conv.weight, torch.float32 if name == "wgrad" else None)
    else:
        dx = graph.conv_dgrad(loss=pattern.input(y_shape), filter=pattern.input(conv.weight), **geometry)
        if name == "dgrad+relu":
            dx.set_dim(list(conv.x)).set_stride(list(torch.empty(conv.x, device="meta").contiguous(
                memory_format=torch.channels_last).stride()))
            dx = graph.relu_backward(loss=dx, input=pattern.input(conv.x))
        pattern.output(dx, conv.x)
    return y_shape


def bandwidth():
    """Bytes read and written in a millisecond by a copy."""
    source = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * source.numel() / timed(lambda: target.copy_(source))


def main():
    arguments = arguments_parser().parse_args()
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[arguments.dtype]
    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
    rate = bandwidth()
    print(f"{torch.cuda.get_device_name()}, cuDNN {cudnn.backend_version()}, copies at {rate / 1e9:.2f} TB/s")
    deadline = time.monotonic() + arguments.limit
    totals = {name: [0.0, 0.0, 0.0, 0] for name in SAVED}  # fused, alone, passes saved, convolutions
    gained = dict.fromkeys(SAVED, 0.0)
    errors = {}
    log = open(arguments.json, "a", encoding="utf-8") if arguments.json else None
    for conv, times in sorted(convolutions(arguments.network, arguments.batch).items(), key=lambda item: str(item[0])):
        if not conv.has_backward_data or time.monotonic() > deadline:  # the first one reads the images
            print("left out:", conv.x, conv.weight)
            continue
        measured, y_shape = {}, None
        for name in PATTERNS:
            pattern = Pattern(handle, dtype)
            try:
                y_shape = build(pattern, conv, name)
                measured[name] = pattern.fastest()
            except Exception as error:
                errors.setdefault((name, str(error)[:300]), []).append(conv.weight)
                continue
            if log:
                log.write(json.dumps({"x": conv.x, "weight": conv.weight, "stride": conv.stride, "times": times, "pattern": name,
                                      "ms": measured[name][0], "workspace": measured[name][1], "plans": measured[name][2]}) + "\n")
                log.flush()
        line = f"{times} x {conv.x} {conv.weight} /{conv.stride[0]}:"
        for name in PATTERNS:
            line += f"  {name} {measured[name][0]:.3f}" if name in measured else f"  {name} -"
        print(line, flush=True)
        for name, (in_x, in_y) in SAVED.items():
            if name not in measured or ALONE[name] not in measured:
                continue
            saved = 2 * (in_x * math.prod(conv.x) + in_y * math.prod(y_shape)) / rate
            fused, alone = measured[name][0], measured[ALONE[name]][0]
            for index, amount in enumerate((fused, alone, saved, 1)):
                totals[name][index] += amount * times
            gained[name] += max(0.0, alone + saved - fused) * times
    print("\n| pattern | convolutions | fused, ms | alone, ms | passes saved, ms | gain where it pays, ms |\n|---|---|---|---|---|---|")
    for name, (fused, alone, saved, count) in totals.items():
        print(f"| {name} | {count} | {fused:.2f} | {alone:.2f} | {saved:.2f} | {gained[name]:.2f} |")
    for (name, error), weights in errors.items():
        print(f"{name}: {len(weights)} of the distinct convolutions failed: {error}")


if __name__ == "__main__":
    main()
