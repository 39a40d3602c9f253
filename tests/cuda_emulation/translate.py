#!/usr/bin/env python3
"""Writes copies of CUDA files that a C++ compiler accepts together with the headers in include/.

    translate.py SOURCE... --output FOLDER

A copy has the lines of its source, and names it in a #line directive. Three things are rewritten:

    Kernel<T><<<grid, block, 0, stream>>>(x, n);    a call of an emulated launch (grid.h)
    __shared__ float warps[8];                      the declaration, and a call that makes its bytes garbage once per block
    asm volatile("..." : "=r"(a) : "l"(b));         Assembly("...", a, b)
"""
import argparse
import pathlib
import re
import sys

NAMESPACE = "::neap::emulation::"
IGNORED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", re.DOTALL)
START = re.compile(r"<<<|\b__shared__\b|\basm\b")
IDENTIFIER = re.compile(r"[\w:]+$")


class Fault(Exception):
    pass


def blanked(text):
    """The text with spaces for the characters of comments and literals, so that brackets match."""
    return IGNORED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def find(plain, at, wanted):
    """The position of `wanted` at or after `at` that is inside no brackets opened since."""
    depth = 0
    while at < len(plain):
        if depth == 0 and plain.startswith(wanted, at):
            return at
        if plain[at] in "([{":
            depth += 1
        elif plain[at] in ")]}":
            depth -= 1
        at += 1
    raise Fault(f"no {wanted}")


def pieces(text, plain, begin, end, separator):
    """The parts of text[begin:end] between separators that are inside no brackets."""
    parts = []
    while True:
        try:
            at = find(plain[:end], begin, separator)
        except Fault:
            return parts + [text[begin:end].strip()]
        parts.append(text[begin:at].strip())
        begin = at + len(separator)


def kernel_begin(plain, end):
    """The begin of the expression `Name` or `Name<...>` before `end`."""
    at = end
    if plain[end - 1] == ">":
        angles = parentheses = 0
        for at in range(end - 1, -1, -1):
            parentheses += {")": 1, "(": -1}.get(plain[at], 0)
            angles += {">": 1, "<": -1}.get(plain[at], 0) if parentheses == 0 else 0
            if angles == 0:
                break
    name = IDENTIFIER.search(plain[:at].rstrip())
    if not name:
        raise Fault("no kernel before <<<")
    return name.start()


def launch(text, plain, at):
    end = len(plain[:at].rstrip())
    begin = kernel_begin(plain, end)
    kernel = " ".join(text[begin:end].split())
    close = find(plain, at + 3, ">>>")
    opening = close + 3 + len(plain[close + 3:]) - len(plain[close + 3:].lstrip())
    if not plain.startswith("(", opening):
        raise Fault("no arguments after >>>")
    closing = find(plain, opening + 1, ")")
    arguments = text[opening + 1:closing].strip()
    result = (f'{NAMESPACE}Launch("{kernel}", {text[at + 3:close].strip()})([](auto... of) {{ {kernel}(of...); }}'
              f'{", " if arguments else ""}{arguments})')
    return begin, closing + 1, result


def shared(text, plain, at):
    if plain[:at].rstrip().endswith("extern"):
        raise Fault("dynamic shared memory is not emulated")
    end = find(plain, at, ";")
    name = IDENTIFIER.search(re.sub(r"(\s*\[[^\[\]]*\])+$", "", plain[at:end]).rstrip()).group()
    return at, end + 1, f"{text[at:end]}; {NAMESPACE}NewShared(&{name}, sizeof({name}));"


def assembly(text, plain, at):
    opening = plain.index("(", at)
    end = find(plain, opening + 1, ")")
    sections = pieces(text, plain, opening + 1, end, ":")
    operands = []
    for section in sections[1:3]:
        for operand in pieces(section, blanked(section), 0, len(section), ","):
            operands += [operand[operand.index("("):]] if operand else []
    return at, end + 1, f"{NAMESPACE}Assembly({', '.join([sections[0]] + operands)})"


def translated(text):
    plain = blanked(text)
    result, done = "", 0
    for match in START.finditer(plain):
        rewrite = {"<<<": launch, "__shared__": shared, "asm": assembly}[match.group()]
        try:
            begin, end, replacement = rewrite(text, plain, match.start())
        except Fault as fault:
            raise Fault(f"{plain.count(chr(10), 0, match.start()) + 1}: {fault}") from None
        lost = text.count("\n", begin, end) - replacement.count("\n")
        result += text[done:begin] + replacement + "\n" * lost
        done = end
    return result + text[done:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", nargs="+", type=pathlib.Path)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for source in arguments.sources:
        try:
            copy = f'#line 1 "{source.resolve()}"\n{translated(source.read_text())}'
        except Fault as fault:
            sys.exit(f"{source}:{fault}")
        name = arguments.output / (source.name + ".cc" if source.suffix == ".cu" else source.name)
        if not name.exists() or name.read_text() != copy:
            name.write_text(copy)


if __name__ == "__main__":
    main()
