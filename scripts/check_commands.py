#!/usr/bin/env python3
"""Checks the command lines in README.md and docs/**/*.md.

    scripts/check_commands.py NEAP [ROOT]      NEAP is the command to run; exit code 1 if there are faults

* Every line of an `sh` block that begins with `neap` or `build/release/neap`, or by which mpirun starts that, is run, in a
  temporary folder for each page, and must exit with 0. What takes minutes or needs a GPU is made small first, as SUBSTITUTIONS says.
* Every `neap ...` between backquotes in the text must name a subcommand and flags that exist.
* Of all other lines of `sh` blocks, the named files, presets and programs must exist.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

import example_volumes

# (what the command contains as whole words, what replaces it, what is appended, why). All rows that match are applied, in
# this order, to the command as the rows before left it. If a flag is given twice, the last one counts.
SUBSTITUTIONS = [
    ("build/release/neap", "neap", "", "the command under test is given"),
    ("cifar10:DIR", "cifar10:cifar", "", "a folder with a few images of random pixels"),
    ("--data idx:examples/data/digits --image 8 --channels 1 --classes 10", "--data cifar10:cifar", "--epochs 1",
     "pages are read outside of the tree: a folder with a few images of random pixels"),
    ("--data imagefolder:imagenet/train", "--data imagefolder:images", "", "a folder with a few images of random pixels"),
    ("--data imagefolder:test", "--data imagefolder:images", "", "a folder with a few images of random pixels"),
    ("photo.jpg holidays", "images", "", "a folder with a few images of random pixels"),
    ("pets.safetensors photo.jpg", "pets.safetensors images", "", "a folder with a few images of random pixels"),
    ("train resnet18 --data imagefolder:pets --val pets", "train resnet18 --data imagefolder:images", "--image 32",
     "a folder with a few images of random pixels; a fiftieth of the work"),
    ("train unet --image 256 --data masks:camvid --val masks:camvid", "train unet --image 16 --data masks:masks --val masks:masks", "",
     "a folder with a few images and masks; a fraction of the work"),
    ("--augment --epochs 50", "--augment --epochs 1", "", "two steps"),
    ("--data masks:camvid", "--data masks:masks", "", "a folder with a few images and masks"),
    ("train nnunet3d --image 24", "train nnunet3d --image 8", "--steps 15", "an epoch; a fraction of the work"),
    ("--augment --epochs 90", "--augment", "", "one step"),
    ("--lr-schedule cosine --warmup 25000 --warmup-start 0.01", "", "", "which ends after the only step"),
    ("--val imagenet/val", "", "--image 32", "after one step, running statistics are not those of the images; a fiftieth of the work"),
    ("--weights-in torchvision.safetensors", None, "", "written by an earlier command of PREPARATIONS"),
    ("--database h200.db", None, "", "an earlier line of the page makes it, here for the CPU"),
    ("train resnet50 --batch 128 --policy offload", None, "--host-budget 1GiB", "on a CPU nothing moves to the host without one"),
    ("plan resnet50 --batch 64", None, "--batch 2 --image 32 --device cpu", "the plan is trained on the CPU by the next line"),
    ("--plan plan.json", None, "--image 32", "as the plan was made"),
    ("plan resnet50 --batch 128 --device h200 --curve", None, "--batch 2 --image 32", "seconds instead of a minute"),
    ("plan resnet152 --batch 64", None, "--image 64", "seconds instead of ten"),
    ("plan", None, "--database none", "predictions do not depend on what other lines measured"),
    ("train", None, "--batch 2 --device cpu", "seconds, without a GPU"),
    ("--describe cuda:0", "--describe h200", "", "needs no GPU"),
    ("--device gpu.json", None, "--image 32", "seconds instead of ten"),
    ("--measure-collectives cuda:0,cuda:1", "--measure-collectives cpu,cpu", "", "two ranks, without GPUs"),
    ("--device cuda:0,cuda:1", None, "--image 64 --device cpu,cpu", "two ranks, without GPUs; batch norms see four values of their one image"),
    ("eval", None, "--device cpu", "needs no GPU"),
    ("predict", None, "--device cpu", "needs no GPU"),
    ("train resnet50", None, "--steps 1", "a step of ResNet-50 takes a second on the CPU"),
    ("train resnet50 --batch 128", None, "--image 32", "a fiftieth of the work"),
    ("train resnet50 --batch 256", None, "--image 32", "a fiftieth of the work"),
    ("--weights-in torchvision.safetensors", None, "--image 32", "a fiftieth of the work; the weights have the same shapes"),
    ("train lenet", None, "--steps 2", "shows a loss as well as 20 steps do"),
    ("train resnet-cifar --depth 20 --data cifar10:cifar --budget", None, "--steps 2", "seconds on the CPU"),
    ("--epochs 10", None, "--epochs 1", "five steps of the small dataset"),
    ("--epochs 20", None, "--epochs 2", "five steps after those of the checkpoint"),
    ("peak-batch alexnet vgg16 resnet50", None, "--budget 2GiB --policy liveness --device cpu", "quick probes"),
    ("peak-batch resnet50 --budget 12GiB --policy", "peak-batch resnet20 --budget 12GiB --policy", "--budget 16MB --database none",
     "seconds instead of a minute"),
    ("peak-batch resnet50", "peak-batch resnet20", "--budget 16MB --steps 1 --compare-batch 2 --device cpu",
     "trains at the size that it finds"),
    ("peak-depth resnet densenet", None, "--budget 400MB --image 32 --batch 2 --device h200 --policy liveness --database none", "quick probes"),
    ("profile resnet50", "profile lenet", "--batch 4 --samples 1 --divisions undivided", "a hundred kernels instead of thousands"),
    ("profile alexnet", "profile lenet", "--batch 4 --samples 1 --divisions undivided", "a hundred kernels instead of thousands"),
    ("bench workspace alexnet", "bench workspace lenet", "--batches 4 --budgets 64MiB --steps 1 --device cpu",
     "seconds, without a GPU"),
    ("bench conv", None, "--set lenet --batch 4 --samples 1 --divisions undivided", "five convolutions, each measured once"),
    ("--set alexnet", None, "--device cpu", "needs no GPU"),
    ("--set densenet201", None, "--device cpu", "the database has times of the CPU"),
]

# Commands that cannot run here: they must end with this exit code and this line on stderr.
REFUSALS = [
    ("--peer cuda:1", 2, "neap: --peer cuda:1 for device cpu: the device and its peer must be two different GPUs (cuda:N)"),
    ("profile resnet50 --batch 128 --dtype fp16", 2,
     "neap: --half-accumulation for device cpu: only a GPU has engines that add in fp16"),
]

# Run first on a page with this text.
PREPARATIONS = [
    ("torchvision.safetensors", "neap train resnet50 --batch 2 --image 32 --steps 1 --device cpu --weights-out torchvision.safetensors"),
]

# What lines of `sh` blocks may begin with, besides neap and files of the tree.
PROGRAMS = {"cmake", "ctest", "pip", "python3", "source", "sqlite3"}

# Root may start mpirun, and there may be more ranks than cores.
OF_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}

SUBCOMMAND_PAIRS = {("bench", "conv"), ("bench", "workspace"), ("bench", "pool")}
CIFAR_RECORD = 1 + 3 * 32 * 32


def shell_lines(text):
    """The commands of `sh` blocks with their line numbers: no comments, continued lines joined."""
    is_shell, begin, command = False, 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if command:
                yield begin, [command]  # a quotation without an end: no program has such a name
            is_shell, command = line == "```sh", ""
            continue
        if not is_shell:
            continue
        begin = begin if command else number
        command += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        try:
            words = shlex.split(command, comments=True)
        except ValueError:  # a quotation that goes on in the next line
            command += "\n"
            continue
        command = ""
        if words:
            yield begin, words


def contains(words, part):
    part = part.split()
    return any(words[i:i + len(part)] == part for i in range(len(words)))


def substituted(words, used):
    for index, (part, replacement, appended, _) in enumerate(SUBSTITUTIONS):
        if not contains(words, part):
            continue
        used.add(("SUBSTITUTIONS", index))
        if replacement is not None:
            words = f" {' '.join(words)} ".replace(f" {part} ", f" {replacement} ").split()
        words = words + appended.split()
    return words


def expected_end(words, used):
    for index, (part, code, line) in enumerate(REFUSALS):
        if contains(words, part):
            used.add(("REFUSALS", index))
            return code, line
    return 0, None


def make_cifar(folder):
    """A CIFAR-10 folder with two images in each file."""
    folder.mkdir()
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = [bytes([label]) + bytes((label * 37 + i * 11) % 256 for i in range(CIFAR_RECORD - 1)) for label in range(2)]
        (folder / name).write_bytes(b"".join(records))


def is_neap(words):
    return words[0] == "mpirun" or pathlib.PurePosixPath(words[0]).name == "neap"


class Runner:
    def __init__(self, neap):
        self.neap = neap
        self.environment = {**os.environ, **OF_MPI}
        self.environment.setdefault("OMP_NUM_THREADS", "2")

    def run(self, words, folder):
        """Exit code, and the last line on stderr."""
        environment = {**self.environment, "XDG_CACHE_HOME": str(folder / "cache")}
        at, output = words.index("neap"), None
        if ">" in words:
            words, output = words[:words.index(">")], words[words.index(">") + 1]
        ended = subprocess.run([*words[:at], self.neap, *words[at + 1:]], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, timeout=300, check=False)
        if output is not None:
            (folder / output).write_text(ended.stdout)
        return ended.returncode, (ended.stderr.strip().splitlines() or [""])[-1]


def write_png(path, pixels, color_type):
    """A file of 40x30 pixels: their bytes, row by row, and the type of them in PNG."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    path.parent.mkdir(parents=True, exist_ok=True)
    row = len(pixels) // 30
    rows = b"".join(b"\0" + pixels[begin:begin + row] for begin in range(0, len(pixels), row))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 30, 8, color_type, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_images(folder):
    """Two classes of two PNG files each."""
    for name in ["a/1", "a/2", "b/1", "b/2"]:
        write_png(folder / f"{name}.png", os.urandom(3 * 40 * 30), color_type=2)


