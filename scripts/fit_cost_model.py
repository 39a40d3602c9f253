#!/usr/bin/env python3
"""Fits the cost model (core/plan/cost_model.h, layers/conv/engine_losses.h) to measured kernel times, and shows how well it
predicts networks that were left out of the fit.

  scripts/fit_cost_model.py --database h200.db                   the error of each network when it is left out of the fit
  scripts/fit_cost_model.py --database h200.db --write           also writes the two tables of coefficients
  scripts/fit_cost_model.py --device cpu --database cpu.db       the same for CPUs, on the CPU that was measured

The database comes from scripts/gpu_profiles.sh or scripts/cpu_profiles.sh. A network is left out with all kernels that it runs,
also those that it shares with others. Only numpy is needed. CPUs have no table of engines' losses.
"""

import argparse
import collections
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import typing

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Target(typing.NamedTuple):
    """A sort of devices."""

    cases: pathlib.Path  # the script that measures, and prints its cases with --list
    table: pathlib.Path  # of coefficients
    losses: typing.Optional[pathlib.Path]  # the table of what engines lose, if there is one
    grows: bool  # the time of an image in a product of matrices, with the batch: a CPU's caches are small


GPU = Target(ROOT / "scripts/gpu_profiles.sh", ROOT / "core/plan/cost_coefficients.inc", ROOT / "layers/conv/engine_losses.inc", False)
CPU = Target(ROOT / "scripts/cpu_profiles.sh", ROOT / "core/plan/cpu_cost_coefficients.inc", None, True)
MIN_LOSSES = 3  # measured kernels behind a loss
STRENGTH = 1.0  # of the pull of a kind's coefficients towards its group's, and of a group's towards its family's, in kernels
GROWTH = 0.002  # of the logarithm of the time of an image
FIRM = 1e6  # the weight of a limit, in kernels
PIXELS, MORE_PIXELS, BYTES, MANY_BYTES, VERY_MANY_BYTES = 5, 8, 17, 18, 19  # features (core/plan/cost_features.h)
MAX_MISSING = 10  # kernels of a network whose iteration is compared
MARGIN = 0.2  # beyond the least and the largest logarithm that was measured


class Kernel:
    """A kernel that at least one network runs."""

    def __init__(self, listed, seconds):
        self.losses = losses_of(listed)
        self.names = (listed["family"], listed["group"], listed["kind"])
        self.bound = listed["bound_ms"] * 1e-3
        self.features = numpy.array(listed["features"])
        self.seconds = seconds
        self.networks = set()

    @property
    def log_ratio(self):
        return math.log(self.seconds / self.bound)


def family_of(engine):
    """The engine without its knobs, as FamilyOf() in layers/conv/engine_losses.cc."""
    return engine.split("_")[0]


def losses_of(listed):
    """The logarithms of the times over that of the library's first deterministic engine, by family of
    engines and by class. Engines that compute a ReLU, too, have a first one of their own. Of engines that
    the library lists only with a GPU, the database does not know the class."""
    deterministic = sorted((engine for engine in listed["engines"] if engine["deterministic"]), key=lambda engine: engine["place"])
    losses = collections.defaultdict(list)
    for with_relu in (False, True):
        alike = [engine for engine in deterministic if engine["engine"].startswith("relu:") == with_relu]
        first = next((engine for engine in alike if engine["listed"]), None)
        if first is None or first["median_ms"] is None:
            continue
        for engine in alike:
            if engine is first or engine["median_ms"] is None:
                continue
            loss = math.log(engine["median_ms"] / first["median_ms"])
            losses[family_of(engine["engine"])].append(loss)
            if engine["listed"]:
                losses["*tensor-core" if "tensor-core" in engine["notes"] else "*"].append(loss)
    return losses


def target_of(device):
    return CPU if device == "cpu" else GPU


def read_cases(target):
    text = subprocess.run([target.cases, "--list"], check=True, capture_output=True, text=True).stdout
    return [line.split(":")[:4] for line in text.split()]


