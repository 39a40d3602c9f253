#!/usr/bin/env python3
"""Compares what neap computes of ONNX files with what ONNX Runtime does, and prints a table.

    scripts/compare_onnx.py NEAP MODEL.onnx...      needs Python's numpy, onnx and onnxruntime

For each model, neap predicts 2 random CIFAR images, which it resizes to the network's size, on the CPU. Then neap writes the
network to another file, whose scores ONNX Runtime computes, too. A file that was exported for training is compared as it
predicts.
The columns: learned values that the file's nodes and neap's plan have, the largest difference of the logarithms of neap's
probabilities from those of ONNX Runtime's, and that between the scores of the two files. Both are relative to the largest score,
if that is above 1. The exit code is 1 if a difference is above 1e-4, the counts differ, or a model is refused.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime

IMAGES = 2
SOURCE = 32  # height and width of CIFAR's images
MEAN = [0.4914, 0.4822, 0.4465]  # as neap normalises them
DEVIATION = [0.2470, 0.2435, 0.2616]
TOLERANCE = 1e-4


def write_cifar(folder):
    """A dataset of random images; returns them as {N, 3, 32, 32}."""
    generator = numpy.random.default_rng(1)
    images = generator.integers(0, 256, (IMAGES, 3, SOURCE, SOURCE), dtype=numpy.uint8)
    records = [bytes([0]) + image.tobytes() for image in images]
    for name in ["test_batch.bin"] + [f"data_batch_{i}.bin" for i in range(1, 6)]:
        (folder / name).write_bytes(b"".join(records))
    return images


def taps(target):
    """Positions and weight of the two source pixels of each target pixel."""
    position = numpy.maximum(0, (numpy.arange(target) + 0.5) * SOURCE / target - 0.5)
    low = numpy.minimum(position.astype(int), SOURCE - 1)
    return low, numpy.minimum(low + 1, SOURCE - 1), position - low


def resize(images, height, width):
    scaled = images / 255.0
    scaled = (scaled - numpy.reshape(MEAN, (1, 3, 1, 1))) / numpy.reshape(DEVIATION, (1, 3, 1, 1))
    low, high, weight = taps(width)
    scaled = scaled[..., low] * (1 - weight) + scaled[..., high] * weight
    low, high, weight = taps(height)
    weight = weight[:, None]
    return (scaled[:, :, low] * (1 - weight) + scaled[:, :, high] * weight).astype(numpy.float32)


def run_neap(*arguments):
    run = subprocess.run(list(map(str, arguments)), capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(run.stderr.strip())
    return run.stdout


def learned_in_file(model):
    """Counts a tensor that several nodes share for each of them, as neap does."""
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer
             if tensor.dims and tensor.data_type == onnx.TensorProto.FLOAT}
    for node in model.graph.node:  # copies of tensors, which exporters make of equal ones
        if node.op_type == "Identity" and node.input[0] in sizes:
            sizes[node.output[0]] = sizes[node.input[0]]
    return sum(sizes.get(name, 0) for node in model.graph.node if node.op_type != "Identity"
               for name in node.input[:3 if node.op_type == "BatchNormalization" else None])


def as_it_predicts(model):
    """Batch norms with running statistics, and no dropout."""
    for node in model.graph.node:
        if node.op_type == "BatchNormalization":
            del node.output[1:]
            for attribute in node.attribute:
                if attribute.name == "training_mode":
                    attribute.i = 0
        if node.op_type == "Dropout":
            del node.output[1:], node.input[2:]
    return model


def learned_in_plan(neap, model, folder):
    run_neap(neap, "plan", model, "--batch", IMAGES, "--device", "h200", "--plan-out", folder / "plan.json")
    plan = json.loads((folder / "plan.json").read_text())
    return sum(math.prod(tensor["shape"]) for tensor in plan["tensors"] if tensor["role"] == "param")


def log_softmax(scores):
    scores = scores.astype(numpy.float64)
    scores = scores - scores.max(axis=1, keepdims=True)
    return scores - numpy.log(numpy.exp(scores).sum(axis=1, keepdims=True))


class OnnxRuntime:
    """The scores of a model for any number of images."""

    def __init__(self, model):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0]

    def size(self):
        height, width = self.input.shape[2:]
        if not isinstance(height, int) or not isinstance(width, int):
            raise RuntimeError("the file leaves the size of its images open")
        return height, width

    def __call__(self, images):
        batch = self.input.shape[0]
        batch = batch if isinstance(batch, int) else len(images)
        if len(images) % batch != 0:
            raise RuntimeError(f"the file is for {batch} images")
        parts = [images[i:i + batch] for i in range(0, len(images), batch)]
        return numpy.concatenate([self.session.run(None, {self.input.name: part})[0] for part in parts])


def neap_probabilities(neap, model, folder):
    lines = run_neap(neap, "predict", model, "--device", "cpu", "--batch", IMAGES, "--data", f"cifar10:{folder}",
                     "--top", 1 << 20, "--json").splitlines()
    rows = []
    for line in lines:
        classes = {entry["class"]: entry["probability"] for entry in json.loads(line)["classes"]}
        rows.append([classes[label] for label in range(len(classes))])
    return numpy.array(rows)


def compare(neap, path, folder, images):
    """The columns after the name."""
    model = as_it_predicts(onnx.load(path))
    runtime = OnnxRuntime(model)
    resized = resize(images, *runtime.size())
    scores = runtime(resized)
    largest = max(1.0, numpy.abs(scores).max())
    difference = numpy.abs(numpy.log(neap_probabilities(neap, path, folder)) - log_softmax(scores)).max() / largest
    run_neap(neap, "export", path, "--onnx", folder / "written.onnx")
    again = OnnxRuntime(onnx.load(folder / "written.onnx"))(resized)
    if again.shape != scores.shape:
        raise RuntimeError(f"the scores are {scores.shape}, those of the file that neap writes {again.shape}")
    counts = learned_in_file(model), learned_in_plan(neap, path, folder)
    return counts, difference, numpy.abs(again - scores).max() / largest


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    neap, models = sys.argv[1], sys.argv[2:]
    wrong = 0
    width = max(len(pathlib.Path(model).stem) for model in models)
    print(f"{'model':{width}}  {'in file':>12}  {'in plan':>12}  {'neap':>8}  {'written':>8}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        images = write_cifar(folder)
        for model in models:
            stem = pathlib.Path(model).stem
            try:
                counts, difference, written = compare(neap, model, folder, images)
            except RuntimeError as error:
                print(f"{stem:{width}}  {error}")
                wrong += 1
                continue
            print(f"{stem:{width}}  {counts[0]:12,}  {counts[1]:12,}  {difference:8.1e}  {written:8.1e}", flush=True)
            wrong += max(difference, written) > TOLERANCE or counts[0] != counts[1]
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
