#!/usr/bin/env python3
"""The figures and the picture of README's first page, from what scripts/gpu_bench.sh front has measured.

  scripts/front_page.py RESULTS --budgets      the budgets to measure: 1/2, 1/3 and 1/6 of PyTorch's peak
  scripts/front_page.py RESULTS                the table, in Markdown
  scripts/front_page.py RESULTS --draw FOLDER  and the curve, as FOLDER/resnet50_light.svg and FOLDER/resnet50_dark.svg

RESULTS is the file of scripts/compare_pytorch.py (--results). The newest record of each program and budget counts.
"""

import argparse
import json
import pathlib
import sys

from comparison.cases import COMPILE, EAGER, NEAP
from comparison.table import GIB, markdown

CASE = ("resnet50", 256, "bf16")
PARTS = (2, 3, 6)
NAMES = {EAGER: "PyTorch, eager", COMPILE: "PyTorch, torch.compile"}
WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 76, 24, 56, 56
PALETTES = {
    "light": {"back": "#ffffff", "text": "#1f2328", "quiet": "#59636e", "grid": "#d8dee4", NEAP: "#0969da",
              EAGER: "#9a6700", COMPILE: "#bc4c00"},
    "dark": {"back": "#0d1117", "text": "#f0f6fc", "quiet": "#9198a1", "grid": "#30363d", NEAP: "#4493f8",
             EAGER: "#d29922", COMPILE: "#f0883e"},
}


def budget_of(record):
    flags = record.get("flags", [])
    return flags[flags.index("--budget") + 1] if "--budget" in flags else None


def measured(path):
    """The newest record of each (program, budget) of the case."""
    newest = {}
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        key = (record.get("network"), record.get("batch"), record.get("dtype"))
        if key == CASE and "images_per_second" in record:
            newest[record["program"], budget_of(record)] = record
    if (EAGER, None) not in newest or (NEAP, None) not in newest:
        sys.exit(f"front_page: {path} has no measurement of PyTorch, or of neap without a budget")
    return newest


def budgets(newest):
    peak = newest[EAGER, None]["peak_bytes"]
    return [f"{peak / part / GIB:.2f}GiB" for part in PARTS]


def label(newest, key):
    program, budget = key
    if program != NEAP:
        return NAMES[program]
    if budget is None:
        return "neap, no budget"
    parts = dict(zip(budgets(newest), PARTS))
    share = f" (1/{parts[budget]} of eager's peak)" if budget in parts else ""
    return f"neap, budget {budget.replace('GiB', ' GiB')}{share}"


def ordered(newest):
    """PyTorch's records, then neap's by falling memory."""
    keys = [key for key in ((EAGER, None), (COMPILE, None)) if key in newest]
    return keys + sorted((key for key in newest if key[0] == NEAP), key=lambda key: -newest[key]["peak_bytes"])


def table(newest):
    unlimited = newest[NEAP, None]["images_per_second"]
    rows = []
    for key in ordered(newest):
        record = newest[key]
        rows.append({"": label(newest, key), "peak, GiB": f"{record['peak_bytes'] / GIB:.2f}",
                     "images/s": f"{record['images_per_second']:.0f}",
                     "of neap's full speed": f"{100 * record['images_per_second'] / unlimited:.0f}%"})
    return markdown(rows)


class Scale:
    """Maps values from 0 to at least `most`, in `steps` of a round size, to the pixels between two."""

    def __init__(self, most, step, begin, end):
        self.ticks = [step * i for i in range(int(most / step) + 2)]
        self._begin, self._per_unit = begin, (end - begin) / self.ticks[-1]

    def __call__(self, value):
        return self._begin + value * self._per_unit


def axes(x, y, colours):
    lines = []
    for tick in y.ticks:
        lines.append(f'<line x1="{LEFT}" y1="{y(tick):.1f}" x2="{WIDTH - RIGHT}" y2="{y(tick):.1f}" stroke="{colours["grid"]}"/>')
        lines.append(f'<text class="quiet end" x="{LEFT - 10}" y="{y(tick) + 4:.1f}">{tick:,}</text>')
    for tick in x.ticks:
        lines.append(f'<text class="quiet middle" x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 20}">{tick}</text>')
    lines.append(f'<text class="quiet middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}">peak memory of tensors and workspaces, GiB</text>')
    lines.append(f'<text class="quiet" x="12" y="{TOP - 12}">images/s</text>')
    return lines


def point(x, y, colour, title):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"><title>{title}</title></circle>'


def drawing(newest, theme):
    colours = PALETTES[theme]
    gib = {key: record["peak_bytes"] / GIB for key, record in newest.items()}
    speed = {key: record["images_per_second"] for key, record in newest.items()}
    x = Scale(max(gib.values()), 2, LEFT, WIDTH - RIGHT)
    y = Scale(max(speed.values()), 2000, HEIGHT - BOTTOM, TOP)
    device = newest[NEAP, None].get("gpu") or "one GPU"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
             f'<title>ResNet-50, batch 256, bf16: speed and memory on {device}</title>',
             f'<style>text {{ font: 13px system-ui, sans-serif; fill: {colours["text"]} }} .quiet {{ fill: {colours["quiet"]} }} '
             '.end { text-anchor: end } .middle { text-anchor: middle } .title { font-weight: 600; font-size: 15px }</style>',
             f'<rect width="100%" height="100%" fill="{colours["back"]}"/>',
             f'<text class="title" x="12" y="24">ResNet-50, batch 256, bf16, {device}</text>', *axes(x, y, colours)]
    curve = [key for key in ordered(newest) if key[0] == NEAP]
    path = " ".join(f"{x(gib[key]):.1f},{y(speed[key]):.1f}" for key in curve)
    lines.append(f'<polyline points="{path}" fill="none" stroke="{colours[NEAP]}" stroke-width="2.5"/>')
    for key in ordered(newest):
        title = f"{label(newest, key)}: {speed[key]:,.0f} images/s, {gib[key]:.2f} GiB"
        lines.append(point(x(gib[key]), y(speed[key]), colours[key[0]], title))
        if key[0] != NEAP:
            lines.append(f'<text class="middle" x="{x(gib[key]):.1f}" y="{y(speed[key]) + 22:.1f}">{NAMES[key[0]]}</text>')
        else:
            lines.append(f'<text class="middle quiet" x="{x(gib[key]):.1f}" y="{y(speed[key]) + 22:.1f}">{speed[key]:,.0f}</text>')
    first = curve[0]
    lines.append(f'<text x="{x(gib[first]) + 12:.1f}" y="{y(speed[first]) + 5:.1f}" style="fill: {colours[NEAP]}; font-weight: 600">neap</text>')
    return "\n".join([*lines, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", metavar="RESULTS")
    parser.add_argument("--budgets", action="store_true")
    parser.add_argument("--draw", type=pathlib.Path, metavar="FOLDER")
    options = parser.parse_args()
    newest = measured(options.results)
    if options.budgets:
        print(*budgets(newest))
        return
    print(table(newest))
    if options.draw:
        options.draw.mkdir(parents=True, exist_ok=True)
        for theme in PALETTES:
            (options.draw / f"resnet50_{theme}.svg").write_text(drawing(newest, theme), encoding="utf-8")


if __name__ == "__main__":
    main()
