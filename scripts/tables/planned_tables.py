#!/usr/bin/env python3
"""Writes again the tables of docs/ whose numbers are planned for an H200 by the cost model alone, so that they are those of this tree.

  scripts/tables/planned_tables.py NEAP                  the tables that differ, and how
  scripts/tables/planned_tables.py NEAP --write          writes them; some minutes on two cores
  scripts/tables/planned_tables.py NEAP policies curve   only these

A table follows a line `<!-- planned: NAME -->`, which names one of TABLES. Its rows stay, with other numbers: their first cells
say what is planned. NEAP must find cuDNN, which lists the engines.
"""

import argparse
import difflib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLANNED = ["--device", "h200", "--database", "none"]
BF16 = ["--dtype", "bf16", "--layout", "nhwc"]
REBUILT_ONLY = ["--policy", "auto", "--host-budget", "0"]
MOVED_ONLY = ["--policy", "tensor-cache", "--evict", "belady"]


class Neap:
    def __init__(self, program):
        self.program = program

    def text(self, *arguments):
        run = subprocess.run([self.program, *arguments], capture_output=True, text=True)
        if run.returncode != 0 and "smallest feasible budget" not in run.stderr:
            sys.exit(f"planned_tables: neap {' '.join(arguments)}: {run.stderr}")
        return run.stdout if run.returncode == 0 else None

    def plan(self, *arguments):
        """The plan's JSON; None if it does not fit the budget."""
        text = self.text("plan", *arguments, *PLANNED, "--json")
        return None if text is None else json.loads(text)

    def ms(self, *arguments):
        plan = self.plan(*arguments)
        return "does not fit" if plan is None else f"{plan['predicted_ms']:.1f}"


def cells(row):
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def with_rows(lines, make):
    """The table with the cells of `make(cells, rows made so far)` in its rows."""
    made = []
    for line in lines[2:]:
        made.append(make(cells(line), made))
    return lines[:2] + ["| " + " | ".join(row) + " |" for row in made]


def policies(neap, lines):
    """ResNet-50 in fp32; the first cell is the policy, with flags."""
    def row(old, _):
        plan = neap.plan("resnet50", "--batch", "128", "--policy", *old[0].strip("`").split())
        gib = [f"{plan[key] / 2**30:.3f}" if plan[key] else "0" for key in ("offloaded_bytes", "prefetched_bytes")]
        return [old[0], f"{plan['peak_activation_mib']:.3f}", f"{plan['peak_step']}, {plan['peak_layer']}",
                f"{plan['arena_bytes'] / 2**30:.3f}", str(plan["extra_forwards"]), *gib,
                f"{plan['predicted_ms']:.1f}"]
    return with_rows(lines, row)


def resnet50(neap, lines):
    """ResNet-50 in bf16; the first cell is the budget."""
    def row(old, _):
        net = ["resnet50", "--batch", "256", *BF16, "--budget", old[0].split()[0] + "GiB"]
        ways = (["--policy", "auto"], REBUILT_ONLY, MOVED_ONLY, ["--policy", "chen"], ["--policy", "superneurons"])
        return [old[0], *(neap.ms(*net, *way) for way in ways)]
    return with_rows(lines, row)


def fractions(neap, lines):
    """Whole batches in half and a third of the unlimited memory; the first cell is the network and its batch, or empty."""
    names = {"ResNet-152": "resnet152", "DenseNet-121": "densenet121", "Inception v4": "inception_v4", "U-Net": "unet"}
    state = {}

    def row(old, made):
        if old[0]:
            name, batch = old[0].split(", ")
            state["net"] = [names[name], "--batch", batch, *BF16, "--sub-batches", "1"]
            state["peak"], state["parts"] = neap.plan(*state["net"])["arena_bytes"] / 2**30, 2
            unlimited = neap.ms(*state["net"])
        else:
            state["parts"], unlimited = 3, ""
        budget = f"{state['peak'] / state['parts']:.2f}"
        times = (neap.ms(*state["net"], "--budget", budget + "GiB", *way) for way in (["--policy", "auto"], REBUILT_ONLY, MOVED_ONLY))
        return [old[0], unlimited, budget, *times]
    return with_rows(lines, row)


def sizes(neap, lines):
    """Networks in the memory of several GPUs; the first cell is the network with its flags, the cells behind the second are budgets."""
    budgets = [cell.replace(" ", "") for cell in cells(lines[0])[2:]]

    def row(old, _):
        net = [*old[0].strip("`").split(), *BF16]
        unlimited = neap.plan(*net)
        made = [old[0], f"{unlimited['arena_bytes'] / 2**30:.1f} GiB, {unlimited['predicted_ms']:.0f} ms"]
        for budget in budgets:
            plan = neap.plan(*net, "--budget", budget, "--host-budget", "64GiB")
            more = plan and 100 * (plan["predicted_ms"] / unlimited["predicted_ms"] - 1)
            made.append("does not fit" if plan is None else f"{max(more, 0):+.0f}%")
        return made
    return with_rows(lines, row)


def curve(neap, lines):
    """A text block: what neap plan --curve prints."""
    text = neap.text("plan", "resnet50", "--batch", "128", "--curve", *PLANNED).rstrip("\n")
    return [lines[0], *text.split("\n"), lines[-1]]


TABLES = {"policies": policies, "resnet50": resnet50, "fractions": fractions, "sizes": sizes, "curve": curve}


def block_at(lines, begin):
    """The end of the table, or of the fenced text, that begins there."""
    end = begin + 1
    if lines[begin].startswith("```"):
        while lines[end] != "```":
            end += 1
        return end + 1
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("neap", metavar="NEAP")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_intermixed_args()
    neap, differs = Neap(arguments.neap), False
    for page in sorted((ROOT / "docs").rglob("*.md")):
        lines = page.read_text(encoding="utf-8").split("\n")
        for begin in [index for index, line in enumerate(lines) if line.startswith("<!-- planned: ")][::-1]:
            name = re.fullmatch(r"<!-- planned: (\S+) -->", lines[begin])[1]
            if arguments.tables and name not in arguments.tables:
                continue
            end = block_at(lines, begin + 1)
            made = TABLES[name](neap, lines[begin + 1:end])
            for line in difflib.unified_diff(lines[begin + 1:end], made, lineterm="", n=0):
                print(line)
                differs = True
            lines[begin + 1:end] = made
        if arguments.write:
            page.write_text("\n".join(lines), encoding="utf-8")
    sys.exit(1 if differs and not arguments.write else 0)


if __name__ == "__main__":
    main()
