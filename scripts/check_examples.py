#!/usr/bin/env python3
"""Checks that the C++ examples in headers and documents are compiled: each must appear, word for word, in a source file
under examples/ or tests/examples/.

    scripts/check_examples.py [ROOT]      prints each example that is not compiled; exit code 1 if there are any

An example is an indented block of a header's comment (three spaces after the slashes) with a line that ends in a semicolon
or a brace, or a block of a Markdown file that is marked `cpp`. Spaces, line breaks and comments do not count.
"""
import pathlib
import re
import subprocess
import sys

HEADER_LINE = re.compile(r"\s*//   +?(\S.*)$")
STATEMENT = re.compile(r"[;{}]\s*(//.*)?$")


def normalized(lines):
    """The code without comments and spaces."""
    return re.sub(r"\s+", "", "\n".join(re.sub(r"(?<!:)//.*$", "", line) for line in lines))


def header_examples(lines):
    block, begin = [], 0
    for number, line in enumerate([*lines, ""], 1):
        match = HEADER_LINE.match(line)
        if match:
            begin = begin if block else number
            block.append(match.group(1))
            continue
        if any(STATEMENT.search(text) for text in block):
            yield begin, block
        block = []


def markdown_examples(lines):
    block, begin = None, 0
    for number, line in enumerate(lines, 1):
        if block is None and line.strip() == "```cpp":
            block, begin = [], number + 1
        elif block is not None and line.strip() == "```":
            yield begin, block
            block = None
        elif block is not None:
            block.append(line)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    compiled = "\n".join(normalized((root / name).read_text().splitlines()) for name in listed
                         if re.match(r"(tests/)?examples/.*\.(cc|cu|h)$", name))
    faults = examples = 0
    for name in listed:
        is_header = name.endswith(".h") and not name.startswith(("tests/", "examples/"))
        if not is_header and not name.endswith(".md"):
            continue
        lines = (root / name).read_text().splitlines()
        for number, block in (header_examples if is_header else markdown_examples)(lines):
            examples += 1
            if normalized(block) not in compiled:
                faults += 1
                print(f"{name}:{number}: this example is in no file that is compiled: {block[0].strip()}")
    print(f"{examples} examples, {faults} of them not compiled", file=sys.stderr)
    return 1 if faults else 0


sys.exit(main())
