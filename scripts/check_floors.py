#!/usr/bin/env python3
"""Checks that every #include goes down the floors of scripts/floors.txt and that functions which only some places may call
are called there alone, and prints one line for each fault. The examples are checked for such calls too.

    scripts/check_floors.py [ROOT]      exit code 1 if there are faults; --count prints the totals
"""
import fnmatch
import pathlib
import re
import sys

INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}


def read_floors(path):
    """Returns {room: floor}, [(room, header patterns)], the closed rooms, and [(places, functions)]."""
    floors, owners, closed, callers, floor = {}, [], set(), [], 0
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("only "):
            room, patterns = line[len("only "):].split(":")
            owners.append((room.strip(), patterns.split()))
        elif line.startswith("calls "):
            places, functions = line[len("calls "):].split(":")
            callers.append((places.split(), functions.split()))
        elif line.startswith("closed "):
            closed.update(line.split()[1:])
        elif line:
            floors.update(dict.fromkeys(line.split(), floor))
            floor += 1
    return floors, owners, closed, callers


def room_of(file, floors):
    """The room of a file: the innermost listed folder, or the file itself."""
    for place in [file, *file.parents]:
        if place.as_posix() in floors:
            return place.as_posix()
    return None


def faults_of(file, root, floors, owners, closed):
    here = room_of(file, floors)
    if here is None:
        yield f"{file}: in no room of scripts/floors.txt"
        return
    installed_as = {pathlib.PurePosixPath(room).name: room for room in closed}  # <neap/neap.h> is core/neap.h
    for number, line in enumerate((root / file).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(1).removeprefix("neap/")
        header = installed_as.get(header, header)
        ours = pathlib.PurePosixPath(header)
        there = room_of(ours, floors) if ours.suffix in SUFFIXES else None
        if there in closed and here not in closed:
            yield f"{file}:{number}: {here} includes {header}, which no room may"
        elif there is not None and there != here and floors[there] >= floors[here]:
            yield f"{file}:{number}: {here} includes {header}, which is not below it"
        for room, patterns in owners:
            if any(fnmatch.fnmatch(header, pattern) for pattern in patterns) and there is None:
                if here != room and not here.startswith(room + "/"):
                    yield f"{file}:{number}: {here} includes {header}, which only {room} may"


def calls_of(file, root, callers):
    for places, functions in callers:
        if any(place.as_posix() in places for place in [file, *file.parents]):
            continue
        call = re.compile(rf"\b({'|'.join(functions)})\(")
        for number, line in enumerate((root / file).read_text().splitlines(), 1):
            for function in call.findall(line):
                yield f"{file}:{number}: {function}() is called, which only {' and '.join(places)} may"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--count"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent)
    *rules, callers = read_floors(root / "scripts/floors.txt")
    files = 0
    faults = []
    tops = {room.split("/")[0] for room in rules[0]}
    for top in sorted(tops | {"examples"}):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            if top in tops:
                files += 1
                faults += faults_of(path.relative_to(root), root, *rules)
            faults += calls_of(path.relative_to(root), root, callers)
    print("\n".join(faults), end="\n" if faults else "")
    if "--count" in sys.argv:
        print(f"{files} files, {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
