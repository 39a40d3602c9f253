#!/usr/bin/env python3
"""Lists the headers to install: the front doors, and every header of neap that they include, directly or indirectly.

    scripts/installed_headers.py [ROOT]            exit code 1, and a line for each header that is missing (+)
                                                   or superfluous (-) in cmake/installed_headers.cmake
    scripts/installed_headers.py --write [ROOT]    writes that list

Programs that use an installed neap need no other library's headers than Abseil's. In both cases there is a line, and exit code 1,
for each include of another library.
"""
import pathlib
import re
import sys

FRONT_DOORS = ["core/neap.h", "core/advanced.h"]  # installed as <neap/neap.h> and so on, too
LIST = "cmake/installed_headers.cmake"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
ALLOWED = re.compile(r"(neap|absl)/.+|[a-z_]+")  # the last are the standard library's
HEAD = f"""# The headers that cmake/neap_install.cmake installs: the front doors, and those that they include.
# Written by scripts/installed_headers.py --write; a test compares it with the tree.
set(NEAP_FRONT_DOORS {" ".join(FRONT_DOORS)})  # installed as <neap/neap.h> and so on, too
set(NEAP_INSTALLED_HEADERS
"""


def closure(root):
    """The headers that programs need, each with what it includes. Raises FileNotFoundError if one does not exist."""
    found, waiting = {}, list(FRONT_DOORS)
    while waiting:
        header = waiting.pop()
        if header not in found:
            found[header] = INCLUDE.findall((root / header).read_text())
            waiting += [name.removeprefix("neap/") for name in found[header] if name.startswith("neap/")]
    return dict(sorted(found.items()))


def listed(root):
    path = root / LIST
    return re.findall(r"^  (\S+\.h)$", path.read_text(), re.MULTILINE) if path.exists() else []


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent)
    needed, there = closure(root), listed(root)
    if "--write" in sys.argv:
        (root / LIST).write_text(HEAD + "".join(f"  {header}\n" for header in needed) + ")\n")
        there = list(needed)
    foreign = [f"{header} includes {name}, which a user of neap may not have"
               for header, names in needed.items() for name in names if not ALLOWED.fullmatch(name)]
    changes = [f"+  {header}" for header in needed if header not in there]
    changes += [f"-  {header}" for header in there if header not in needed]
    if changes:
        changes.insert(0, f"{LIST} does not match what {' and '.join(FRONT_DOORS)} include"
                          " (scripts/installed_headers.py --write updates it):")
    if changes or foreign:
        print("\n".join(changes + foreign))
    return 1 if changes or foreign else 0


sys.exit(main())
