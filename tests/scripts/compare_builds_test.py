"""scripts/compare_builds.py with commands that print what a training prints."""
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/compare_builds.py"
NEAP = f"""#!{sys.executable}
import json, sys
if "--strict" in sys.argv:
    for loss in LOSSES:
        print(json.dumps({{"event": "step", "loss_text": loss}}))
print(json.dumps({{"event": "end", "images_per_second": SPEED, "measured_peak_bytes": PEAK}}))
"""


class CompareBuildsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, name, speed=1000.0, peak=2**30, losses=("2.5", "2.25")):
        program = self.folder / name
        text = NEAP.replace("SPEED", str(speed)).replace("PEAK", str(peak)).replace("LOSSES", repr(losses))
        program.write_text(text)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return str(program)

    def compare(self, **new):
        command = [sys.executable, str(SCRIPT), "--rounds", "1", self.build("old"), self.build("new", **new), "lenet:64:fp32"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()[-1]

    def test_equal_builds_agree(self):
        self.assertEqual(self.compare(), (0, "| lenet:64:fp32 | 1000 | 1000 | +0.00% | 1.000 | 1.000 | equal |"))
        self.assertEqual(self.compare(speed=1004.0), (0, "| lenet:64:fp32 | 1000 | 1004 | +0.40% | 1.000 | 1.000 | equal |"))

    def test_another_speed_peak_or_loss_is_found(self):
        self.assertEqual(self.compare(speed=990.0), (1, "| lenet:64:fp32 | 1000 | 990 | -1.00% | 1.000 | 1.000 | equal |"))
        self.assertEqual(self.compare(peak=2**31), (1, "| lenet:64:fp32 | 1000 | 1000 | +0.00% | 1.000 | 2.000 | equal |"))
        self.assertEqual(self.compare(losses=("2.5", "2.26")),
                         (1, "| lenet:64:fp32 | 1000 | 1000 | +0.00% | 1.000 | 1.000 | DIFFER |"))


if __name__ == "__main__":
    unittest.main()
