#!/usr/bin/env python3
"""Compares the training of two builds of the command on this machine's GPU: speed, peak memory, and losses bit by bit.

    scripts/compare_builds.py OLD NEW                         five networks (some minutes)
    scripts/compare_builds.py --rounds 5 OLD NEW mobilenet_v2:256:bf16
                                                              some cases: NETWORK:BATCH:TYPE

OLD and NEW are commands, such as build/release/neap, with their libraries in place (scripts/gpu_environment.sh). Both train on one
synthetic batch, in turns, so that what else happens on the machine meets both; the table has the best round of each. Speeds are
medians over the steps of a run, without measuring kernels first, so both run the engines of the same times. Losses are those of
a training in strict mode. Exit code 1 if a peak or a loss differs, or a speed by more than --tolerance (a fraction).
"""
import argparse
import json
import subprocess
import sys

CASES = ["resnet50:256:bf16", "resnet50:256:tf32", "mobilenet_v2:256:bf16", "densenet121:128:bf16", "vgg16:128:bf16"]


def train(program, case, steps, *flags):
    """The objects of JSON that the command prints: one for each line of progress, and one at the end."""
    network, batch, dtype = case.split(":")
    command = [program, "train", network, "--batch", batch, "--dtype", dtype, "--layout", "nhwc", "--data", "synthetic", "--repeat-batch",
               "--steps", str(steps), "--measure", "0", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"compare_builds: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def losses(program, case, arguments):
    lines = train(program, case, arguments.strict_steps, "--device", arguments.device, "--strict", "--log-every", "1")
    return [line["loss_text"] for line in lines if line.get("event") == "step"]


def compare(case, arguments):
    """The row of the table, and whether the builds agree."""
    ends = [[], []]
    for _ in range(arguments.rounds):
        for side, program in enumerate((arguments.old, arguments.new)):
            ends[side].append(train(program, case, arguments.steps, "--device", arguments.device)[-1])
    speeds = [max(end["images_per_second"] for end in side) for side in ends]
    peaks = [side[-1]["measured_peak_bytes"] for side in ends]
    same = losses(arguments.old, case, arguments) == losses(arguments.new, case, arguments)
    gain = speeds[1] / speeds[0] - 1
    row = (f"| {case} | {speeds[0]:.0f} | {speeds[1]:.0f} | {gain:+.2%} | {peaks[0] / 2**30:.3f} | {peaks[1] / 2**30:.3f} "
           f"| {'equal' if same else 'DIFFER'} |")
    return row, same and peaks[0] == peaks[1] and abs(gain) <= arguments.tolerance


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    parser.add_argument("cases", metavar="CASE", nargs="*", default=CASES)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=60, help="of a round (%(default)s)")
    parser.add_argument("--strict-steps", type=int, default=40, help="whose losses are compared (%(default)s)")
    parser.add_argument("--tolerance", type=float, default=0.005, help="(%(default)s)")
    arguments = parser.parse_args()
    print("| network, batch, type | images/s: old | new | gain | peak, GiB: old | new | strict losses |\n|---|---|---|---|---|---|---|")
    agree = True
    for case in arguments.cases:
        row, alike = compare(case, arguments)
        print(row, flush=True)
        agree = agree and alike
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
