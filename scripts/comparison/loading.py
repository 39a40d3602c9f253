"""The speed of reading photographs, beside PyTorch's, and of training on them, beside training on one batch repeatedly.

A round measures every program once, one after the other, because a shared machine's speed drifts; the medians of the rounds
count.
"""

import json
import os
import pathlib
import statistics
import sys
import time

from .cases import network_of
from .processes import LEAST_SECONDS, Deadline, Failure, field, neap_environment, result_of, run_limited, run_neap
from .speed import Results, device_name
from .table import markdown, ratio, text

NEAP = "neap"
PYTORCH = "PyTorch"
FOLDER = "folder"  # training on the photographs
REPEATED = "repeated"  # training on one synthetic batch
BATCH = 256  # of the loaders alone; image_folder_bench has the same
CHANNELS = 3
FED = 0.97  # from this share of the speed with a repeated batch on, the GPU does not wait for photographs
COMMAND = pathlib.Path(__file__).resolve().parent.parent / "compare_loading.py"


class Missing(Exception):
    """A program is not on this machine; the text says which."""


def bench(arguments, threads, seconds, limit_s):
    """Runs image_folder_bench, which makes the photographs if they are not there. Returns images/s by number of threads."""
    environment = {**neap_environment(), "NEAP_PHOTOGRAPHS": arguments.photographs,
                   "NEAP_PHOTOGRAPH_COUNT": str(arguments.images)}
    numbers = "|".join(map(str, threads))
    command = [arguments.bench, f"--benchmark_filter=^Train/crop/threads:({numbers})/", "--benchmark_format=json",
               f"--benchmark_min_time={seconds}"]
    ended = run_limited(command, limit_s, environment)
    if ended.code != 0:
        raise Failure(f"image_folder_bench: exit code {ended.code}: {ended.stderr.strip()}")
    try:
        runs = json.loads(ended.stdout)["benchmarks"]
    except (json.JSONDecodeError, KeyError):
        raise Failure(f"image_folder_bench printed no measurements: {ended.stderr.strip()}") from None
    failed = [run["error_message"] for run in runs if run.get("error_occurred")]
    if failed:
        raise Failure(f"image_folder_bench: {failed[0]}")
    return {int(run["name"].partition("threads:")[2].partition("/")[0]): run["items_per_second"] for run in runs}


def neap_loading(arguments, limit_s):
    speeds = bench(arguments, arguments.threads, arguments.seconds, limit_s)
    missing = [threads for threads in arguments.threads if threads not in speeds]
    if missing:
        raise Failure(f"image_folder_bench does not measure {missing[0]} threads")
    return {"images_per_second": [speeds[threads] for threads in arguments.threads]}


def pytorch_loading(arguments, limit_s):
    request = {"folder": arguments.photographs, "batch": BATCH, "seconds": arguments.seconds, "threads": arguments.threads}
    record = result_of([sys.executable, str(COMMAND), "--worker", json.dumps(request)], limit_s)
    if "missing" in record:
        raise Missing(record["missing"])
    return record


def training(arguments, data, limit_s):
    """The mean, because steps that wait for photographs alternate with those that do not."""
    case = arguments.training
    source = (["--data", f"imagefolder:{arguments.photographs}", "--augment", "--workers", str(arguments.threads[-1])]
              if data == FOLDER else ["--data", "synthetic", "--repeat-batch"])
    end = run_neap(arguments.neap, [network_of(case.network).neap, *source, "--device", arguments.device, "--batch",
                                    str(case.batch), "--dtype", case.dtype, "--layout", case.layout, "--steps",
                                    str(arguments.steps), "--database", "none"], limit_s)
    return {"images_per_second": field(end, "images_per_second_mean"), "median": field(end, "images_per_second"), "neap": end}


def copy_speed(arguments, case, limit_s):
    """Images/s that the device's link copies; None if it has none."""
    devices = result_of([arguments.neap, "devices", "--measure-copies", "--json"], limit_s, neap_environment())["devices"]
    copies = next((entry.get("measured_copies") for entry in devices if entry["device"] == arguments.device), None)
    side = network_of(case.network).image
    element_bytes = 2 if case.dtype in ("bf16", "fp16") else 4
    return copies and copies["to_device"] / (CHANNELS * side * side * element_bytes)


def loading_table(threads, speeds):
    """`speeds`: by program, a list of images/s by number of threads for each round."""
    def median(program, i):
        values = [of_round[i] for of_round in speeds[program]]
        return statistics.median(values) if values else None

    rows = []
    for i, number in enumerate(threads):
        neap, pytorch = median(NEAP, i), median(PYTORCH, i)
        rows.append({"threads": str(number), "neap, images/s": text(neap, ".0f"), "PyTorch": text(pytorch, ".0f"),
                     "neap / PyTorch": text(ratio(neap, pytorch), ".2f")})
    return markdown(rows)


