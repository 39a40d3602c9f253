#!/usr/bin/env python3
"""Exports a sample of timm's models to ONNX, loads each with neap, compares the scores, and prints a table.

    scripts/onnx_models.py NEAP [--count 150] [--seed 0] [--at-least 110] [--limit 300] [--jobs 4] [--only NAME...]

Needs Python's numpy, onnx, onnxruntime, torch and timm. Models have random weights from a seed: nothing is downloaded. NEAP is the
command. Each model runs in a process of its own with a limit in seconds. The states of a row:

    read      neap's scores are those of ONNX Runtime to 1e-4 of the largest score, if that is above 1
    differs   they are not
    refused   neap does not read the file; the nodes that it names follow below the table
    export    PyTorch does not export the model, or not as a file below 2 GiB
    timeout   it took longer than the limit
    failed    anything else

The exit code is 1 if fewer than --at-least models are read.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import subprocess
import sys
import tempfile

STATES = ["read", "differs", "refused", "export", "timeout", "failed"]
MAX_PARAMETERS = 530_000_000  # above, a file has 2 GiB
TOLERANCE = 1e-4


def normalise(model, size):
    """Gives batch norms the statistics of two random images. Otherwise the values of some networks grow from layer to layer until
    a rounding error changes the scores."""
    import torch
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    if norms:
        with torch.no_grad():
            model(torch.randn(2, *size))
    model.eval()


def export(name, seed, path):
    """Writes the model as PyTorch exports it for one image."""
    import timm
    import torch
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = timm.create_model(name, pretrained=False, exportable=True).eval()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if parameters > MAX_PARAMETERS:
        raise RuntimeError(f"it has {parameters:,} parameters")
    for parameter in model.parameters():  # layer scales and class tokens begin near 0, where they would hide differences
        if parameter.abs().max() < 1e-3:
            torch.nn.init.normal_(parameter, std=0.1)
    size = model.pretrained_cfg.get("input_size", (3, 224, 224))
    normalise(model, size)
    torch.onnx.export(model, torch.zeros(1, *size), str(path), dynamo=False, opset_version=17, input_names=["x"])


def compare(neap, path, folder):
    """The largest difference between the logarithms of the probabilities, as scripts/compare_onnx.py measures it."""
    import numpy
    import compare_onnx
    images = compare_onnx.write_cifar(folder)
    runtime = compare_onnx.OnnxRuntime(compare_onnx.onnx.load(path))
    scores = runtime(compare_onnx.resize(images, *runtime.size()))
    largest = max(1.0, numpy.abs(scores).max())
    try:
        probabilities = compare_onnx.neap_probabilities(neap, path, folder)
    except RuntimeError as error:
        return {"state": "refused", "text": str(error)}
    difference = numpy.abs(numpy.log(probabilities) - compare_onnx.log_softmax(scores)).max() / largest
    return {"state": "read" if difference <= TOLERANCE else "differs", "difference": float(difference)}


def run_one(neap, name, seed):
    """Prints the row of one model as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path = folder / "model.onnx"
        try:
            export(name, seed, path)
        except Exception as error:  # whatever PyTorch's exporter raises
            print(json.dumps({"state": "export", "text": f"{type(error).__name__}: {str(error)[:300]}"}))
            return
        print(json.dumps(compare(neap, path, folder)))


def row_of(name, options):
    command = [sys.executable, __file__, options.neap, "--one", name, "--seed", str(options.seed)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
    except subprocess.TimeoutExpired:
        return {"state": "timeout", "text": f"more than {options.limit} s"}
    lines = run.stdout.splitlines()
    if run.returncode != 0 or not lines:
        return {"state": "failed", "text": run.stderr.strip()[-300:]}
    return json.loads(lines[-1])


def sample(options):
    import timm
    if options.only:
        return options.only
    names = sorted(timm.list_models())
    return sorted(random.Random(options.seed).sample(names, min(options.count, len(names))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("neap")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-least", type=int, default=110)
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(options.neap, options.one, options.seed)
        return
    names = sample(options)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = dict(zip(names, pool.map(lambda name: row_of(name, options), names)))
    width = max(map(len, names))
    print(f"{'model':{width}}  {'state':8}  difference")
    for name, row in rows.items():
        print(f"{name:{width}}  {row['state']:8}  {row.get('difference', float('nan')):.1e}")
    for name, row in rows.items():
        if "text" in row:
            print(f"\n{name}, {row['state']}: {row['text']}")
    counts = {state: sum(row["state"] == state for row in rows.values()) for state in STATES}
    print("\n" + ", ".join(f"{count} {state}" for state, count in counts.items()) + f" of {len(rows)}")
    sys.exit(0 if counts["read"] >= min(options.at_least, len(rows)) else 1)


if __name__ == "__main__":
    main()
