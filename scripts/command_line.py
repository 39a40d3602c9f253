#!/usr/bin/env python3
"""Compares docs/command-line.md with what the command prints.

    scripts/command_line.py NEAP [ROOT] [--write]      exit code 1 if they differ; --write mends the page

A heading "## neap SUBCOMMAND" must stand there for every subcommand, with one block marked `text` that holds the
output of `neap SUBCOMMAND --help`. After adding a heading with an empty block, --write fills it in.
"""
import pathlib
import re
import subprocess
import sys

PAGE = "docs/command-line.md"
SECTION = re.compile(r"^## neap ?(?P<subcommand>[a-z -]*)\n(?P<intro>.*?)^```text\n(?P<help>.*?)^```$", re.MULTILINE | re.DOTALL)


def help_of(neap, subcommand):
    return subprocess.run([neap, *subcommand, "--help"], capture_output=True, text=True, check=True).stdout


def subcommands(neap):
    """() for the command itself, ("plan",), ("bench",), ("bench", "conv") and so on."""
    yield ()
    for name in re.findall(r"^  ([a-z][\w-]*)", help_of(neap, ()), re.MULTILINE):
        yield (name,)
        if not re.search(r"^(other )?flags:", text := help_of(neap, (name,)), re.MULTILINE):  # it has subcommands of its own
            yield from ((name, inner) for inner in re.findall(r"^  ([a-z][\w-]*)", text, re.MULTILINE))


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    neap = str(pathlib.Path(arguments[0]).resolve())
    root = pathlib.Path(arguments[1] if len(arguments) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    page = (root / PAGE).read_text()
    expected = {" ".join(subcommand): help_of(neap, subcommand) for subcommand in subcommands(neap)}
    sections = {match["subcommand"]: match for match in SECTION.finditer(page)}
    faults = [f"{PAGE}: no section '{f'## neap {name}'.strip()}' with a text block" for name in expected if name not in sections]
    faults += [f"{PAGE}: neap has no subcommand '{name}'" for name in sections if name not in expected]
    stale = [name for name in expected if name in sections and sections[name]["help"] != expected[name]]
    if "--write" in sys.argv:
        for name in sorted(stale, key=lambda name: -sections[name].start("help")):
            begin, end = sections[name].span("help")
            page = page[:begin] + expected[name] + page[end:]
        (root / PAGE).write_text(page)
    elif stale:
        faults.append(f"{PAGE}: another help text is printed by {', '.join(f'neap {name}'.strip() for name in stale)}; "
                      "scripts/command_line.py NEAP --write mends the page")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


sys.exit(main())
