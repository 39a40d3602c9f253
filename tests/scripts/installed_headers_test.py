"""scripts/installed_headers.py on small trees."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/installed_headers.py"

TREE = {
    "core/neap.h": '#include "neap/layers/join.h"\n#include <string>\n#include "absl/status/status.h"\n',
    "layers/join.h": '#include "neap/core/base/units.h"\n',
    "core/base/units.h": "",
    "core/base/own.h": "",  # nobody outside of neap needs it
}


class InstalledHeadersTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write({**TREE, "cmake/installed_headers.cmake": ""})

    def write(self, files):
        for file, text in files.items():
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            (self.root / file).write_text(text)

    def run_script(self, *arguments):
        run = subprocess.run([sys.executable, SCRIPT, *arguments, self.root], capture_output=True, text=True)
        self.assertEqual(run.stderr, "")
        return run.returncode, run.stdout.splitlines()[1:]

    def test_the_list_that_it_writes_is_right(self):
        self.assertEqual(self.run_script("--write"), (0, []))
        self.assertEqual(self.run_script(), (0, []))
        text = (self.root / "cmake/installed_headers.cmake").read_text()
        self.assertIn("set(NEAP_INSTALLED_HEADERS\n  core/base/units.h\n  core/neap.h\n  layers/join.h\n)\n", text)

    def test_each_line_to_add_or_to_remove_is_printed(self):
        self.run_script("--write")
        self.write({"layers/join.h": '#include "neap/core/base/own.h"\n'})
        self.assertEqual(self.run_script(), (1, ["+  core/base/own.h", "-  core/base/units.h"]))


if __name__ == "__main__":
    unittest.main()
