"""Runs the programs of the cases one after the other, each in a process of its own, and keeps what they measured."""

import array
import concurrent.futures
import contextlib
import datetime
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from .cases import BUDGETS, CHECKPOINT, COMPILE, EAGER, FLOOR, NEAP, REDUCE_OVERHEAD, TOKENS, network_of
from .processes import (Deadline, Failure, OutOfTime, field, is_memory_failure, neap_environment, result_of, run_limited,
                        run_neap)
from .table import GIB, layout_of, program_text, speed_table

WARM_UP_STEPS = 10  # neap's median leaves out as many
# What the time limit must not end comes first: compiling takes the most time. Budgets come behind the peaks that they are.
PASSES = ((NEAP, EAGER), (CHECKPOINT,), tuple(BUDGETS), (FLOOR,), (COMPILE, REDUCE_OVERHEAD))
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


def networks_of_neap(arguments):
    """The names that `neap nets` lists; None if it cannot say."""
    try:
        listed = result_of([arguments.neap, "nets", "--json"], 60, neap_environment()).get("nets", [])
    except (Failure, OSError):
        return None
    return {entry["net"] for entry in listed} or None


@contextlib.contextmanager
def synthetic_data(network, batch):
    """--data for a network: neap makes images and volumes itself; tokens are a file, as long as a batch."""
    if network.kind != TOKENS:
        yield "synthetic"
        return
    with tempfile.TemporaryDirectory() as folder:
        tokens = random.Random(1).choices(range(network.classes), k=batch * network.image + 1)
        write_tokens(folder, tokens)
        yield f"tokens:{folder}"


def write_tokens(folder, tokens):
    """The tokens that neap trains on in --data tokens:FOLDER: little-endian uint16."""
    stored = array.array("H", tokens)
    if sys.byteorder == "big":
        stored.byteswap()
    (pathlib.Path(folder) / "train.bin").write_bytes(stored.tobytes())


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
    network = network_of(case.network)
    command = [arguments.neap, "profile", network.neap, *network.flags, "--device", arguments.device, "--batch",
               str(case.batch), "--dtype", case.dtype, "--layout", case.layout, "--database", arguments.profile,
               "--divisions", "undivided"]
    ended = run_limited(command, limit_s, neap_environment())
    if ended.code != 0:
        raise Failure(f"neap profile: exit code {ended.code}: {ended.stderr.strip()}")


def neap_speed(arguments, case, deadline, gpus=1, budget_bytes=None):
    """With several GPUs, the case's batch is that of each."""
    if arguments.profile:
        profile(arguments, case, deadline.limit(arguments.measurement_limit))
    network = network_of(case.network)
    device = arguments.device if gpus == 1 else ",".join(f"cuda:{gpu}" for gpu in range(gpus))
    batch = gpus * case.batch
    with synthetic_data(network, batch) as data:
        flags = [network.neap, *network.flags, "--data", data, "--repeat-batch", "--device", device, "--batch",
                 str(batch), "--dtype", case.dtype, "--layout", case.layout, "--steps",
                 str(WARM_UP_STEPS + arguments.steps), *network.optimizer.flags(), "--database", arguments.profile or "none",
                 *([] if budget_bytes is None else ["--budget", str(budget_bytes)]), *arguments.neap_arguments]
        end = run_neap(arguments.neap, flags, deadline.limit(arguments.measurement_limit))
    speed = field(end, "images_per_second")
    record = {"images_per_second": speed, "step_ms": 1000 * batch / speed,
              "peak_bytes": int(field(end, "measured_peak_bytes")),
              "predicted_peak_bytes": int(field(end, "predicted_peak_bytes")), "flags": flags, "neap": end}
    if end.get("predicted_images_per_second"):
        record["predicted_step_ms"] = 1000 * batch / end["predicted_images_per_second"]
    if budget_bytes is not None:
        record["budget_bytes"] = budget_bytes
    return record


def pytorch_measurement(arguments, case, program, deadline, warm_up=WARM_UP_STEPS, steps=None, gpus=1, layout=None):
    request = {"network": case.network, "batch": case.batch, "dtype": case.dtype, "layout": layout or case.layout,
               "program": program, "device": arguments.device, "warm_up": warm_up, "steps": steps or arguments.steps}
    return result_of([sys.executable, str(COMMAND), "--ranks", str(gpus), "--worker", json.dumps(request)],
                     deadline.limit(arguments.measurement_limit))


