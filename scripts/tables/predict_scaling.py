#!/usr/bin/env python3
"""Predicts how the speed of a training grows with the number of ranks, for links of different speeds: a table and a chart
(Mermaid) for docs/parallel.md.

    scripts/tables/predict_scaling.py --neap build/release/neap resnet50 --batch-each 256 -- --dtype bf16 --layout nhwc --device h200

A link is BYTES:US, what a rank sends and receives per second and the microseconds from one rank to the next, as in neap plan
--link and --hop. Arguments behind -- are those of neap plan.
"""
import argparse
import json
import subprocess
import sys


def plan(arguments, ranks, link):
    command = [arguments.neap, "plan", arguments.network, "--batch", str(ranks * arguments.batch_each), "--json",
               *arguments.plan_arguments]
    if ranks > 1:
        rate, hop = link.split(":")
        command += ["--ranks", str(ranks), "--link", rate, "--hop", hop]
    planned = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"ms": planned["predicted_ms"], **planned.get("data_parallel", {})}


def row(link, ranks, alone, planned, batch_each):
    images = ranks * batch_each / planned["ms"] * 1e3
    hidden = f"{100 * planned['hidden_sum_ms'] / planned['sum_ms']:.0f}%"
    return (f"| {link.replace(':', '/s, ')} us | {ranks} | {planned['ms']:.2f} | {planned['sum_ms']:.2f} | {hidden} | "
            f"{images:,.0f} | {100 * alone / planned['ms']:.1f}% |")


def chart(arguments, curves):
    lines = ["```mermaid", "xychart-beta", f'  title "{arguments.network}, {arguments.batch_each} images for each rank"',
             f"  x-axis \"ranks\" [{', '.join(map(str, arguments.ranks))}]", '  y-axis "% of linear" 0 --> 100']
    for curve in curves:
        lines.append(f"  line [{', '.join(f'{share:.1f}' for share in curve)}]")
    return "\n".join([*lines, "```"])


def partition(values, separator):
    """As str.partition() for a list."""
    at = values.index(separator) if separator in values else len(values)
    return values[:at], values[at:at + 1], values[at + 1:]


def numbers(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("--neap", required=True, help="the command")
    parser.add_argument("--batch-each", type=int, required=True, help="images for each rank")
    parser.add_argument("--ranks", type=numbers, default=[2, 8, 64, 512])
    parser.add_argument("--links", type=lambda text: text.split(","), default=["50GB:5", "12.5GB:10"])
    own, _, of_plan = partition(sys.argv[1:], "--")
    arguments = parser.parse_args(own)
    arguments.plan_arguments = of_plan

    alone = plan(arguments, 1, None)["ms"]
    print(f"One rank: {alone:.2f} ms, {arguments.batch_each / alone * 1e3:,.0f} images/s\n")
    print("| link of a rank | ranks | step, ms | sums, ms | beneath computation | images/s | of linear |")
    print("|---" * 7 + "|")
    curves = []
    for link in arguments.links:
        plans = [plan(arguments, ranks, link) for ranks in arguments.ranks]
        for ranks, planned in zip(arguments.ranks, plans):
            print(row(link, ranks, alone, planned, arguments.batch_each), flush=True)
        curves.append([100 * alone / planned["ms"] for planned in plans])
    print("\n" + chart(arguments, curves))


if __name__ == "__main__":
    main()
