#!/usr/bin/env python3
"""Runs clang-tidy on the sources of the library and the command, with the compile commands of a build.

    scripts/lint.py                        all of them
    scripts/lint.py --changed              what has changed since the last commit that .ci/run passed on this machine, or
                                           else since yesterday's last commit
    scripts/lint.py --changed --since REV  what has changed since this commit
    scripts/lint.py --limit SECONDS        begins no source after that time, and names those that are left; the last committed are first
    scripts/lint.py --passed               records that .ci/run has passed the current commit

A changed header is checked in one source that includes it. What has been found in order once is not looked at again while the
source, the headers of the tree that it includes, and .clang-tidy stay the same.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "neap" / "lint"
PASSED = CACHE / "passed"  # the last commit that .ci/run passed
TIDY = "clang-tidy-14"
FOLDERS = ("core", "layers", "memory", "recompute", "nets", "apps")
# clang-tidy would spend minutes in CUDA's headers. What stands for an absent library is not compiled where the library is.
LEFT_OUT = ("/cuda/", "/without_", "apps/python/")


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def sources():
    """The sources to check, relative to the tree."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "--", *(f"{f}/*.cc" for f in FOLDERS))
    return [s for s in listed if not any(part in s for part in LEFT_OUT) and (ROOT / s).exists()]


def included(all_sources):
    """The headers of the tree that each source includes, and those that they include."""
    direct = {}

    def of(path):
        if path not in direct:
            names = re.findall(r'^#include "(?:neap/)?([^"]+)"', (ROOT / path).read_text(), re.MULTILINE)
            direct[path] = [name for name in names if (ROOT / name).exists()]
        return direct[path]

    headers = {}
    for source in all_sources:
        found, todo = set(), [source]
        while todo:
            new = set(of(todo.pop())) - found
            found |= new
            todo += new
        headers[source] = sorted(found)
    return headers


def write_commands(build):
    """Writes the build's compile commands, one for each source and without the precompiled header, so that a source must include
    what it uses, nor the options that only a unit of several sources needs."""
    commands = []
    for command in json.loads((build / "compile_commands.json").read_text()):
        text = re.sub(r" -Winvalid-pch| -include \S+/cmake_pch\.hxx| -fpch-preprocess| -Wno-subobject-linkage", "", command["command"])
        unit = pathlib.Path(command["file"])
        parts = re.findall(r'^#include "([^"]+)"', unit.read_text(), re.MULTILINE) if unit.parent.name == "Unity" else [str(unit)]
        commands += [{**command, "file": part, "command": text.replace(str(unit), part)} for part in parts]
    folder = build / "lint"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(commands))
    return folder


def key(source, headers):
    """Names the content of a source, of what it includes, and of the rules."""
    digest = hashlib.sha256(TIDY.encode())
    for path in (".clang-tidy", source, *headers):
        file = ROOT / path
        digest.update(path.encode() + b"\0" + (file.read_bytes() if file.exists() else b"") + b"\0")
    return digest.hexdigest()


def base(since):
    """The commit since which changes are checked, or None for all."""
    if since:
        return since
    candidates = [PASSED.read_text().strip()] if PASSED.exists() else []
    candidates += git("rev-list", "-1", "--before=24 hours ago", "HEAD")
    for commit in candidates:
        if subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=ROOT, capture_output=True).returncode == 0:
            return commit
    return None


def touched(all_sources, headers, commit):
    """The sources that have changed since the commit, and one that includes each header that has; all, if the rules have changed."""
    changed = set(git("diff", "--name-only", commit)) | set(git("ls-files", "--others", "--exclude-standard"))
    if ".clang-tidy" in changed:
        return sorted(all_sources)
    chosen = {source for source in all_sources if source in changed}
    for header in sorted(path for path in changed if path.endswith(".h")):
        including = [source for source in all_sources if header in headers.get(source, ())]
        own = header[:-2] + ".cc"
        if including and not chosen.intersection(including):
            chosen.add(own if own in including else including[0])
    return sorted(chosen)


def last_committed_first(names):
    """Those that are not committed come first of all."""
    when = {name: int((git("log", "-1", "--format=%ct", "--", name) or [2**62])[0]) for name in names}
    return sorted(names, key=lambda name: (-when[name], name))


def check(commands, source, end):
    """The exit code and output of clang-tidy; None after the time `end`."""
    if end is not None and time.monotonic() > end:
        return None
    done = subprocess.run([TIDY, "--quiet", "-p", str(commands), str(ROOT / source)], capture_output=True, text=True)
    return done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "dev", help="a configured folder")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--since", metavar="REV")
    parser.add_argument("--passed", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, metavar="SECONDS")
    options = parser.parse_args()

    CACHE.mkdir(parents=True, exist_ok=True)
    if options.passed:
        PASSED.write_text(git("rev-parse", "HEAD")[0])
        return 0

    todo = sources()
    headers = included(todo)
    commit = base(options.since) if options.changed else None
    if commit:
        todo = touched(todo, headers, commit)
    keys = {source: key(source, headers.get(source, ())) for source in todo}
    commands = write_commands(options.build)
    open_ones = [source for source in todo if not (CACHE / keys[source]).exists()]
    print(f"lint: {len(open_ones)} of {len(todo)} sources to check" + (f", changed since {commit[:10]}" if commit else ""), flush=True)
    end = time.monotonic() + options.limit if options.limit is not None else None
    if end is not None:
        open_ones = last_committed_first(open_ones)
    failed, left = 0, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for source, result in zip(open_ones, pool.map(lambda s: check(commands, s, end), open_ones)):
            if result is None:
                left.append(source)
                continue
            status, output = result
            if status == 0:
                (CACHE / keys[source]).touch()
            else:
                failed += 1
                print(f"{source}:\n{output}", flush=True)
    if left:
        print(f"lint: {len(left)} sources were not checked within {options.limit:.0f} s: {' '.join(left)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
