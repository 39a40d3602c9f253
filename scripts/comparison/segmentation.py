"""Training of nnU-Net on the volumes of scripts/example_volumes.py: the mean Dice of balls and boxes that neap reaches.

The network is the one for cubes of 24 voxels, with its loss and batch. neap evaluates the patch in the middle of each volume for
tests.
"""

import tempfile

import example_volumes

from .seeds import evaluations, print_table

ASKED = 0.95
ROWS = [("nnU-Net, AdamW", ["nnunet3d", "--image", "24", "--batch", "2", "--optimizer", "adamw", "--lr", "0.005",
                            "--lr-schedule", "cosine", "--warmup", "10", "--steps", "250"])]


def train(neap, device):
    """Prints the Dice; the exit code."""
    with tempfile.TemporaryDirectory(prefix="neap-volumes-") as folder:
        tests = example_volumes.write_volumes(folder)["test"]
        data = ["--data", f"volumes:{folder}"]
        found = evaluations(neap, device, [(name, [*arguments, *data]) for name, arguments in ROWS])
    scores = {training: measured["mean_foreground_dice"] or 0.0 for training, measured in found.items()}  # null: no class has one
    print_table({training: f"{score:.3f}" for training, score in scores.items()})
    thresholds = example_volumes.threshold_dice(tests)
    print(f"\nThe best two thresholds of brightness, for balls and for boxes, on the whole volumes: {thresholds:.3f}")
    return 0 if min(scores.values()) >= ASKED else 1