def make_masks(folder):
    """Images with masks of three classes, for each split."""
    for split in ["train", "val", "test"]:
        for name in ["1", "2", "3", "4"]:
            write_png(folder / split / "images" / f"{name}.png", os.urandom(3 * 40 * 30), color_type=2)
            write_png(folder / split / "masks" / f"{name}.png", bytes(i % 3 for i in range(40 * 30)), color_type=0)


def command_faults(runner, commands, text, used):
    """Runs the commands of one page; yields (line number, fault)."""
    with tempfile.TemporaryDirectory(prefix="neap-commands-") as name:
        folder = pathlib.Path(name)
        make_cifar(folder / "cifar")
        make_images(folder / "images")
        make_masks(folder / "masks")
        if "volumes:volumes" in text:
            example_volumes.write_volumes(folder / "volumes")
        for index, (part, command) in enumerate(PREPARATIONS):
            if part in text:
                used.add(("PREPARATIONS", index))
                commands = [(0, command.split()), *commands]
        for number, words in commands:
            if words[0] == "mpirun" and shutil.which("mpirun") is None:
                print(f"   not run, there is no mpirun: {' '.join(words)}")
                continue
            code, line = expected_end(words, used)
            run = substituted(words, used)
            begin = time.monotonic()
            try:
                got, last = runner.run(run, folder)
            except subprocess.TimeoutExpired:
                got, last = None, "ran for five minutes"
            print(f"{time.monotonic() - begin:6.1f} s  {' '.join(run)}", flush=True)
            if got != code or (line is not None and last != line):
                expected = f"{code}: {line}" if line else code
                yield number, f"{' '.join(run)}\n    ended with {got}: {last}\n    expected {expected}"


