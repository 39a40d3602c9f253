#!/usr/bin/env python3
"""Compares neap with PyTorch on the same GPU, with the same network and the same numbers.

  scripts/compare_pytorch.py --neap build/release/neap                speed of ResNet-50 training, side by side
  scripts/compare_pytorch.py --neap build/release/neap --step-check   one training step of ResNet-18 and AlexNet

The speed of both is the median over the steps after the warm-up; each step copies a batch from pinned host memory.

The step check gives both programs the same safetensors weights and the same batch, lets each take one step of SGD in
fp32, and compares the loss, the running statistics and, because a step changes weights only a little, the *change* of
every parameter with PyTorch's in float64. Errors are |difference| / |expected|, norms over the tensor. Rounding flips
ReLUs near 0, so gradients of early layers differ between any two fp32 programs by far more than rounding; PyTorch's own
fp32 step shows by how much. neap passes if its error is at most NOISE_FACTOR times PyTorch's, plus FLOOR.
A batch file holds fp32 images in N, C, H, W order, then int32 labels.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic cuBLAS; read when CUDA starts

WARM_UP_STEPS = 10
TIMED_STEPS = 50
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
SPEED_KINDS = [("fp32", "nchw"), ("tf32", "nhwc")]

# neap's network and its extra arguments, for each torchvision network.
STEP_NETWORKS = {
    "resnet18": ["resnet18"],
    "alexnet": ["alexnet-torchvision", "--dropout", "0"],
}
STEP_BATCH = 32
LEARNING_RATE = 0.1  # large, so that rounding of the weights does not hide the gradients
NOISE_FACTOR = 4
FLOOR = 1e-5


def run_neap(neap, arguments):
    """Runs `neap train ... --json`; returns the last JSON object that it printed."""
    command = [neap, "train", *arguments, "--json"]
    environment = dict(os.environ)
    if "NEAP_LIBRARY_PATH" in environment:
        environment["LD_LIBRARY_PATH"] = environment["NEAP_LIBRARY_PATH"]
    result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}\nfailed with exit code {result.returncode}:\n{result.stdout}{result.stderr}")
    return last_json(result.stdout)


def last_json(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    for line in reversed(text.splitlines()):
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict):
            return record
    sys.exit(f"neap printed no JSON object:\n{text}")


def field(record, name):
    if name not in record:
        sys.exit(f"neap's JSON has no field '{name}', only: {', '.join(record)}")
    return float(record[name])


def set_precision(dtype):
    import torch
    torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
    torch.backends.cudnn.allow_tf32 = dtype == "tf32"


def sgd(model, learning_rate):
    import torch
    return torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)


def pytorch_images_per_second(device, batch, dtype, layout):
    import torch
    import torchvision
    set_precision(dtype)
    torch.backends.cudnn.benchmark = True
    memory_format = torch.channels_last if layout == "nhwc" else torch.contiguous_format
    torch.manual_seed(1)
    model = torchvision.models.resnet50().to(device, memory_format=memory_format).train()
    optimizer = sgd(model, 0.01)
    images = torch.randn(batch, 3, 224, 224).contiguous(memory_format=memory_format).pin_memory()
    labels = torch.randint(0, 1000, (batch,)).pin_memory()
    ends = []
    for _ in range(WARM_UP_STEPS + TIMED_STEPS + 1):
        x = images.to(device, non_blocking=True)
        y = labels.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record()
    torch.cuda.synchronize()
    times = [start.elapsed_time(end) for start, end in zip(ends[WARM_UP_STEPS:], ends[WARM_UP_STEPS + 1:])]
    return batch / (statistics.median(times) / 1000)


def compare_speed(arguments):
    import torch
    import torchvision
    print(f"{torch.cuda.get_device_name(arguments.device)}, PyTorch {torch.__version__}, torchvision "
          f"{torchvision.__version__}, cuDNN {torch.backends.cudnn.version()}, ResNet-50, batch {arguments.batch}")
    print(f"{'dtype':<6}{'layout':<8}{'PyTorch':>12}{'neap':>12}{'neap / PyTorch':>16}   (images/s)")
    for dtype, layout in SPEED_KINDS:
        pytorch = pytorch_images_per_second(arguments.device, arguments.batch, dtype, layout)
        torch.cuda.empty_cache()
        record = run_neap(arguments.neap, [
            "resnet50", "--data", "synthetic", "--device", arguments.device, "--batch", str(arguments.batch),
            "--dtype", dtype, "--layout", layout, "--steps", str(WARM_UP_STEPS + TIMED_STEPS), "--repeat-batch",
            *arguments.neap_arguments])
        neap = field(record, "images_per_second")
        print(f"{dtype:<6}{layout:<8}{pytorch:>12.1f}{neap:>12.1f}{neap / pytorch:>16.3f}", flush=True)
    return True


def make_model(network):
    """The network without parameters at 0 or 1, which would hide mistakes, and with dropout disabled."""
    import torch
    import torchvision
    torch.manual_seed(1)
    model = getattr(torchvision.models, network)().train()
    if network == "alexnet":
        model.avgpool = torch.nn.Identity()  # it is one at 224x224, but its backward is not deterministic
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.eval()
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def pytorch_step(network, weights, images, labels, device, dtype):
    """One step on the device; returns the loss and the state afterwards, in float64 on the host."""
    import torch
    model = make_model(network)
    model.load_state_dict(weights)
    model.to(device, dtype)
    optimizer = sgd(model, LEARNING_RATE)
    loss = torch.nn.functional.cross_entropy(model(images.to(device, dtype)), labels.to(device))
    loss.backward()
    optimizer.step()
    return loss.item(), {name: tensor.detach().double().cpu() for name, tensor in model.state_dict().items()}


def neap_step(arguments, network, weights, images, labels):
    from safetensors.torch import load_file, save_file
    import torch
    with tempfile.TemporaryDirectory() as folder:
        weights_in, weights_out, batch_file = (os.path.join(folder, name) for name in ("in.safetensors",
                                                                                      "out.safetensors", "batch"))
        save_file(weights, weights_in)
        with open(batch_file, "wb") as file:
            file.write(images.contiguous().numpy().astype("<f4").tobytes())
            file.write(labels.to(torch.int32).numpy().astype("<i4").tobytes())
        record = run_neap(arguments.neap, [
            *STEP_NETWORKS[network], "--device", arguments.device, "--batch", str(STEP_BATCH), "--dtype", "fp32",
            "--layout", "nchw", "--weights-in", weights_in, "--weights-out", weights_out, "--batch-file", batch_file,
            "--steps", "1", "--lr", str(LEARNING_RATE), "--momentum", str(MOMENTUM), "--weight-decay",
            str(WEIGHT_DECAY), *arguments.neap_arguments])
        return field(record, "loss"), {name: tensor.double() for name, tensor in load_file(weights_out).items()}


def relative_error(actual, expected):
    if actual.shape != expected.shape:
        sys.exit(f"shapes differ: {tuple(actual.shape)} and {tuple(expected.shape)}")
    scale = expected.norm().item()
    difference = (actual - expected).norm().item()
    if difference != difference:  # NaN
        return float("inf")
    return difference / scale if scale > 0 else difference


def compare_step(arguments, network):
    import torch
    set_precision("fp32")
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    weights = {name: tensor.clone() for name, tensor in make_model(network).state_dict().items()}
    images = torch.randn(STEP_BATCH, 3, 224, 224)
    labels = torch.randint(0, 1000, (STEP_BATCH,))

    exact_loss, exact = pytorch_step(network, weights, images, labels, arguments.device, torch.float64)
    torch_loss, expected = pytorch_step(network, weights, images, labels, arguments.device, torch.float32)
    torch.cuda.empty_cache()
    neap_loss, actual = neap_step(arguments, network, weights, images, labels)

    rows = [("loss", "value", abs(neap_loss - exact_loss) / abs(exact_loss),
             abs(torch_loss - exact_loss) / abs(exact_loss))]
    parameters = {name for name, _ in make_model(network).named_parameters()}
    for name, tensor in exact.items():
        if name.endswith("num_batches_tracked"):
            continue
        if name not in actual:
            sys.exit(f"neap's weights have no tensor '{name}'")
        before = weights[name].double() if name in parameters else torch.zeros_like(tensor)
        rows.append((name, "change" if name in parameters else "value",
                     relative_error(actual[name] - before, tensor - before),
                     relative_error(expected[name] - before, tensor - before)))
    return print_rows(network, rows)


def print_rows(network, rows):
    print(f"\n{network}, batch {STEP_BATCH}, one step in fp32: relative errors against PyTorch in float64")
    print(f"{'tensor':<44}{'of its':<9}{'neap':>12}{'PyTorch':>12}")
    passed = True
    for name, what, neap, pytorch in rows:
        ok = neap <= NOISE_FACTOR * pytorch + FLOOR
        passed = passed and ok
        print(f"{name:<44}{what:<9}{neap:>12.2e}{pytorch:>12.2e}{'' if ok else '  FAILED'}")
    print(f"{network}: {'passed' if passed else 'FAILED'}", flush=True)
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neap", default="build/release/neap", help="the command (default: %(default)s)")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--batch", type=int, default=128, help="for the speeds (default: %(default)s)")
    parser.add_argument("--step-check", action="store_true", help="compare one step instead of speeds")
    parser.add_argument("neap_arguments", nargs="*", help="more arguments for neap train, after --")
    arguments = parser.parse_args()
    if arguments.step_check:
        passed = all([compare_step(arguments, network) for network in STEP_NETWORKS])
    else:
        passed = compare_speed(arguments)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
