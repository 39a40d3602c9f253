#!/usr/bin/env python3
"""Writes kernel times that come with the library (layers/profile/installed/*.txt) from a profile database, and reads them back.

    scripts/installed_profile.py DATABASE                  writes layers/profile/installed/DEVICE.txt
    scripts/installed_profile.py DATABASE --out FILE
    scripts/installed_profile.py --check FILE DATABASE     exit code 1 if FILE is not what would be written
    scripts/installed_profile.py --print FILE              its rows as CSV, with whole operations: to look at, or to rewrite

DATABASE is one of neap profile (scripts/gpu_profiles.sh). If it has several devices or versions, --device and --versions name
those to write. All times are written, also those of slow engines: of an engine without a time the cost model predicts one, which
may be too short.

The file is made to be short, because the library contains it (layers/profile/installed_profile.h reads it):

    neap installed profile 1
    device NVIDIA H200
    versions cuDNN 9.19.0, cuBLASLt 13.1.0
    pieces COUNT                   parts of the operations' texts, one a line; the most frequent first
    ...
    engines COUNT                  their ids, one a line; the most frequent first
    ...
    operations COUNT               sorted by text, one a line
    BEFORE AFTER PIECE...:BATCH,ROW,ROW...;BATCH,ROW...

An operation's text is its pieces, one behind the other: the first BEFORE and the last AFTER pieces are those of the line before.
A ROW is "ENGINE WORKSPACE MICROSECONDS": ENGINE has a ~ at its end if equal inputs do not always give equal bits, WORKSPACE is in
bytes and empty for 0, MICROSECONDS have four digits that count. BEFORE, AFTER, and the numbers of pieces and engines are to
base 36.
"""
import argparse
import collections
import csv
import pathlib
import re
import sqlite3
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "layers/profile/installed"
FIRST_LINE = "neap installed profile 1"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
PIECE = re.compile(r" ?[^ =]*=| ?[^ =]+| ")

Row = collections.namedtuple("Row", "batch engine workspace_bytes deterministic microseconds")


def number(value):
    """To base 36."""
    text = ""
    while True:
        value, digit = divmod(value, 36)
        text = DIGITS[digit] + text
        if value == 0:
            return text


def microseconds(seconds):
    """With four digits that count, and no others."""
    text = f"{seconds * 1e6:.4g}"
    return str(round(float(text))) if "e" in text else text


def read_database(path, device, versions):
    """The device, its versions, and the rows by operation. Raises ValueError if the choice is not clear."""
    if not pathlib.Path(path).is_file():
        raise ValueError(f"{path}: there is no such file")
    with sqlite3.connect(f"{pathlib.Path(path).resolve().as_uri()}?mode=ro", uri=True) as database:
        systems = [system for system in database.execute("SELECT DISTINCT device, versions FROM profile ORDER BY 1, 2")
                   if device in (None, system[0]) and versions in (None, system[1])]
        if len(systems) != 1:
            raise ValueError(f"{path}: {len(systems)} systems of this description, not 1: {systems}")
        rows = database.execute("SELECT operation, batch, engine, workspace_bytes, deterministic, median_seconds FROM profile "
                                "WHERE device = ? AND versions = ? AND failure IS NULL ORDER BY 1, 2, 6, 3", systems[0]).fetchall()
    operations = {}
    for operation, batch, engine, workspace_bytes, deterministic, seconds in rows:
        operations.setdefault(operation, []).append(
            Row(batch, engine, workspace_bytes, bool(deterministic), microseconds(seconds)))
    return *systems[0], operations


def shared(before, pieces):
    """How many pieces at the beginning and at the end are those of the line before."""
    most = min(len(before), len(pieces))
    first = next((i for i in range(most) if before[i] != pieces[i]), most)
    last = next((i for i in range(most - first) if before[-1 - i] != pieces[-1 - i]), most - first)
    return first, last


def by_frequency(counts):
    return sorted(counts, key=lambda text: (-counts[text], text))


def rows_text(rows, engines):
    batches = {}
    for row in rows:
        text = f"{number(engines[row.engine])}{'' if row.deterministic else '~'} {row.workspace_bytes or ''} {row.microseconds}"
        batches.setdefault(row.batch, []).append(text)
    return ";".join(",".join([str(batch), *texts]) for batch, texts in sorted(batches.items()))