def file_faults(words, root, presets):
    """Faults of a command that is not neap's."""
    if words[0] not in PROGRAMS and not (root / words[0]).is_file():
        yield f"no program or file {words[0]}"
    for i, word in enumerate(words):
        if i > 0 and re.match(r"(\./)?[\w.-]+/[\w./-]+$", word) and not (root / word).exists() and not word.startswith("build/"):
            yield f"no file {word}"
        built = re.match(r"build/([\w-]+)", word)
        if built and built.group(1) not in presets:
            yield f"no preset {built.group(1)} in CMakePresets.json"
        if word == "--preset" and (words + [""])[i + 1] not in presets:
            yield f"no preset {(words + [''])[i + 1]} in CMakePresets.json"


class Flags:
    """The flags that each subcommand has, as its help says."""

    def __init__(self, runner):
        self.runner, self.known = runner, {}

    def of(self, subcommand):
        if subcommand not in self.known:
            ended = subprocess.run([self.runner.neap, *subcommand, "--help"], capture_output=True, text=True, check=False)
            flags = set(re.findall(r"^  (--[\w-]+)", ended.stdout, re.MULTILINE)) | {"--help"}
            self.known[subcommand] = flags if ended.returncode == 0 else None
        return self.known[subcommand]


def mention_faults(text, flags):
    """Faults of `neap ...` between backquotes: the subcommand and the flags are looked at, not their values."""
    prose = re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    for match in re.finditer(r"`(?:build/release/)?neap ([a-z][^`]*)`", prose):
        number = text_line(prose, match.start())
        words = match.group(1).removeprefix("help ").split()
        subcommand = tuple(words[:2]) if tuple(words[:2]) in SUBCOMMAND_PAIRS else tuple(words[:1])
        known = flags.of(subcommand)
        if known is None:
            yield number, f"no subcommand: neap {' '.join(subcommand)}"
            continue
        for word in words[len(subcommand):]:
            flag = word.split("=")[0].rstrip(",;")
            if flag.startswith("--") and flag not in known:
                yield number, f"neap {' '.join(subcommand)} has no flag {flag}"


