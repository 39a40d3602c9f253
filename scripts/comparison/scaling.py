"""How the speed grows with the number of GPUs: each program on one GPU and on several, as a share of linear.

neap trains on all GPUs in one process (--device cuda:0,cuda:1), PyTorch with DistributedDataParallel in a process for each GPU.
The batch of a case is that of each GPU.
"""

import statistics
import time

from .cases import COMPILE, EAGER, NEAP
from .processes import Deadline, Failure
from .speed import Results, device_name, neap_speed, pytorch_measurement

PROGRAMS = (NEAP, EAGER, COMPILE)


def measure(arguments, case, program, gpus, deadline):
    if program == NEAP:
        return neap_speed(arguments, case, deadline, gpus)
    return pytorch_measurement(arguments, case, program, deadline, gpus=gpus)


def scaling_table(rows):
    """`rows`: (case, program, images per second on one GPU or None, on all or None, number of GPUs)."""
    lines = ["| network | batch each | type | program | 1 GPU, images/s | GPUs | images/s | of linear |", "|---" * 8 + "|"]
    for case, program, one, several, gpus in rows:
        numbers = [f"{value:,.0f}" if value else "-" for value in (one, several)]
        share = f"{100 * several / (gpus * one):.1f}%" if one and several else "-"
        columns = [case.network, case.batch, case.dtype, program, numbers[0], gpus, numbers[1], share]
        lines.append(f"| {' | '.join(map(str, columns))} |")
    return "\n".join(lines)


def compare(arguments, cases):
    """Prints the table; returns whether everything was measured."""
    results = Results(arguments.results)
    gpu = device_name(arguments)
    deadline = Deadline(arguments.limit)
    rows, passed = [], True
    for case in cases:
        for program in [program for program in PROGRAMS if program in case.programs]:
            speeds = {1: [], arguments.gpus: []}
            # Alternating, because a shared machine's speed drifts.
            for gpus in (1, arguments.gpus) * arguments.rounds:
                begin = time.monotonic()
                try:
                    record = measure(arguments, case, program, gpus, deadline)
                    speeds[gpus].append(record["images_per_second"])
                    what = f"{record['images_per_second']:.1f} images/s"
                except Failure as failure:
                    record, passed, what = {"error": str(failure)}, False, str(failure)
                print(f"{case.network} {case.batch} {case.dtype} {program} on {gpus}: {what} "
                      f"({time.monotonic() - begin:.0f} s)", flush=True)
                results.add({"kind": "scaling", "network": case.network, "batch": case.batch, "dtype": case.dtype,
                             "program": program, "gpu": gpu, "gpus": gpus, **record})
            one, several = (statistics.median(speeds[gpus]) if speeds[gpus] else None for gpus in (1, arguments.gpus))
            rows.append((case, program, one, several, arguments.gpus))
    print("\n" + scaling_table(rows), flush=True)
    return passed
