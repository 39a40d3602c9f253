#!/usr/bin/env python3
"""Measures what a first run of neap gives on a GPU of which neap has no times: `neap train` with an empty database, which
measures kernels by itself.

For each case NET:BATCH:DTYPE:LAYOUT it trains with memory to spare, then in a third of that run's peak, each beginning with an
empty database, and prints the seconds spent on measuring, the step's time beside the predicted one, and, with --full DATABASE of a
complete `neap profile`, the speed beside that with the database. Results are also written as lines of JSON.

  scripts/first_run.py --neap build/bundle/neap --results first_run.jsonl resnet101:128:bf16:nhwc alexnet:256:fp32:nchw
"""

import argparse
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time


def train(arguments, case, cache, measure, budget, database=None):
    net, batch, dtype, layout = case.split(":")
    command = [arguments.neap, "train", net, "--batch", batch, "--dtype", dtype, "--layout", layout, "--device", arguments.device,
               "--data", "synthetic", "--repeat-batch", "--steps", str(arguments.steps), "--json",
               "--measure", str(measure), "--no-installed-times"]
    if database:
        command += ["--database", database]
    if budget:
        command += ["--budget", str(budget)]
    begin = time.monotonic()
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": cache})
    if run.returncode != 0:
        print(f"{' '.join(command)}: {run.stderr[-400:]}", file=sys.stderr)
        return None
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    end = lines[-1]
    measured = lines[0].get("measured") or {}
    return {"case": case, "budget": budget, "database": database or "empty", "measure": measure,
            "measuring_seconds": measured.get("seconds"), "engines": measured.get("engines"), "left": measured.get("left"),
            "images_per_second": end["images_per_second"], "predicted": end["predicted_images_per_second"],
            "measured_runs": end["measured_runs"], "runs": end["runs"], "peak_bytes": end["measured_peak_bytes"],
            "whole_seconds": time.monotonic() - begin}


def keep_databases(to, case, folder):
    """Copies what the runs in `folder` have measured to a file for each run."""
    os.makedirs(to, exist_ok=True)
    for run in ("spare", "third"):
        database = os.path.join(folder, run, "neap", "profile.db")
        if os.path.exists(database):
            name = os.path.join(to, f"{case.replace(':', '_')}_{run}.db")
            with contextlib.closing(sqlite3.connect(database)) as source, contextlib.closing(sqlite3.connect(name)) as copy:
                source.backup(copy)  # a copy of the file alone lacks what is still in its log


def show(result, full):
    error = result["predicted"] / result["images_per_second"] - 1
    beside = f"{result['images_per_second'] / full['images_per_second']:7.1%}" if full else "      -"
    budget = f"{result['budget'] / 2**30:.2f} GiB" if result["budget"] else "unlimited"
    seconds = result["measuring_seconds"]
    print(f"{result['case']:34} {budget:>10} {seconds if seconds is not None else 0:6.1f} s {result['engines'] or 0:5d} engines "
          f"{result['left'] or 0:5d} left {result['images_per_second']:9.1f} images/s, step {error:+6.1%} against predicted, "
          f"{result['measured_runs']}/{result['runs']} measured, of the full profile {beside}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="NET:BATCH:DTYPE:LAYOUT")
    parser.add_argument("--neap", required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--measure", type=float, default=10, help="seconds")
    parser.add_argument("--full", help="a database of complete profiles")
    parser.add_argument("--results", help="a file to which a line of JSON is added for each run")
    parser.add_argument("--databases", metavar="FOLDER", help="keep the databases that the runs have made in this folder")
    parser.add_argument("--limit", type=float, default=1e9, help="begin no case after so many seconds")
    arguments = parser.parse_args()
    begin = time.monotonic()
    failed = 0
    for case in arguments.cases:
        if time.monotonic() - begin > arguments.limit:
            print(f"not begun: {case} and what follows it")
            break
        with tempfile.TemporaryDirectory() as folder:
            results = []
            spare = train(arguments, case, os.path.join(folder, "spare"), arguments.measure, None)
            if spare is None:
                failed += 1
                continue
            results.append(spare)
            third = train(arguments, case, os.path.join(folder, "third"), arguments.measure, spare["peak_bytes"] // 3)
            failed += third is None
            if arguments.databases:
                keep_databases(arguments.databases, case, folder)
            for result in filter(None, (spare, third)):
                full = train(arguments, case, folder, 0, result["budget"], arguments.full) if arguments.full else None
                show(result, full)
                if arguments.results:
                    with open(arguments.results, "a", encoding="utf-8") as lines:
                        lines.write(json.dumps({"first": result, "full": full}) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