def training_table(case, threads, speeds, decoding, copying):
    """`speeds`: of FOLDER and REPEATED, a list of images/s; `decoding` and `copying`: images/s of each alone, or None."""
    folder, repeated = (statistics.median(speeds[data]) if speeds[data] else None for data in (FOLDER, REPEATED))
    rows = [("training on one batch repeatedly", repeated), (f"training on photographs, {threads} threads", folder),
            (f"decoding alone, {threads} threads", decoding), ("copying to the GPU alone", copying)]
    title = f"{case.network}, batch {case.batch}, {case.dtype}"
    return markdown([{title: name, "images/s": text(speed, ".0f"), "of the first": text(ratio(speed, repeated), ".3f")}
                     for name, speed in rows]) + "\n" + bound(folder, repeated, decoding, copying)


def bound(folder, repeated, decoding, copying):
    """What limits training on photographs, in a sentence."""
    if not folder or not repeated:
        return "Not all of it was measured."
    if folder >= FED * repeated:
        return "The GPU is fed at full speed."
    limits = {name: speed for name, speed in (("decoding", decoding), ("copying to the GPU", copying)) if speed}
    least = min(limits, key=limits.get, default=None)
    if least and folder >= FED * limits[least]:
        return f"Training on photographs is as fast as {least} alone, which bounds it."
    return "Training on photographs is slower than each part alone: the parts share the host's cores and memory."


class Comparison:
    """The rounds, and what they have measured."""

    def __init__(self, arguments):
        self._arguments = arguments
        self._results = Results(arguments.results)
        self._gpu = device_name(arguments)
        self._deadline = Deadline(arguments.limit)
        self._speeds = {program: [] for program in (NEAP, PYTORCH, FOLDER, REPEATED)}
        self._has_pytorch = True
        self._copying = None
        self.passed = True

    def run(self):
        if not self._made_photographs():
            return
        for number in range(1, self._arguments.rounds + 1):
            begin = time.monotonic()
            self._round()
            next_takes = time.monotonic() - begin + LEAST_SECONDS
            if number < self._arguments.rounds and self._deadline.left() < next_takes:
                print(f"the limit ends the comparison after {number} of {self._arguments.rounds} rounds", flush=True)
                break
        self._print_tables()

    def _made_photographs(self):
        try:
            bench(self._arguments, self._arguments.threads[-1:], 0, self._limit())
        except (Failure, OSError) as failure:
            self._failed("photographs", failure)
        return self.passed

    def _round(self):
        self._measure(NEAP, lambda limit_s: neap_loading(self._arguments, limit_s))
        if self._has_pytorch:
            self._measure(PYTORCH, lambda limit_s: pytorch_loading(self._arguments, limit_s))
        if self._arguments.training is None:
            return
        for data in (FOLDER, REPEATED):
            self._measure(data, lambda limit_s, data=data: training(self._arguments, data, limit_s))
        if self._copying is None:
            try:
                self._copying = copy_speed(self._arguments, self._arguments.training, self._limit())
            except (Failure, OSError) as failure:
                self._failed("copying to the GPU", failure)

    def _limit(self):
        return self._deadline.limit(self._arguments.measurement_limit)

    def _measure(self, program, measure):
        begin = time.monotonic()
        try:
            record = measure(self._limit())
        except Missing as missing:
            self._has_pytorch = False
            print(f"PyTorch is not measured: {missing}", flush=True)
            return
        except (Failure, OSError) as failure:
            self._failed(program, failure)
            self._results.add({"kind": "loading", "program": program, "gpu": self._gpu, "error": str(failure)})
            return
        speed = record["images_per_second"]
        self._speeds[program].append(speed)
        shown = ", ".join(f"{value:.0f}" for value in (speed if isinstance(speed, list) else [speed]))
        print(f"{program}: {shown} images/s ({time.monotonic() - begin:.0f} s)", flush=True)
        self._results.add({"kind": "loading", "program": program, "gpu": self._gpu, "threads": self._arguments.threads,
                           **record})

    def _failed(self, program, failure):
        self.passed = False
        print(f"{program}: {failure}", flush=True)

    def _print_tables(self):
        arguments = self._arguments
        print(f"\n{self._gpu or 'no GPU'}, {len(os.sched_getaffinity(0))} cores\n")
        print(loading_table(arguments.threads, self._speeds))
        if arguments.training is not None:
            decoding = [of_round[-1] for of_round in self._speeds[NEAP]]
            print("\n" + training_table(arguments.training, arguments.threads[-1], self._speeds,
                                        statistics.median(decoding) if decoding else None, self._copying))


def compare(arguments):
    """Prints the tables; returns whether nothing failed."""
    comparison = Comparison(arguments)
    comparison.run()
    return comparison.passed
