"""Runs the programs of the cases one after the other, each in a process of its own, and keeps what they measured."""

import concurrent.futures
import datetime
import json
import pathlib
import subprocess
import sys
import time

from .cases import COMPILE, EAGER, FLOOR, NEAP, NETWORKS, REDUCE_OVERHEAD
from .processes import Deadline, Failure, OutOfTime, field, neap_environment, result_of, run_limited, run_neap
from .table import GIB, speed_table

WARM_UP_STEPS = 10  # neap's median leaves out as many
LEARNING_RATE = "0.01"
# What the time limit must not end comes first: compiling takes the most time.
PASSES = ((NEAP, EAGER), (FLOOR,), (COMPILE, REDUCE_OVERHEAD))
COMMAND = pathlib.Path(__file__).resolve().parent.parent / "compare_pytorch.py"


def commit():
    """The commit of this tree, with -dirty if files differ from it. That neap was built from this tree is not known."""
    try:
        ended = subprocess.run(["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=COMMAND.parent,
                               capture_output=True, text=True, check=False)
    except OSError:  # no git
        return "unknown"
    return ended.stdout.strip() or "unknown"


def device_name(arguments):
    """What neap calls the device, such as "NVIDIA H200", which is also PyTorch's name; None if neap cannot say."""
    try:
        devices = result_of([arguments.neap, "devices", "--json"], 60, neap_environment()).get("devices", [])
    except (Failure, OSError):
        return None
    return next((entry["name"] for entry in devices if entry["device"] == arguments.device), None)


class Results:
    """A file of JSON lines, one for each measurement."""

    def __init__(self, path):
        self._path = pathlib.Path(path)
        self._commit = commit()
        self.earlier = self._read()
        self.records = []

    def _read(self):
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines() if line.strip()]

    def add(self, record):
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        record = {**record, "commit": self._commit, "time": now}
        self.records.append(record)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def profile(arguments, case, limit_s):
    """Times the kernels that neap chooses from; fills the database."""
    command = [arguments.neap, "profile", NETWORKS[case.network].neap, "--device", arguments.device, "--batch",
               str(case.batch), "--dtype", case.dtype, "--layout", case.layout, "--database", arguments.profile,
               "--divisions", "undivided"]
    ended = run_limited(command, limit_s, neap_environment())
    if ended.code != 0:
        raise Failure(f"neap profile: exit code {ended.code}: {ended.stderr.strip()}")


def neap_speed(arguments, case, deadline, gpus=1):
    """With several GPUs, the case's batch is that of each."""
    if arguments.profile:
        profile(arguments, case, deadline.limit(arguments.measurement_limit))
    device = arguments.device if gpus == 1 else ",".join(f"cuda:{gpu}" for gpu in range(gpus))
    batch = gpus * case.batch
    flags = [NETWORKS[case.network].neap, "--data", "synthetic", "--repeat-batch", "--device", device, "--batch",
             str(batch), "--dtype", case.dtype, "--layout", case.layout, "--steps",
             str(WARM_UP_STEPS + arguments.steps), "--lr", LEARNING_RATE, "--momentum", "0.9", "--weight-decay", "1e-4",
             "--database", arguments.profile or "none", *arguments.neap_arguments]
    end = run_neap(arguments.neap, flags, deadline.limit(arguments.measurement_limit))
    speed = field(end, "images_per_second")
    record = {"images_per_second": speed, "step_ms": 1000 * batch / speed,
              "peak_bytes": int(field(end, "measured_peak_bytes")),
              "predicted_peak_bytes": int(field(end, "predicted_peak_bytes")), "flags": flags, "neap": end}
    if end.get("predicted_images_per_second"):
        record["predicted_step_ms"] = 1000 * batch / end["predicted_images_per_second"]
    return record


def pytorch_measurement(arguments, case, program, deadline, warm_up=WARM_UP_STEPS, steps=None, gpus=1):
    request = {"network": case.network, "batch": case.batch, "dtype": case.dtype, "layout": case.layout,
               "program": program, "device": arguments.device, "warm_up": warm_up, "steps": steps or arguments.steps}
    return result_of([sys.executable, str(COMMAND), "--ranks", str(gpus), "--worker", json.dumps(request)],
                     deadline.limit(arguments.measurement_limit))


def compile_first(arguments, cases, deadline):
    """Compiles all compiled programs at the same time, each for one step; what is measured later finds the kernels in PyTorch's
    cache. What fails here fails again when it is measured."""
    compiled = [(case, program) for case in cases for program in case.programs if program in (COMPILE, REDUCE_OVERHEAD)]

    def run(case, program):
        try:
            pytorch_measurement(arguments, case, program, deadline, warm_up=1, steps=1)
        except Failure as failure:
            print(f"{case.network} {case.batch} {case.dtype} {program}: not compiled first: {failure}", flush=True)

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(compiled))) as pool:
        for case, program in compiled:
            pool.submit(run, case, program)
    print(f"compiled first in {time.monotonic() - begin:.0f} s", flush=True)


def measure(arguments, case, program, deadline):
    """The record of one program of a case; with the field `error` if there is nothing to report, and `out_of_time` if the
    time limits were the reason."""
    try:
        if program == NEAP:
            return neap_speed(arguments, case, deadline)
        return pytorch_measurement(arguments, case, program, deadline)
    except OutOfTime as failure:
        return {"error": str(failure), "out_of_time": True}
    except Failure as failure:
        return {"error": str(failure)}


def progress(case, program, record, seconds):
    if "error" in record:
        what = record["error"]
    elif program == FLOOR:
        what = f"{record['floor_ms']:.2f} ms of convolutions"
    else:
        what = f"{record['images_per_second']:.1f} images/s"
        if "peak_bytes" in record:
            what += f", {record['peak_bytes'] / GIB:.2f} GiB"
    print(f"{case.network} {case.batch} {case.dtype} {program}: {what} ({seconds:.0f} s)", flush=True)


def passed(records):
    """Whether every program ran. Only those that wait for the fast ones, floor and compiled, may be ended by a time limit, as
    long as any program ran at all."""
    failed = [record for record in records if "error" in record]
    return len(failed) < len(records) and all(
        record.get("out_of_time") and record["program"] not in (NEAP, EAGER) for record in failed)


def compare(arguments, cases):
    """Prints the table; returns whether passed() says so."""
    results = Results(arguments.results)
    gpu = device_name(arguments)
    deadline = Deadline(arguments.limit)
    if arguments.compile_first:
        compile_first(arguments, cases, deadline)
    for programs in PASSES:
        for case in cases:
            for program in [program for program in programs if program in case.programs]:
                begin = time.monotonic()
                record = measure(arguments, case, program, deadline)
                progress(case, program, record, time.monotonic() - begin)
                results.add({"kind": "speed", "network": case.network, "batch": case.batch, "dtype": case.dtype,
                             "program": program, "gpu": gpu, **record})
    print("\n" + speed_table(results.records), flush=True)
    return passed(results.records)
