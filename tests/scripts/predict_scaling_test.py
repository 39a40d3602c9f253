"""scripts/tables/predict_scaling.py with a command that stands for neap."""

import contextlib
import io
import pathlib
import stat
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts/tables"))

import predict_scaling  # noqa: E402

# Prints the plan of a step that takes 10 ms alone, and 10 / N percent longer on N ranks; rejects other flags than expected.
NEAP = f"""#!{sys.executable}
import json, sys
arguments = sys.argv[1:]
assert arguments[:3] == ["plan", "net", "--batch"] and "--dtype" in arguments, arguments
ranks = int(arguments[arguments.index("--ranks") + 1]) if "--ranks" in arguments else 1
assert int(arguments[3]) == 4 * ranks
plan = {{"predicted_ms": 10 if ranks == 1 else 10 * (1 + 0.1 / ranks)}}
if ranks > 1:
    assert arguments[arguments.index("--link") + 1] == "1GB" and arguments[arguments.index("--hop") + 1] == "2"
    plan["data_parallel"] = {{"sum_ms": 2, "hidden_sum_ms": 1}}
print(json.dumps(plan))
"""


class PredictScaling(unittest.TestCase):
    def test_table_and_chart(self):
        with tempfile.TemporaryDirectory() as folder:
            neap = pathlib.Path(folder, "neap")
            neap.write_text(NEAP)
            neap.chmod(neap.stat().st_mode | stat.S_IXUSR)
            printed = io.StringIO()
            arguments = ["predict_scaling.py", "net", "--neap", str(neap), "--batch-each", "4", "--ranks", "2,10",
                         "--links", "1GB:2", "--", "--dtype", "bf16"]
            with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(printed):
                predict_scaling.main()
        lines = printed.getvalue().splitlines()
        self.assertEqual(lines[0], "One rank: 10.00 ms, 400 images/s")
        self.assertIn("| 1GB/s, 2 us | 2 | 10.50 | 2.00 | 50% | 762 | 95.2% |", lines)
        self.assertIn("| 1GB/s, 2 us | 10 | 10.10 | 2.00 | 50% | 3,960 | 99.0% |", lines)
        self.assertIn("  line [95.2, 99.0]", lines)


if __name__ == "__main__":
    unittest.main()