def to_text(device, versions, operations):
    lines, before = [], []
    piece_counts, engine_counts = collections.Counter(), collections.Counter()
    for operation in sorted(operations):
        pieces = PIECE.findall(operation)
        if "".join(pieces) != operation or "\n" in operation:
            raise ValueError(f"an operation that cannot be written: {operation!r}")
        first, last = shared(before, pieces)
        lines.append((operation, first, last, pieces[first:len(pieces) - last]))
        piece_counts.update(lines[-1][3])
        engine_counts.update(row.engine for row in operations[operation])
        before = pieces
    piece_list, engine_list = by_frequency(piece_counts), by_frequency(engine_counts)
    piece_places = {piece: place for place, piece in enumerate(piece_list)}
    engines = {engine: place for place, engine in enumerate(engine_list)}
    text = [FIRST_LINE, f"device {device}", f"versions {versions}", f"pieces {len(piece_list)}", *piece_list,
            f"engines {len(engine_list)}", *engine_list, f"operations {len(lines)}"]
    for operation, first, last, pieces in lines:
        numbers = [first, last, *(piece_places[piece] for piece in pieces)]
        text.append(f"{' '.join(map(number, numbers))}:{rows_text(operations[operation], engines)}")
    return "\n".join(text) + "\n"


def read_text(text):
    """The device, its versions, and the rows by operation."""
    lines = iter(text.split("\n"))

    def header(name):
        line = next(lines)
        if not line.startswith(f"{name} "):
            raise ValueError(f"a line '{name} ...' was expected instead of '{line}'")
        return line[len(name) + 1:]

    if next(lines) != FIRST_LINE:
        raise ValueError(f"not a file that begins with '{FIRST_LINE}'")
    device, versions = header("device"), header("versions")
    pieces = [next(lines) for _ in range(int(header("pieces")))]
    engines = [next(lines) for _ in range(int(header("engines")))]
    operations, before = {}, []
    for _ in range(int(header("operations"))):
        numbers, _, rows = next(lines).partition(":")
        first, last, *own = (int(text, 36) for text in numbers.split(" "))
        before = [*before[:first], *(pieces[place] for place in own), *before[len(before) - last:]]
        operations["".join(before)] = list(read_rows(rows, engines))
    return device, versions, operations


def read_rows(text, engines):
    for group in text.split(";"):
        batch, *rows = group.split(",")
        for row in rows:
            engine, workspace, time = row.split(" ")
            yield Row(int(batch), engines[int(engine.rstrip("~"), 36)], int(workspace or 0), not engine.endswith("~"), time)


def print_rows(path):
    device, versions, operations = read_text(pathlib.Path(path).read_text())
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["device", "versions", "operation", "batch", "engine", "workspace_bytes", "deterministic", "microseconds"])
    for operation, rows in operations.items():
        for row in rows:
            table.writerow([device, versions, operation, *row._replace(deterministic=int(row.deterministic))])


def check(path, text):
    """What is wrong with the file, in words; empty if it is as it should be."""
    there = pathlib.Path(path).read_text()
    if there == text:
        return ""
    try:
        (*_, old), (*_, new) = read_text(there), read_text(text)
    except (ValueError, StopIteration, IndexError) as error:
        return f"it cannot be read: {error}"
    differing = sum(old[operation] != new[operation] for operation in old.keys() & new.keys())
    return (f"{len(new.keys() - old.keys())} operations are missing, {len(old.keys() - new.keys())} superfluous, and {differing} "
            "have other rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", nargs="?")
    parser.add_argument("--out", help="the file to write")
    parser.add_argument("--check", metavar="FILE", help="only compare this file with what would be written")
    parser.add_argument("--print", metavar="FILE", help="only print the rows of this file as CSV")
    parser.add_argument("--device", help="the device's name in the database, if it has several")
    parser.add_argument("--versions", help="the versions of its libraries, if it was measured with several")
    arguments = parser.parse_args()
    if arguments.print:
        print_rows(arguments.print)
        return 0
    if arguments.database is None:
        parser.error("a DATABASE is needed")
    try:
        device, versions, operations = read_database(arguments.database, arguments.device, arguments.versions)
        text = to_text(device, versions, operations)
    except (ValueError, sqlite3.Error) as error:
        print(f"installed_profile: {error}", file=sys.stderr)
        return 1
    if arguments.check:
        wrong = check(arguments.check, text)
        if wrong:
            print(f"{arguments.check} is not what {arguments.database} gives: {wrong}")
        return 1 if wrong else 0
    path = pathlib.Path(arguments.out or FOLDER / (re.sub(r"[^a-z0-9]+", "_", device.lower()) + ".txt"))
    path.write_text(text)
    print(f"{path}: {len(operations)} operations, {sum(map(len, operations.values()))} times, {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
