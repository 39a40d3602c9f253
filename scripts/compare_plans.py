#!/usr/bin/env python3
"""Compares plans: the order of actions, the placement of tensors, the peaks and the predicted time.

    scripts/compare_plans.py OLD.json NEW.json         two plan files
    scripts/compare_plans.py --commands OLD NEW        two builds of the command: plans of five networks under all policies
                                                       and budgets, made with both (minutes)
    scripts/compare_plans.py --commands OLD NEW --all --sample 500
                                                       some of those of all networks, in four types and five budgets (hours
                                                       without --sample)

Two plans agree if they run the same steps with the same engines in the same order, keep, move, and place the same tensors
at the same moments in the same bytes of the arena, and have the same peaks. Predicted times may differ because of waits
for reused bytes in the pools (--tolerance, a fraction of the time). Plan formats 1 and 2 are read. Exit code 1 if any differ.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

TOTALS = ["net", "batch", "dtype", "layout", "policy", "budget_bytes", "arena_bytes", "peak_bytes", "peak_activation_bytes",
          "host_peak_bytes", "peer_peak_bytes"]
STEP_FIELDS = ["layer", "phase", "reads", "writes", "accumulates", "rerun_reads"]
NETS = {"alexnet": 64, "resnet50": 32, "densenet121": 16, "inception_v4": 16, "unet": 4}
BUDGETS = [None, "60%", "30%"]
ALL_BUDGETS = [None, "80%", "60%", "40%", "25%"]
FORMATS = [("fp32", "nchw"), ("tf32", "nchw"), ("bf16", "nhwc"), ("fp16", "nhwc")]
BATCH_OF_ALL = 8


def essence(action):
    """The action without the fields that format 2 added; None for waits."""
    if action["op"] == "wait":
        return None
    return {key: value for key, value in action.items() if not (action["op"] == "offload" and key == "offset")}


def differences(old, new, tolerance):
    for field in TOTALS:
        if old.get(field) != new.get(field):
            yield f"{field}: {old.get(field)} and {new.get(field)}"
    names = ["id", "name", "role", "bytes"]
    if [[t[n] for n in names] for t in old["tensors"]] != [[t[n] for n in names] for t in new["tensors"]]:
        yield "other tensors"
    if [[s.get(n) for n in STEP_FIELDS] for s in old["steps"]] != [[s.get(n) for n in STEP_FIELDS] for s in new["steps"]]:
        yield "other steps"
    actions = [[a for a in map(essence, plan["actions"]) if a is not None] for plan in (old, new)]
    for position, (a, b) in enumerate(zip(*actions)):
        if a != b:
            yield f"action {position} without waits: {json.dumps(a)} and {json.dumps(b)}"
            break
    else:
        if len(actions[0]) != len(actions[1]):
            yield f"{len(actions[0])} and {len(actions[1])} actions without waits"
    times = old["predicted_ms"], new["predicted_ms"]
    if abs(times[0] - times[1]) > tolerance * max(times):
        yield f"predicted_ms: {times[0]} and {times[1]}"


def compare_files(old, new, tolerance):
    plans = [json.loads(pathlib.Path(path).read_text()) for path in (old, new)]
    return list(differences(*plans, tolerance))


def policies(command):
    """The policies that the command knows, from its error message about an unknown one."""
    answer = subprocess.run([command, "plan", "lenet", "--policy", "unknown"], capture_output=True, text=True).stderr
    return answer.split("one of ")[1].replace(",", " ").split()


def requests(command):
    for net, batch in NETS.items():
        for policy in policies(command):
            for budget in BUDGETS:
                request = [net, "--batch", str(batch), "--policy", policy]
                yield request + (["--budget", budget, "--host-budget", "1TiB"] if budget else [])
    for policy in policies(command):
        for budget in BUDGETS:
            request = ["alexnet", "--batch", "200", "--policy", policy, "--accounting", "paper"]
            yield request + (["--budget", budget, "--host-budget", "1TiB"] if budget else [])


def all_requests(command):
    nets = json.loads(subprocess.run([command, "nets", "--json"], capture_output=True, text=True, check=True).stdout)["nets"]
    for net in nets:
        auxiliary = ["--aux-logits"] if net["net"] in ("googlenet", "inception_v3") else []
        for dtype, layout in FORMATS:
            for policy in policies(command):
                for budget in ALL_BUDGETS:
                    request = [net["net"], "--batch", str(BATCH_OF_ALL), "--dtype", dtype, "--layout", layout, "--policy", policy]
                    yield request + auxiliary + (["--budget", budget, "--host-budget", "1TiB"] if budget else [])


def make_plan(command, request, device, path):
    """The plan's path, or the minimum budget from the error message if there is no plan."""
    result = subprocess.run([command, "plan", *request, "--device", device, "--plan-out", path], capture_output=True, text=True)
    if result.returncode == 0:
        return None
    words = result.stderr.split("smallest feasible budget is ")
    return words[1].split()[0] if len(words) > 1 else result.stderr.strip()


def compare_commands(old, new, device, tolerance, wanted):
    compared = refused = different = 0
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("old.json", "new.json")]
        for request in wanted:
            answers = [make_plan(command, request, device, path) for command, path in zip((old, new), paths)]
            found = [f"{answers[0]} and {answers[1]}"] if answers[0] != answers[1] else []
            if answers == [None, None]:
                compared += 1
                found = compare_files(*paths, tolerance)
            else:
                refused += 1
            if found:
                different += 1
                print(" ".join(request) + ": " + "; ".join(found), flush=True)
    print(f"{compared} pairs of plans compared, {refused} refused by both or either, {different} different")
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", action="store_true")
    parser.add_argument("--device", default="cpu", help="for --commands")
    parser.add_argument("--all", action="store_true", help="with --commands: all networks, types and budgets")
    parser.add_argument("--sample", type=int, help="only so many of the plans, the same ones every time")
    parser.add_argument("--tolerance", type=float, default=0.0, help="of predicted times, as a fraction of them")
    parser.add_argument("old")
    parser.add_argument("new")
    options = parser.parse_args()
    if options.commands:
        wanted = list((all_requests if options.all else requests)(options.old))
        if options.sample is not None:
            wanted = random.Random(1).sample(wanted, min(options.sample, len(wanted)))
        return 1 if compare_commands(options.old, options.new, options.device, options.tolerance, wanted) else 0
    found = compare_files(options.old, options.new, options.tolerance)
    print("\n".join(found) or "the plans agree")
    return 1 if found else 0


sys.exit(main())
