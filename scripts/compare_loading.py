#!/usr/bin/env python3
"""Compares neap's reading of photographs with PyTorch's, and training on them with training on one batch repeatedly.

  scripts/compare_loading.py                              both, on this machine's GPU
  scripts/compare_loading.py --training none              reading alone, which needs no GPU
  scripts/compare_loading.py --threads 1,16 --rounds 5

The photographs are JPEG files of ImageNet's sizes (bench/photographs.h), made in a temporary folder, or taken from
--photographs, where they are made if the folder does not exist. Both programs read batches of 256 from them: random crops of
224 x 224, mirrored or not, and normalised (PyTorch: ImageFolder, RandomResizedCrop, RandomHorizontalFlip, ToTensor, Normalize
and DataLoader), with equally many threads or workers. neap's reading is measured by the program image_folder_bench.

Training is `neap train --data imagefolder:... --augment` with the most threads, and `--data synthetic --repeat-batch`. If the
first is slower, the last line says what bounds it.

A round measures all programs one after the other, and the table has the medians of the rounds; --limit ends the comparison
between two rounds. Without PyTorch neap is measured alone. The exit code is 1 if something failed.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

from comparison import cases, loading

NONE = "none"
THREADS = (1, 2, 4, 8, 16)  # what image_folder_bench measures


def thread_counts(text):
    counts = sorted({int(count) for count in text.split(",")})
    unknown = [count for count in counts if count not in THREADS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} threads are not measured, only {', '.join(map(str, THREADS))}")
    return counts


def training_case(text):
    return None if text == NONE else cases.parse_case(text)


def arguments_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neap", default="build/release/neap", help="the command (default: %(default)s)")
    parser.add_argument("--bench", default="build/release/bench/image_folder_bench", help="(default: %(default)s)")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--photographs", metavar="DIR", help="(default: a temporary folder)")
    parser.add_argument("--images", type=int, default=2000, help="photographs that are made (default: %(default)s)")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=thread_counts, default=[count for count in THREADS if count <= cores],
                        help="of both programs, separated by commas (default: 1,2,4,8,16, as far as there are cores)")
    parser.add_argument("--training", type=training_case, default="resnet50:256:bf16", metavar="CASE",
                        help=f"NET:BATCH:DTYPE, or {NONE} (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=60, help="of a training, with 10 that warm up (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement of reading (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="of all rounds together (none)")
    parser.add_argument("--measurement-limit", type=float, default=180, metavar="SECONDS",
                        help="of one program in a round (default: %(default)s)")
    parser.add_argument("--results", default="build/compare.jsonl", metavar="FILE",
                        help="measurements are appended to it as lines of JSON (default: %(default)s)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # PyTorch's half, in a process of its own
    return parser


def work(request):
    """Runs PyTorch's half and prints its record."""
    try:
        from comparison import pytorch_loading
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    print(json.dumps(pytorch_loading.measure(request)))


def main():
    arguments = arguments_parser().parse_args()
    if arguments.worker:
        work(json.loads(arguments.worker))
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.photographs = arguments.photographs or str(pathlib.Path(folder) / "photographs")
        sys.exit(0 if loading.compare(arguments) else 1)


if __name__ == "__main__":
    main()