def compile_first(arguments, cases, deadline):
    """Compiles all compiled programs at the same time, each for one step; what is measured later finds the kernels in PyTorch's
    cache. What fails here fails again when it is measured."""
    compiled = [(case, *run) for case in cases for run in case.runs((COMPILE, REDUCE_OVERHEAD))]

    def run(case, program, layout):
        try:
            pytorch_measurement(arguments, case, program, deadline, warm_up=1, steps=1, layout=layout)
        except Failure as failure:
            print(f"{case.network} {case.batch} {case.dtype} {program}: not compiled first: {failure}", flush=True)

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(compiled))) as pool:
        for each in compiled:
            pool.submit(run, *each)
    print(f"compiled first in {time.monotonic() - begin:.0f} s", flush=True)


def budget_of(case, program, gpu, records):
    """The bytes that a program of neap may take: the smallest peak of PyTorch's in any layout on this GPU, or a part of it. None
    if no such peak is known."""
    of, part = BUDGETS[program]
    peaks = {layout_of(record): record["peak_bytes"] for record in records
             if record.get("kind") == "speed" and (record["network"], record["batch"], record["dtype"]) == case.key and
             record["program"] == of and record.get("gpu") == gpu and "peak_bytes" in record}
    return min(peaks.values()) // part if peaks else None


class Comparison:
    """The measurements of all cases, each in a process of its own."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.results = Results(arguments.results)
        self.gpu = device_name(arguments)
        self.networks = networks_of_neap(arguments)
        self.deadline = Deadline(arguments.limit)

    def neap(self, case, program):
        name = network_of(case.network).neap
        if self.networks is not None and name not in self.networks:
            return {"error": f"neap nets does not list {name}", "missing": True}
        if program not in BUDGETS:
            return neap_speed(self.arguments, case, self.deadline)
        budget = budget_of(case, program, self.gpu, self.results.earlier + self.results.records)
        if budget is None:
            return {"error": f"not measured: the peak of PyTorch, {BUDGETS[program][0]}, is not known", "no_budget": True}
        return neap_speed(self.arguments, case, self.deadline, budget_bytes=budget)

    def measured(self, case, program, layout):
        """The record of one program of a case; with the field `error` if there is nothing to report, `out_of_time` if the time
        limits were the reason, `out_of_memory` if it was too little memory or too small a budget, `missing` if neap has no such
        network, and `no_budget` if PyTorch has no peak."""
        try:
            if program == NEAP or program in BUDGETS:
                return self.neap(case, program)
            return pytorch_measurement(self.arguments, case, program, self.deadline, layout=layout)
        except OutOfTime as failure:
            return {"error": str(failure), "out_of_time": True}
        except Failure as failure:
            memory = {"out_of_memory": True} if is_memory_failure(str(failure)) else {}
            return {"error": str(failure), **memory}

    def measure(self, case, program, layout):
        begin = time.monotonic()
        record = {"kind": "speed", "network": case.network, "batch": case.batch, "dtype": case.dtype, "layout": layout,
                  "program": program, "gpu": self.gpu, **self.measured(case, program, layout)}
        progress(record, time.monotonic() - begin)
        self.results.add(record)


def progress(record, seconds):
    if "error" in record:
        what = record["error"]
    elif record["program"] == FLOOR:
        what = f"{record['floor_ms']:.2f} ms of convolutions"
    else:
        network = network_of(record["network"])
        what = f"{network.units * record['images_per_second']:.1f} {network.kind}/s"
        if "peak_bytes" in record:
            what += f", {record['peak_bytes'] / GIB:.2f} GiB"
    print(f"{record['network']} {record['batch']} {record['dtype']} {program_text(record)}: {what} ({seconds:.0f} s)", flush=True)


def may_fail(record):
    """Whether a program that was not measured leaves the run a success. A time limit may end those that wait for the fast ones;
    networks that neap does not have, budgets of unknown peaks, and too little memory for PyTorch are results."""
    program = record["program"]
    return (record.get("out_of_time") and program not in (NEAP, EAGER) or record.get("missing") or record.get("no_budget") or
            record.get("out_of_memory") and program != NEAP and program not in BUDGETS)


def passed(records):
    """Whether every program ran that must, and any program at all."""
    failed = [record for record in records if "error" in record]
    return len(failed) < len(records) and all(map(may_fail, failed))


def compare(arguments, cases):
    """Prints the table; returns whether passed() says so."""
    comparison = Comparison(arguments)
    if arguments.compile_first:
        compile_first(arguments, cases, comparison.deadline)
    for programs in PASSES:
        for case in cases:
            for program, layout in case.runs(programs):
                comparison.measure(case, program, layout)
    print("\n" + speed_table(comparison.results.records), flush=True)
    return passed(comparison.results.records)
