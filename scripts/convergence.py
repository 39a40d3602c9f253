#!/usr/bin/env python3
"""The accuracy to which networks train on the digits of examples/data/digits, with every optimizer, as a table of Markdown.

    scripts/convergence.py [NEAP [DEVICE [ROW]]]     build/release/neap on the CPU by default; takes minutes
    scripts/convergence.py NEAP cuda:0 MobileNetV2   only rows whose name contains this
    JOBS=4 scripts/convergence.py                    four trainings at the same time, instead of one for each processor
    scripts/convergence.py text [DEVICE]             instead, the losses of a small GPT-2 on examples/data/sentences, and those of
                                                     PyTorch's (scripts/comparison/text.py); on cuda:0 by default

Each cell has the percentage of the 360 test images that are recognised after training with seeds 1, 2 and 3. The exit code is 1 if one
of those of ResNet-20 is below 97.5%, or if the losses on the text differ by more than 1%.
"""
import concurrent.futures
import json
import os
import subprocess
import sys

ASKED = 97.5
SEEDS = (1, 2, 3)
DTYPES = ("fp32", "bf16")
DIGITS = ["--data", "idx:examples/data/digits", "--channels", "1", "--classes", "10", "--batch", "64", "--augment", "--eval"]
RESNET = ["resnet-cifar", "--depth", "20", "--image", "16", "--epochs", "80", "--lr-schedule", "cosine", "--warmup", "20"]
MOBILENET = ["mobilenet_v2", "--image", "32", "--epochs", "60", "--lr-schedule", "cosine", "--warmup", "20"]
SGD = ["--lr", "0.1", "--weight-decay", "0.001"]
ADAMW = ["--optimizer", "adamw", "--lr", "0.005", "--weight-decay", "0.05"]
ROWS = [
    ("ResNet-20, SGD", RESNET + SGD),
    ("ResNet-20, SGD with Nesterov's momentum", RESNET + SGD + ["--nesterov"]),
    ("ResNet-20, AdamW", RESNET + ADAMW),
    ("ResNet-20, SGD, label smoothing 0.1", RESNET + SGD + ["--label-smoothing", "0.1"]),
    ("ResNet-20, SGD, averages of weights with decay 0.98", RESNET + SGD + ["--ema", "0.98"]),
    ("ResNet-20, SGD, gradients clipped at norm 1", RESNET + SGD + ["--clip-norm", "1"]),
    ("ResNet-20, AdamW with all of these", RESNET + ADAMW + ["--label-smoothing", "0.1", "--ema", "0.98", "--clip-norm", "1"]),
    ("MobileNetV2, AdamW", MOBILENET + ["--optimizer", "adamw", "--lr", "0.003", "--weight-decay", "0.05"]),
]


def percent(neap, device, arguments):
    command = [neap, "train", *arguments, *DIGITS, "--device", device, "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return 100 * json.loads(output.splitlines()[-1])["evaluation"]["accuracy"]


def main():
    if sys.argv[1:2] == ["text"]:
        from comparison import text  # pylint: disable=import-outside-toplevel  # needs PyTorch
        return text.compare(sys.argv[2] if len(sys.argv) > 2 else "cuda:0")
    neap = sys.argv[1] if len(sys.argv) > 1 else "build/release/neap"
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    rows = [row for row in ROWS if len(sys.argv) < 4 or sys.argv[3] in row[0]]
    if not rows:
        sys.exit(f"convergence.py: no row's name contains {sys.argv[3]!r}")
    trainings = {(name, dtype, seed): [*arguments, "--dtype", dtype, "--seed", str(seed)]
                 for name, arguments in rows for dtype in DTYPES for seed in SEEDS}
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        found = dict(zip(trainings, pool.map(lambda arguments: percent(neap, device, arguments), trainings.values())))
    print("| training |", " | ".join(DTYPES), "|")
    print("|---|" + "---|" * len(DTYPES))
    for name, _ in rows:
        cells = [" / ".join(f"{found[name, dtype, seed]:.1f}" for seed in SEEDS) for dtype in DTYPES]
        print(f"| {name} |", " | ".join(cells), "|")
    worst = min((value for (name, _, _), value in found.items() if name.startswith("ResNet")), default=ASKED)
    return 0 if worst >= ASKED else 1


if __name__ == "__main__":
    sys.exit(main())
