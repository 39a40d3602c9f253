#!/usr/bin/env python3
"""Prints how much time Python adds to a step of training.

    scripts/python_overhead.py [DEVICE]      needs the package neap; DEVICE is cpu by default

Networks that read 16 pixels of each image are trained by step() and by fit(), which keeps two steps in flight. `session` is the
time in the C++ session during such steps, `added` the rest of the time of step(); all are medians in microseconds. What is added
does not depend on the network, so a row holds for a large network, too. With fit(), a GPU computes meanwhile. On a GPU, if
PyTorch is installed, batches lie in its memory, too.
"""
import statistics
import sys
import time

import numpy

import neap

BATCHES = [(1, (1, 8, 8), 3000), (64, (3, 32, 32), 1000), (32, (3, 224, 224), 100), (256, (3, 224, 224), 30)]


def network(batch, shape):
    net = neap.Graph("overhead", batch=batch)
    x = net.add("crop", neap.Crop(4), net.input(shape))
    net.loss(net.add("fc", neap.FullyConnected(10), x))
    return net


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def median_us(times):
    return 1e6 * statistics.median(times)


def of_fit(session, images, labels, steps):
    ends = []
    session.fit([(images, labels)] * steps, on_step=lambda result: ends.append(time.perf_counter()))
    return median_us(later - earlier for earlier, later in zip(ends, ends[1:]))


def on_gpu(images, device):
    """The images as a tensor of PyTorch; None without one."""
    try:
        import torch
    except ImportError:
        return None
    return torch.from_numpy(images).to(device)


def measure(device, where, images, labels, steps):
    with neap.Session(network(len(images), images.shape[1:]), device=device) as session:
        # Both kinds alternate, so that other work on the machine slows both.
        whole, inside = [], []
        for _ in range(steps):
            whole.append(seconds(lambda: session.step(images, labels)))
            inside.append(session._time_step(images, labels))
        fit = of_fit(session, images, labels, steps)
    size = "x".join(map(str, images.shape))
    step, in_session = median_us(whole), median_us(inside)
    print(f"{size:>13}  {where:>6}  {in_session:9.1f}  {step:9.1f}  {step - in_session:8.1f}  {fit:9.1f}", flush=True)


def main():
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    device = sys.argv[1] if len(sys.argv) == 2 else "cpu"
    print(f"{'batch':>13}  {'on':>6}  {'session':>9}  {'step()':>9}  {'added':>8}  {'fit()':>9}   us")
    for batch, shape, steps in BATCHES:
        images = numpy.random.default_rng(1).random((batch, *shape), "f4")
        labels = numpy.arange(batch, dtype="i4") % 10
        measure(device, "host", images, labels, steps)
        tensor = on_gpu(images, device) if device.startswith("cuda") else None
        if tensor is not None:
            measure(device, device, tensor, labels, steps)


if __name__ == "__main__":
    main()