def text_line(text, offset):
    return text.count("\n", 0, offset) + 1


def unused_rows(used):
    for name, table in [("SUBSTITUTIONS", SUBSTITUTIONS), ("REFUSALS", REFUSALS), ("PREPARATIONS", PREPARATIONS)]:
        for index, row in enumerate(table):
            if (name, index) not in used:
                yield f"scripts/check_commands.py: no command needs the row '{row[0]}' of {name}"


def main():
    runner = Runner(str(pathlib.Path(sys.argv[1]).resolve()))
    root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent)
    presets = {preset["name"] for preset in json.loads((root / "CMakePresets.json").read_text())["configurePresets"]}
    flags, used, faults, total = Flags(runner), set(), [], 0
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        text = page.read_text()
        lines = list(shell_lines(text))
        commands = [(number, words) for number, words in lines if is_neap(words)]
        others = [(number, words) for number, words in lines if (number, words) not in commands]
        found = list(mention_faults(text, flags)) + list(command_faults(runner, commands, text, used))
        found += [(number, fault) for number, words in others for fault in file_faults(words, root, presets)]
        faults += [f"{page.relative_to(root)}:{number}: {fault}" for number, fault in sorted(found)]
        total += len(lines)
    faults += unused_rows(used)
    print("\n".join(faults), end="\n" if faults else "")
    print(f"{total} commands, {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
