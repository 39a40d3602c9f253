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
    "core/advanced.h": '#include "neap/core/neap.h"\n#include "neap/core/step/operands.h"\n',
    "layers/join.h": '#include "neap/core/base/units.h"\n',
    "core/base/units.h": "#include <cstdint>\n",
    "core/step/operands.h": '#include "neap/layers/join.h"\n',
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
        return run.returncode, run.stdout.splitlines()

    def test_the_list_that_it_writes_is_right(self):
        self.assertEqual(self.run_script("--write"), (0, []))
        self.assertEqual(self.run_script(), (0, []))
        text = (self.root / "cmake/installed_headers.cmake").read_text()
        self.assertIn("set(NEAP_FRONT_DOORS core/neap.h core/advanced.h)", text)
        self.assertIn("set(NEAP_INSTALLED_HEADERS\n  core/advanced.h\n  core/base/units.h\n  core/neap.h\n"
                      "  core/step/operands.h\n  layers/join.h\n)\n", text)

    def test_each_line_to_add_or_to_remove_is_printed(self):
        self.run_script("--write")
        self.write({"layers/join.h": '#include "neap/core/base/own.h"\n'})
        code, lines = self.run_script()
        self.assertEqual((code, lines[1:]), (1, ["+  core/base/own.h", "-  core/base/units.h"]))

    def test_what_only_one_of_the_doors_includes_is_listed(self):
        self.run_script("--write")
        for door in ("core/neap.h", "core/advanced.h"):
            with self.subTest(door):
                self.write({**TREE, door: TREE[door] + '#include "neap/core/base/own.h"\n'})
                code, lines = self.run_script()
                self.assertEqual((code, lines[1:]), (1, ["+  core/base/own.h"]))

    def test_a_header_that_includes_another_library_is_named(self):
        self.write({"core/base/units.h": "#include <boost/intrusive/list.hpp>\n#include <sqlite3.h>\n"})
        faults = [f"core/base/units.h includes {name}, which a user of neap may not have"
                  for name in ("boost/intrusive/list.hpp", "sqlite3.h")]
        self.assertEqual(self.run_script("--write"), (1, faults))
        self.assertEqual(self.run_script(), (1, faults))

    def test_headers_that_are_not_installed_may_include_other_libraries(self):
        self.write({"core/base/own.h": "#include <boost/intrusive/list.hpp>\n"})
        self.assertEqual(self.run_script("--write"), (0, []))


if __name__ == "__main__":
    unittest.main()
