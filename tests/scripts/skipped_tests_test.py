"""scripts/skipped_tests.py on results as ctest writes them."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/skipped_tests.py"
CASE = '<testcase name="{name}" classname="{name}" status="{status}">{skipped}<system-out>{output}</system-out></testcase>'


def text_for(*cases):
    """What the script prints of tests, each (name, whether it was skipped wholly, its output)."""
    xml = "".join(CASE.format(name=name, status="notrun" if whole else "run", output=output,
                              skipped='<skipped message="SKIP_RETURN_CODE=77"/>' if whole else "")
                  for name, whole, output in cases)
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "tests.xml"
        results.write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite>{xml}</testsuite>')
        return subprocess.run([sys.executable, SCRIPT, results], capture_output=True, text=True, check=True).stdout


class SkippedTestsTest(unittest.TestCase):

    def test_reasons_are_counted_and_named(self):
        gpu = "a.cc(3): MESSAGE: SKIPPED, no GPU: no driver\n\na.cc(9): MESSAGE: SKIPPED, no GPU: no driver\n"
        self.assertEqual(
            text_for(("a", True, gpu), ("b", True, gpu), ("c", False, "x\nSKIPPED, there is no browser\n"), ("d", False, "")),
            "test: of 4 tests, 3 were skipped, 1 of them in part:\n"
            "test:   2 because of: no GPU: no driver (a, b)\n"
            "test:   1 because of: there is no browser (c)\n")

    def test_many_tests_are_not_all_named(self):
        text = text_for(*[(f"t{i}", True, "SKIPPED, no GPU") for i in range(9)])
        self.assertIn("9 because of: no GPU (t0, t1, t2, ...)\n", text)

    def test_a_test_that_gives_no_reason_is_not_overlooked(self):
        self.assertIn("1 because of: without a reason (a)\n", text_for(("a", True, "")))

    def test_nothing_skipped(self):
        self.assertEqual(text_for(("a", False, ""), ("b", False, "")), "test: none of 2 tests was skipped\n")


unittest.main()
