"""Trainings by neap with several seeds in several types, and the table of what their evaluations found."""

import concurrent.futures
import json
import os
import subprocess

SEEDS = (1, 2, 3)
DTYPES = ("fp32", "bf16")


def evaluation(neap, arguments):
    """What `neap train` says of the test split at its end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([neap, "train", *arguments, "--eval", "--json"], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(ended.stdout.splitlines()[-1])["evaluation"]


def evaluations(neap, device, rows):
    """By the row's name, the type and the seed. `rows` are names and arguments; JOBS trainings run at the same time."""
    trainings = {(name, dtype, seed): [*arguments, "--device", device, "--dtype", dtype, "--seed", str(seed)]
                 for name, arguments in rows for dtype in DTYPES for seed in SEEDS}
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        return dict(zip(trainings, pool.map(lambda arguments: evaluation(neap, arguments), trainings.values())))


def print_table(texts):
    """Markdown. `texts` are those of the cells' seeds, by name, type and seed."""
    print("| training |", " | ".join(DTYPES), "|")
    print("|---|" + "---|" * len(DTYPES))
    for name in dict.fromkeys(name for name, _, _ in texts):
        print(f"| {name} |", " | ".join(" / ".join(texts[name, dtype, seed] for seed in SEEDS) for dtype in DTYPES), "|")
