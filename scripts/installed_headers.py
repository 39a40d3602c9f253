#!/usr/bin/env python3
"""Lists the headers to install: core/neap.h and every header of neap that it includes, directly or indirectly.

    scripts/installed_headers.py [ROOT]            exit code 1, and a line for each header that is missing (+)
                                                   or superfluous (-) in cmake/installed_headers.cmake
    scripts/installed_headers.py --write [ROOT]    writes that list
"""
import pathlib
import re
import sys

FRONT_DOOR = "core/neap.h"
LIST = "cmake/installed_headers.cmake"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]neap/([^>"]+)[>"]', re.MULTILINE)
HEAD = f"""# The headers that cmake/neap_install.cmake installs: those that {FRONT_DOOR} includes.
# Written by scripts/installed_headers.py --write; a test compares it with the tree.
set(NEAP_INSTALLED_HEADERS
"""


def closure(root):
    """The headers that programs need, sorted. Raises FileNotFoundError if one does not exist."""
    found, waiting = set(), [FRONT_DOOR]
    while waiting:
        header = waiting.pop()
        if header not in found:
            found.add(header)
            waiting += INCLUDE.findall((root / header).read_text())
    return sorted(found)


def listed(root):
    path = root / LIST
    return re.findall(r"^  (\S+\.h)$", path.read_text(), re.MULTILINE) if path.exists() else []


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent)
    needed, there = closure(root), listed(root)
    if "--write" in sys.argv:
        (root / LIST).write_text(HEAD + "".join(f"  {header}\n" for header in needed) + ")\n")
        return 0
    changes = [f"+  {header}" for header in needed if header not in there]
    changes += [f"-  {header}" for header in there if header not in needed]
    if changes:
        print(f"{LIST} does not match the includes of {FRONT_DOOR} (scripts/installed_headers.py --write updates it):")
        print("\n".join(changes))
    return 1 if changes else 0


sys.exit(main())
