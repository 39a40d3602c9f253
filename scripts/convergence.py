#!/usr/bin/env python3
"""The accuracy to which networks train on the digits of examples/data/digits, with every optimizer, as a table of Markdown.

    scripts/convergence.py [NEAP [DEVICE [ROW]]]     build/release/neap on the CPU by default; takes minutes
    scripts/convergence.py NEAP cuda:0 MobileNetV2   only rows whose name contains this
    JOBS=4 scripts/convergence.py                    four trainings at the same time, instead of one for each processor
    scripts/convergence.py text [DEVICE]             instead, the losses of a small GPT-2 on examples/data/sentences, and those of
                                                     PyTorch's (scripts/comparison/text.py); on cuda:0 by default
    scripts/convergence.py volumes [NEAP [DEVICE]]   instead, the mean Dice of nnU-Net on noisy volumes that are made for it
                                                     (scripts/comparison/segmentation.py); on the CPU by default

Each cell has the percentage of the 360 test images that are recognised, or the Dice, after training with seeds 1, 2 and 3. The exit
code is 1 if one of those of ResNet-20 is below 97.5%, if the losses on the text differ by more than 1%, or if a Dice is below 0.95.
"""
import sys

from comparison import segmentation
from comparison.seeds import evaluations, print_table

ASKED = 97.5
DIGITS = ["--data", "idx:examples/data/digits", "--channels", "1", "--classes", "10", "--batch", "64", "--augment"]
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


def command_and_device(arguments):
    return (*arguments, *("build/release/neap", "cpu")[len(arguments):])[:2]


def main():
    if sys.argv[1:2] == ["text"]:
        from comparison import text  # pylint: disable=import-outside-toplevel  # needs PyTorch
        return text.compare(sys.argv[2] if len(sys.argv) > 2 else "cuda:0")
    if sys.argv[1:2] == ["volumes"]:
        return segmentation.train(*command_and_device(sys.argv[2:]))
    rows = [(name, [*arguments, *DIGITS]) for name, arguments in ROWS if len(sys.argv) < 4 or sys.argv[3] in name]
    if not rows:
        sys.exit(f"convergence.py: no row's name contains {sys.argv[3]!r}")
    found = evaluations(*command_and_device(sys.argv[1:]), rows)
    percents = {training: 100 * measured["accuracy"] for training, measured in found.items()}
    print_table({training: f"{percent:.1f}" for training, percent in percents.items()})
    worst = min((value for (name, _, _), value in percents.items() if name.startswith("ResNet")), default=ASKED)
    return 0 if worst >= ASKED else 1


if __name__ == "__main__":
    sys.exit(main())
