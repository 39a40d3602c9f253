"""scripts/lint.py on a small tree, with a clang-tidy that notes the sources it is given and objects to the word "bad"."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/lint.py"
TREE = {"core/a.h": "a", "core/a.cc": "a", "core/b.cc": "b", "core/other.h": "o", "layers/cuda/c.cc": "c", ".clang-tidy": "",
        ".gitignore": "/build/\n"}
INCLUDES = {"core/a.cc": ["core/a.h", "core/other.h"], "core/b.cc": ["core/other.h"]}
TIDY = '#!/bin/sh\necho "$4" >> "$NOTES"\n! grep -q bad "$4"\n'


@unittest.skipIf(shutil.which("git") is None, "needs git")
class LintTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.root = self.top / "tree"
        for name, text in {**TREE, "scripts/lint.py": SCRIPT.read_text()}.items():
            self.write(name, text)
        build = self.root / "build/dev"
        build.mkdir(parents=True)
        (build / "compile_commands.json").write_text(json.dumps(
            [{"file": "a.cc", "directory": ".", "command": "c++ -Winvalid-pch -include x/cmake_pch.hxx -fpch-preprocess -c a.cc"}]))
        deps = "".join(f"{name}.o: #deps\n    " + "\n    ".join(str(self.root / f) for f in [name, *headers]) + "\n\n"
                       for name, headers in INCLUDES.items())
        self.program("ninja", f"#!/bin/sh\ncat <<'END'\n{deps}END\n")
        self.program("clang-tidy-14", TIDY)
        self.git("init", "-q")
        self.commit()

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def program(self, name, text):
        path = self.top / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example", *arguments], cwd=self.root, check=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "x")

    def lint(self, *arguments):
        """The exit code, and the sources that clang-tidy was given."""
        notes = self.top / "notes"
        notes.write_text("")
        environment = {**os.environ, "PATH": f"{self.top / 'bin'}:{os.environ['PATH']}", "NOTES": str(notes),
                       "XDG_CACHE_HOME": str(self.top / "cache")}
        run = subprocess.run([sys.executable, "-B", "scripts/lint.py", *arguments], cwd=self.root, env=environment,
                             capture_output=True, text=True)
        self.assertEqual(run.stderr, "")
        return run.returncode, sorted(str(pathlib.Path(line).relative_to(self.root)) for line in notes.read_text().split())

    def test_a_source_is_checked_again_when_it_or_what_it_includes_changes(self):
        self.assertEqual(self.lint(), (0, ["core/a.cc", "core/b.cc"]))
        self.assertEqual(self.lint(), (0, []))
        self.write("core/a.h", "new")
        self.assertEqual(self.lint(), (0, ["core/a.cc"]))

    def test_what_fails_is_checked_again(self):
        self.write("core/b.cc", "bad")
        self.assertEqual(self.lint(), (1, ["core/a.cc", "core/b.cc"]))
        self.assertEqual(self.lint(), (1, ["core/b.cc"]))

    def test_only_what_has_changed_since_a_passed_commit_is_checked_and_a_header_once(self):
        self.assertEqual(self.lint("--passed"), (0, []))
        self.assertEqual(self.lint("--changed"), (0, []))
        self.write("core/other.h", "new")
        self.assertEqual(self.lint("--changed"), (0, ["core/a.cc"]))
        self.write("core/b.cc", "new")
        self.commit()
        self.assertEqual(self.lint("--changed", "--since", "HEAD~1"), (0, ["core/b.cc"]))

    def test_the_compile_commands_do_without_the_precompiled_header(self):
        self.lint()
        commands = json.loads((self.root / "build/dev/lint/compile_commands.json").read_text())
        self.assertEqual(commands[0]["command"], "c++ -c a.cc")


if __name__ == "__main__":
    unittest.main()
