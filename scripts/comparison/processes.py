"""Programs in processes of their own, under a time limit."""

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

LEAST_SECONDS = 10  # with less time left no measurement is started
# What stands in the errors of PyTorch, CUDA's libraries and neap if there was too little memory, or too small a budget.
MEMORY_FAILURES = ("out of memory", "ALLOC_FAILED", "cudaMalloc(", "smallest feasible budget")
OUT_OF_MEMORY = {"error": "out of memory", "out_of_memory": True}  # the record of a program that had too little


class Failure(Exception):
    """A program failed, was stopped or printed no result; the text says which."""


class OutOfTime(Failure):
    """A time limit stopped a program, or kept it from being started."""


def is_memory_failure(text):
    """Whether an error is that there was too little memory."""
    return any(part in text for part in MEMORY_FAILURES)


class Deadline:
    """The time that all measurements together may take; None: any."""

    def __init__(self, seconds):
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self):
        """Seconds."""
        return math.inf if self._end is None else self._end - time.monotonic()

    def limit(self, seconds):
        """The limit of a measurement that may itself take `seconds`; OutOfTime if too little is left."""
        if self.left() < LEAST_SECONDS:
            raise OutOfTime("not measured: no time was left")
        return min(seconds, self.left())


@dataclass(frozen=True)
class Ended:
    code: int
    stdout: str
    stderr: str


def content(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def run_limited(command, limit_s=None, environment=None):
    """Runs a command until it ends, or until the limit: OutOfTime. Processes of its group that it leaves behind are killed,
    for they would slow down what is measured next.

    The output goes to files, since processes that outlive the command (compilers of torch.compile) would keep pipes open.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                              start_new_session=True) as process:
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise OutOfTime(f"stopped after {limit_s:.0f} s") from None
            finally:  # also after Ctrl-C, which a session of its own does not receive
                with contextlib.suppress(ProcessLookupError):  # nothing of it is left
                    os.killpg(process.pid, signal.SIGKILL)
        return Ended(process.returncode, content(stdout), content(stderr))


def run_as_ranks(command, ranks):
    """Runs a command as so many ranks, with the variables that torchrun would set, in this process group: torchrun starts
    sessions of their own, which a time limit would leave behind. Returns the first exit code that is not 0."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    started = []
    for rank in range(ranks):
        variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks,
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
        started.append(subprocess.Popen(command, env=environment))  # pylint: disable=consider-using-with
    codes = [process.wait() for process in started]
    return next((code for code in codes if code != 0), 0)


def last_json(text):
    """The last line that is a JSON object, or None."""
    for line in reversed(text.splitlines()):
        if not line.startswith("{"):
            continue
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            continue
    return None


def result_of(command, limit_s=None, environment=None):
    """The last JSON object that a command prints; a Failure if the command fails."""
    ended = run_limited(command, limit_s, environment)
    if ended.code != 0:
        reason = (ended.stderr.strip() or ended.stdout.strip() or "no output").splitlines()[-1]
        print(f"{' '.join(command)}\nfailed with exit code {ended.code}:\n{ended.stderr}", file=sys.stderr, flush=True)
        raise Failure(f"exit code {ended.code}: {reason}")
    record = last_json(ended.stdout)
    if record is None:
        raise Failure("no JSON object was printed")
    return record


def neap_environment():
    environment = dict(os.environ)
    if "NEAP_LIBRARY_PATH" in environment:
        environment["LD_LIBRARY_PATH"] = environment["NEAP_LIBRARY_PATH"]
    return environment


def run_neap(neap, arguments, limit_s=None):
    """Runs `neap train ... --json`; returns the last JSON object that it printed."""
    return result_of([neap, "train", *arguments, "--json"], limit_s, neap_environment())


def field(record, name):
    if record.get(name) is None:
        raise Failure(f"neap's JSON has no field '{name}', only: {', '.join(record)}")
    return float(record[name])