def list_kernels(arguments, case):
    net, batch, dtype, layout = case
    command = [arguments.neap, "profile", net, "--batch", batch, "--dtype", dtype, "--layout", layout, "--device",
               arguments.device, "--database", arguments.database, "--list", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["kernels"]


def first_time(listed):
    """Seconds of the first engine in the library's order that was measured; None if none of the first few was."""
    timed = [engine for engine in listed["engines"] if engine["median_ms"] is not None and engine["place"] < 5 and
             engine["deterministic"]]
    return min(timed, key=lambda engine: engine["place"])["median_ms"] * 1e-3 if timed else None


class Data:
    """The kernels of all networks, and how often each network runs them in an iteration."""

    def __init__(self, arguments):
        self.kernels = {}
        self.counts = collections.defaultdict(dict)
        self.target = target_of(arguments.device)
        for case in dict.fromkeys(tuple(case) for case in read_cases(self.target)):
            name = ":".join(case)
            missing = 0
            for listed in list_kernels(arguments, case):
                key = (listed["operation"], listed["batch"])
                if key not in self.kernels:
                    seconds = first_time(listed)
                    if seconds is None:
                        missing += 1
                        continue
                    self.kernels[key] = Kernel(listed, seconds)
                self.kernels[key].networks.add(case[0])
                if " inference" not in listed["kind"] and " rerun" not in listed["kind"]:
                    self.counts[name][key] = listed["count"]
            if missing > MAX_MISSING:
                print(f"{name} has {missing} kernels that were not measured: only the others are used", file=sys.stderr)
                self.counts.pop(name, None)


def doublings(size):
    """What a batch of twice as many images adds to the features, by ranges of pixels and bytes."""
    rows = []
    for pixels in ((), (PIXELS,), (PIXELS, MORE_PIXELS)):
        for of_bytes in ((), (BYTES,), (BYTES, MANY_BYTES), (BYTES, MANY_BYTES, VERY_MANY_BYTES)):
            row = numpy.zeros(size)
            row[list(pixels + of_bytes)] = 1
            rows.append(row)
    return rows


def ridge(features, ratios, weights, towards, grows=True):
    """Coefficients near `towards` with the least weighted squares of the errors. Unless the time of an image `grows` with the
    batch, it does not by more than GROWTH for twice as many images."""
    scale = features.std(axis=0)
    scale[scale < 1e-9] = 1
    scaled = features / scale
    penalty = STRENGTH * numpy.eye(features.shape[1])
    penalty[0, 0] *= 0.1
    matrix = scaled.T @ (weights[:, None] * scaled) + penalty
    right = scaled.T @ (weights * (ratios - features @ towards))
    left = [] if grows else doublings(features.shape[1])
    while True:
        coefficients = towards + numpy.linalg.solve(matrix, right) / scale
        worst = max(left, key=lambda row: row @ coefficients, default=None)
        if worst is None or worst @ coefficients <= GROWTH:
            return coefficients
        left = [row for row in left if row is not worst]
        matrix += FIRM * numpy.outer(worst / scale, worst / scale)
        right -= FIRM * (worst @ towards) * worst / scale


def fit(kernels, target):
    """(coefficients, least, most) by the name of a family, group or kind."""
    table = {}
    for level in range(3):
        members = collections.defaultdict(list)
        for kernel in kernels:
            members[kernel.names[level]].append(kernel)
        for name, group in members.items():
            if name not in table:
                towards = table[group[0].names[level - 1]][0] if level else numpy.zeros(len(group[0].features))
                table[name] = fit_group(group, towards, target)
    return table


def fit_group(kernels, towards, target):
    features = numpy.array([kernel.features for kernel in kernels])
    ratios = numpy.array([kernel.log_ratio for kernel in kernels])
    seconds = numpy.array([kernel.seconds for kernel in kernels])
    weights = numpy.sqrt(seconds / seconds.mean())
    grows = target.grows or kernels[0].names[0] == "pass"  # small tensors are in the cache
    return ridge(features, ratios, weights, towards, grows), ratios.min() - MARGIN, ratios.max() + MARGIN


def predict(table, kernel):
    for name in reversed(kernel.names):
        if name in table:
            coefficients, least, most = table[name]
            return kernel.bound * math.exp(min(max(float(coefficients @ kernel.features), least), most))
    return kernel.bound


def iteration_seconds(data, name, table):
    measured = predicted = bound = 0
    for key, count in data.counts[name].items():
        kernel = data.kernels[key]
        measured += count * kernel.seconds
        predicted += count * predict(table, kernel)
        bound += count * kernel.bound
    return measured, predicted, bound


def show_left_out(data, worst_kinds):
    errors = []
    print(f"{'network':34} {'measured':>10} {'roofline':>10} {'left out':>10} {'error':>7}   {'fitted':>10} {'error':>7}")
    whole = fit(data.kernels.values(), data.target)
    for name in data.counts:
        net = name.split(":")[0]
        table = fit([kernel for kernel in data.kernels.values() if net not in kernel.networks], data.target)
        measured, predicted, bound = iteration_seconds(data, name, table)
        fitted = iteration_seconds(data, name, whole)[1]
        errors.append(predicted / measured - 1)
        print(f"{name:34} {measured * 1e3:7.2f} ms {bound * 1e3:7.2f} ms {predicted * 1e3:7.2f} ms {errors[-1]:+7.1%}   "
              f"{fitted * 1e3:7.2f} ms {fitted / measured - 1:+7.1%}")
        if worst_kinds:
            show_kinds(data, name, table, worst_kinds)
    sizes = sorted(abs(error) for error in errors)
    print(f"{len(sizes)} iterations: median error {statistics.median(sizes):.1%}, worst {sizes[-1]:.1%}")


def show_kinds(data, name, table, count):
    kinds = collections.defaultdict(lambda: [0, 0])
    for key, times in data.counts[name].items():
        kernel = data.kernels[key]
        kinds[kernel.names[-1]][0] += times * kernel.seconds
        kinds[kernel.names[-1]][1] += times * predict(table, kernel)
    for kind, (measured, predicted) in sorted(kinds.items(), key=lambda item: -abs(item[1][0] - item[1][1]))[:count]:
        print(f"    {kind:60} {measured * 1e3:7.2f} ms, predicted {predicted * 1e3:7.2f} ms")


def engine_losses(kernels):
    """The median by group of kernels and family of engines. Only products of matrices have several engines worth a row."""
    by_group = collections.defaultdict(lambda: collections.defaultdict(list))
    for kernel in kernels:
        for family, losses in kernel.losses.items():
            by_group[kernel.names[1]][family].append(statistics.median(losses))
    return {(group, family): statistics.median(losses) for group, families in by_group.items()
            for family, losses in families.items() if len(losses) >= MIN_LOSSES}


def read_losses(path):
    rows = re.findall(r'\{"([^"]+)", "([^"]+)", (\S+)\}', path.read_text()) if path.exists() else []
    return {(group, family): float(loss) for group, family, loss in rows}


def write_losses(path, measured):
    """Rows that are there stay: of the first few engines only, a profile has slow ones only where they are listed early."""
    losses = {**measured, **read_losses(path)}
    lines = ["// Written by scripts/fit_cost_model.py: the rows of layers/conv/engine_losses.cc. Do not edit."]
    lines += [f'{{"{group}", "{family}", {max(losses[group, family], 0):.3f}}},' for group, family in sorted(losses)]
    path.write_text("\n".join(lines) + "\n")


def write_table(path, table):
    lines = ["// Written by scripts/fit_cost_model.py: the rows of core/plan/cost_model.cc. Do not edit."]
    for name in sorted(table):
        coefficients, least, most = table[name]
        numbers = ", ".join(f"{number:.4g}" for number in coefficients)
        lines.append(f'{{"{name}", {least:.3f}, {most:.3f}, {{{numbers}}}}},')
    path.write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", required=True)
    parser.add_argument("--device", default="h200", help="a GPU (h200), or cpu")
    parser.add_argument("--neap", default=str(ROOT / "build/release/neap"))
    parser.add_argument("--kinds", type=int, default=0, metavar="N", help="show the N worst kinds of each network")
    parser.add_argument("--write", action="store_true", help="write the tables")
    arguments = parser.parse_args()
    data = Data(arguments)
    show_left_out(data, arguments.kinds)
    if arguments.write:
        write_table(data.target.table, fit(data.kernels.values(), data.target))
        if data.target.losses is not None:
            write_losses(data.target.losses, engine_losses(data.kernels.values()))


if __name__ == "__main__":
    main()
