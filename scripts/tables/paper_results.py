#!/usr/bin/env python3
"""Prints the results of `neap paper` as Markdown: what a paper publishes beside what neap has, and what was measured.

  for item in sn-table1 modnn-fig10; do build/release/neap paper $item --out build/papers; done
  scripts/tables/paper_results.py build/papers build/gpu/papers

Each folder has the JSON of items (`neap paper ITEM --out FOLDER`, `scripts/gpu_paper.sh`). An item of a later folder replaces that
of an earlier one. Of figures that a paper only draws, those are left out that were not measured either.
"""

import argparse
import json
import pathlib

PAPERS = ("SuperNeurons", "u-cuDNN", "moDNN", "cuDNN")


def number(value, unit):
    if value is None:
        return ""
    digits = f"{value:.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.4g}"
    return f"{digits} {unit}".strip()


def rows_of(item):
    is_measured = any(word in item["setting"] for word in ("executed on", "measured times", "steps on", "steps, on"))
    for table in item["tables"]:
        for figure in table["figures"]:
            if figure["neap"] is None or (figure["paper"] is None and not is_measured):
                continue
            paper, ours = (number(figure[who], figure["unit"]) for who in ("paper", "neap"))
            yield f"| {table['title']} | {figure['what']} | {paper} | {ours} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    items = {}
    for folder in parser.parse_args().folders:
        for path in sorted(folder.glob("*.json")):
            item = json.loads(path.read_text(encoding="utf-8"))
            items[item["item"]] = item
    for paper in PAPERS:
        print(f"## {paper}\n")
        for item in items.values():
            rows = list(rows_of(item)) if item["paper"] == paper else []
            if not rows:
                continue
            print(f"**{item['place']}: {item['shows']}** (`neap paper {item['item']}`; {item['setting']})\n")
            print("| | | paper | neap |\n|---|---|---|---|")
            print("\n".join(rows) + "\n")
            print(" ".join(item["notes"]) + "\n")


if __name__ == "__main__":
    main()
