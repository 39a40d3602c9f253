#!/usr/bin/env python3
"""Writes noisy volumes with balls and boxes in them, and a class for each voxel, as neap reads volumes:DIR (docs/data.md).

    scripts/example_volumes.py DIR      30 volumes for training and 10 for tests; the same bytes on every machine

DIR/train/images and DIR/test/images have volumes of 32x32x32 voxels, the folders labels beside them their classes: 1 in balls, 2
in boxes, 0 elsewhere. Boxes are brighter than balls, and balls than the rest, but the noise is so large that the brightness of a
voxel alone does not tell what it is: threshold_dice() says how well it does.
"""
import itertools
import pathlib
import random
import sys

EDGE = 32
VOLUMES = {"train": 30, "test": 10}
BACKGROUND, BALL, BOX = 0, 1, 2
BRIGHTNESS = {BACKGROUND: 100, BALL: 112, BOX: 120}
NOISE_BITS = 64  # as many coins are thrown for a voxel: the noise's standard deviation is half of the root, 4
OBJECTS = 8  # that are tried; one that touches another is left out
HALF_EXTENTS = (4, 6)  # of balls in all directions the same one, of boxes along each axis another


def place_objects(draw):
    """The class, the middle and the half extents of each."""
    placed = []
    for _ in range(OBJECTS):
        label = draw.randint(BALL, BOX)
        half = [draw.randint(*HALF_EXTENTS)] * 3 if label == BALL else [draw.randint(*HALF_EXTENTS) for _ in range(3)]
        middle = [draw.randint(extent, EDGE - 1 - extent) for extent in half]
        if all(any(abs(a - b) > h + g + 1 for a, b, h, g in zip(middle, at, half, size)) for _, at, size in placed):
            placed.append((label, middle, half))
    return placed


def draw_volume(draw):
    """The brightness of each voxel, and its class."""
    labels = bytearray(EDGE**3)
    for label, middle, half in place_objects(draw):
        for offset in itertools.product(*(range(-extent, extent + 1) for extent in half)):
            if label == BOX or sum(x * x for x in offset) <= half[0]**2:
                z, y, x = (a + b for a, b in zip(middle, offset))
                labels[(z * EDGE + y) * EDGE + x] = label
    noise = (bin(draw.getrandbits(NOISE_BITS)).count("1") - NOISE_BITS // 2 for _ in labels)
    return bytes(BRIGHTNESS[label] + shift for label, shift in zip(labels, noise)), bytes(labels)


def draw_volumes():
    """The volumes of each split."""
    draw = random.Random(1)
    return {split: [draw_volume(draw) for _ in range(number)] for split, number in VOLUMES.items()}


def threshold_dice(volumes):
    """The mean Dice of balls and boxes if voxels are balls from one brightness on, and boxes from another one on, with those two
    that are best for these volumes."""
    counts = [[0] * len(BRIGHTNESS) for _ in range(256)]
    for voxels, labels in volumes:
        for voxel, label in zip(voxels, labels):
            counts[voxel][label] += 1
    # How many voxels of each class are below each brightness.
    below = [[sum(column) for column in zip([0] * len(BRIGHTNESS), *counts[:bright])] for bright in range(257)]

    def dice(label, first, last):
        taken = [b - a for a, b in zip(below[first], below[last])]
        return 2 * taken[label] / (sum(taken) + below[256][label])

    return max((dice(BALL, low, high) + dice(BOX, high, 256)) / 2
               for low, high in itertools.combinations_with_replacement(range(256), 2))


def write_npy(path, values):
    header = repr({"descr": "|u1", "fortran_order": False, "shape": (EDGE, EDGE, EDGE)}).encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + values)


def write_volumes(folder):
    """Returns what it has written."""
    drawn = draw_volumes()
    for split, volumes in drawn.items():
        for kind, name in enumerate(("images", "labels")):
            place = pathlib.Path(folder, split, name)
            place.mkdir(parents=True, exist_ok=True)
            for number, volume in enumerate(volumes):
                write_npy(place / f"{number:02}.npy", volume[kind])
    return drawn


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    DRAWN = write_volumes(sys.argv[1])
    print(f"two thresholds on brightness have a mean Dice of {threshold_dice(DRAWN['test']):.3f} on the volumes for tests")
