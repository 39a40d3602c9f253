#!/usr/bin/env python3
"""Finds the largest batches that PyTorch trains in a budget of the GPU's memory, with and without checkpointing, and the deepest
ResNet of SuperNeurons' rule: what `neap peak-batch`, `neap peak-depth` and `neap paper sn-table4` and `sn-table5` stand beside.

  scripts/pytorch_peaks.py                                      seven networks in 12 GiB, fp32 and bf16, and depths at batch 16
  scripts/pytorch_peaks.py --nets resnet50 --dtypes fp32        one of them
  scripts/pytorch_peaks.py --nets resnet --depth-batch 16       only the depths

A batch is a multiple of --unit. It fits if two steps of training run within the caching allocator's limit; the CUDA context and
what the libraries take for themselves are not in it, as they are not in neap's budget. Each search runs in a process of its own
under --limit. Every result is a line of JSON on the standard output, with what was tried. Needs a GPU and PyTorch.
"""

import argparse
import json
import sys

from comparison import peaks, processes
from comparison.cases import IMAGES, NETWORKS

NETS = ("alexnet", "vgg16", "inception_v4", "resnet50", "resnet101", "resnet152", "densenet121")
DEEP = "resnet"  # SuperNeurons' ResNet, whose depth is searched
NOT_CHECKPOINTED = ("alexnet", "vgg16")  # they have no blocks


def arguments_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", default=",".join((*NETS, DEEP)), help="separated by commas (default: %(default)s)")
    parser.add_argument("--dtypes", default="fp32,bf16", help="separated by commas (default: %(default)s)")
    parser.add_argument("--budget-gib", type=float, default=12, help="default: %(default)s")
    parser.add_argument("--unit", type=int, default=16, help="batches are multiples of it (default: %(default)s)")
    parser.add_argument("--depth-batch", type=int, default=16, help="the batch of the deepest ResNet (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="of one search (default: %(default)s)")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--search", help=argparse.SUPPRESS)  # one request, in a process of its own
    return parser


def requests(arguments):
    """What is searched, in order."""
    known = (*(name for name, network in NETWORKS.items() if network.kind == IMAGES), DEEP)
    for network in arguments.nets.split(","):
        if network not in known:
            sys.exit(f"pytorch_peaks: no network {network}; known: {', '.join(known)}")
        for dtype in arguments.dtypes.split(","):
            for checkpoint in (False, True):
                if checkpoint and network in NOT_CHECKPOINTED:
                    continue
                yield {"network": network, "dtype": dtype, "checkpoint": checkpoint, "device": arguments.device,
                       "budget_bytes": int(arguments.budget_gib * 2**30), "unit": arguments.unit, "most": 1 << 14,
                       "batch": arguments.depth_batch if network == DEEP else None}


def main():
    arguments = arguments_parser().parse_args()
    if arguments.search is not None:
        print(json.dumps(peaks.search(json.loads(arguments.search))))
        return 0
    failed = False
    for request in requests(arguments):
        try:
            ended = processes.run_limited([sys.executable, __file__, "--search", json.dumps(request)], arguments.limit)
        except processes.OutOfTime as error:
            ended, reason = None, str(error)
        if ended is not None and ended.code == 0:
            print(ended.stdout.strip().splitlines()[-1], flush=True)
            continue
        failed = True
        lines = [] if ended is None else ended.stderr.strip().splitlines()
        print(json.dumps({**request, "error": lines[-1] if lines else reason if ended is None else f"exit code {ended.code}"}),
              flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
