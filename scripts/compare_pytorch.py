#!/usr/bin/env python3
"""Compares neap with PyTorch on the same GPU, with the same network and the same numbers.

  scripts/compare_pytorch.py --cases headline                  speed and memory, side by side
  scripts/compare_pytorch.py --cases resnet50:256:bf16,vgg16:128:fp16:neap+compile
  scripts/compare_pytorch.py --cases memory                    volumes, transformers and GPT-2: also with checkpoints, in budgets
  scripts/compare_pytorch.py --cases nnunet3d@192:2:bf16       nnU-Net with another patch
  scripts/compare_pytorch.py --cases headline --floor          only the floor: the time of the convolutions alone
  scripts/compare_pytorch.py --cases resnet50:256:bf16 --gpus 2    on one GPU and on two, as a share of linear
  scripts/compare_pytorch.py --table                           the latest measurements of the results file, again
  scripts/compare_pytorch.py --step-check --dtype bf16         one training step against PyTorch in float64
  scripts/compare_pytorch.py --step-check --onnx --batches 5   the same of networks that neap reads from what PyTorch exports
  scripts/compare_pytorch.py --step-check --networks nnunet3d@64,unet3d@64,gpt2    the same of volumes and tokens

A case is NET:BATCH:DTYPE[:PROGRAM+...] or a set: basic, headline, nets, small, small-tf32, small-bf16, mobile, memory, which is
memory-volumes, memory-images and memory-tokens. Networks have PyTorch's names (alexnet is neap's alexnet-torchvision), those of
volumes and tokens neap's; NET@SIZE is another size of images, volumes or sequences. Programs: neap, eager, floor, compile, and
for batches up to 32 reduce-overhead, which is torch.compile with CUDA graphs. The sets of memory, and all cases of volumes and
tokens, have neap, eager, compile, checkpoint, which is eager with every block computed again in backward, and neap within two
budgets: neap-in-checkpoint in the bytes of checkpoint's peak, and neap-in-third in a third of eager's, of this run or else
of the results file. Arguments after -- are passed to neap train.

The speed of both is the median over the steps after the warm-up of 10. PyTorch's batch stays on the GPU, in the case's type and
layout; neap copies one from pinned host memory in every step. Both train channels-last except in fp32; of volumes PyTorch is
measured in both layouts, and the faster counts. 16-bit types are PyTorch's autocast, in fp16 with a GradScaler; cudnn.benchmark is
on. Images are trained with cross-entropy and SGD with momentum, and transformers, ConvNeXt and GPT-2 with AdamW (PyTorch's fused
ones); nnU-Net with Dice, cross-entropy, deep supervision and Nesterov's momentum, without its clipping of gradients, and
MLPerf's 3-D U-Net with its loss and the same optimizer. GPT-2 has no dropout.

Each program runs in a process of its own under --measurement-limit; --limit ends the whole run in time, with compiled programs
last, and the table has "-" for what is missing, "missing" for a network that neap nets does not list, and "no memory". The exit
code is 1 if a program failed, if neap or a budget of neap had too little memory, if a limit ended neap or PyTorch eager, or if
nothing was measured. Peaks are of tensors and workspaces in the timed steps, without what the libraries take for
themselves. "prediction" is by how much neap's predicted step is longer than the measured one. The floor runs each distinct
convolution with cuDNN's search (scripts/comparison/floor.py).

Every measurement is a line of JSON in the results file, with the GPU and the commit of this tree, marked -dirty if files differ
from it. It is for you to build neap from that tree.

The step check gives both programs the same safetensors weights and the same batch, lets each take one step of SGD, and compares
the loss, the running statistics and, because a step changes weights only a little, the *change* of every parameter with
PyTorch's in float64. scripts/comparison/step_rule.py states which errors pass.
"""

import argparse
import json
import os
import sys

from comparison import cases, processes, scaling, speed, table

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic cuBLAS; read when CUDA starts


def arguments_parser():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neap", default="build/release/neap", help="the command (default: %(default)s)")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--results", default="build/compare.jsonl", metavar="FILE",
                        help="measurements are appended to it as lines of JSON (default: %(default)s)")
    parser.add_argument("--cases", default="basic", help="what to compare, separated by commas (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="timed steps (default: %(default)s)")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="of the whole comparison of speeds (none)")
    parser.add_argument("--measurement-limit", type=float, default=180, metavar="SECONDS",
                        help="of one program of one case (default: %(default)s)")
    parser.add_argument("--profile", metavar="FILE", help="let neap time the kernels of each case first, and choose by the "
                        "times in this database (default: kernels as the library chooses)")
    parser.add_argument("--compile-first", action="store_true", help="compile what is compiled at the same time, before anything "
                        "is measured; PyTorch's cache then shortens each program's start")
    parser.add_argument("--gpus", type=int, metavar="N", help="compare one GPU with N, each with the batch of the case")
    parser.add_argument("--rounds", type=int, default=1, help="of the comparison of GPUs; medians count (default: %(default)s)")
    parser.add_argument("--floor", action="store_true", help="measure only the convolutions alone")
    parser.add_argument("--table", action="store_true", help="print the latest measurements of the results file, measure nothing")
    parser.add_argument("--step-check", action="store_true", help="compare one step instead of speeds")
    parser.add_argument("--dtype", default="fp32", choices=cases.DTYPES, help="of the step check (default: %(default)s)")
    parser.add_argument("--networks", help="of the step check (fp32: resnet18,alexnet; else resnet50,densenet121,vgg16,alexnet)")
    parser.add_argument("--onnx", action="store_true", help="let neap read the networks of the step check from the ONNX files "
                        "that PyTorch exports (default networks: sixteen)")
    parser.add_argument("--batch", type=int, help="of the step check (32 images, 2 volumes, 2 sequences)")
    parser.add_argument("--batches", type=int, default=1, metavar="N", help="of the step check, each from the same weights "
                        "(default: %(default)s)")
    parser.add_argument("--loss-scale", type=float, default=1024, help="PyTorch's, of the step check in fp16 (%(default)g)")
    parser.add_argument("--ranks", type=int, default=1, help=argparse.SUPPRESS)  # of a worker
    parser.add_argument("--worker", help=argparse.SUPPRESS)  # one measurement of PyTorch, in a process of its own
    parser.add_argument("neap_arguments", nargs="*", help="more arguments for neap train, after --")
    return parser


def work(request):
    """Runs one measurement of PyTorch and prints its record."""
    if request["program"] == cases.FLOOR:
        from comparison import floor as program
    else:
        from comparison import pytorch_speed as program
    record = program.measure(request)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(record), flush=True)


def check_steps(arguments):
    from comparison import step_check
    if arguments.batches < 1:
        raise ValueError(f"--batches {arguments.batches} must be at least 1")
    names = arguments.networks or step_check.default_networks(arguments.dtype, arguments.onnx)
    networks = [cases.network_name(name) for name in names.split(",")]
    step_check.check_networks(networks, arguments.onnx)
    return step_check.compare(arguments, arguments.dtype, networks)


def compare_speeds(arguments):
    chosen = cases.parse_cases(arguments.cases)
    if arguments.floor:
        others = [case.network for case in chosen if cases.network_of(case.network).kind != cases.IMAGES]
        if others:
            raise ValueError(f"--floor is that of images, not of {', '.join(others)}")
        chosen = [cases.Case(*key, (cases.FLOOR,)) for key in dict.fromkeys(case.key for case in chosen)]
    return scaling.compare(arguments, chosen) if arguments.gpus else speed.compare(arguments, chosen)


def main():
    parser = arguments_parser()
    arguments = parser.parse_args()
    if arguments.worker and arguments.ranks > 1:
        sys.exit(processes.run_as_ranks([sys.executable, __file__, "--worker", arguments.worker], arguments.ranks))
    if arguments.worker:
        work(json.loads(arguments.worker))
        return
    if arguments.table:
        print(table.speed_table(speed.Results(arguments.results).earlier))
        return
    try:
        passed = check_steps(arguments) if arguments.step_check else compare_speeds(arguments)
    except ValueError as error:
        parser.error(str(error))
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
