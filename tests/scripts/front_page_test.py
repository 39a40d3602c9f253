"""scripts/front_page.py on results made up here: the budgets, the table and the picture of README's first page."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/front_page.py"
GIB = 2**30


def record(program, speed, gib, budget=None):
    flags = ["--budget", budget] if budget else []
    return {"network": "resnet50", "batch": 256, "dtype": "bf16", "program": program, "images_per_second": speed,
            "peak_bytes": int(gib * GIB), "flags": flags, "gpu": "NVIDIA H100"}


RECORDS = [record("eager", 1000, 99), record("eager", 4000, 12), record("compile", 6000, 10), record("neap", 8000, 7.5),
           record("neap", 7600, 5.9, "6.00GiB"), record("neap", 6000, 1.9, "2.00GiB"),
           {**record("neap", 1, 1), "network": "vgg16"}, {**record("neap", 1, 1), "images_per_second": None, "error": "x", "batch": 8}]


class FrontPageTest(unittest.TestCase):

    def run_script(self, records, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "compare.jsonl"
            results.write_text("".join(json.dumps(line) + "\n" for line in records))
            run = subprocess.run([sys.executable, "-B", SCRIPT, results, *arguments], capture_output=True, text=True)
        return run.returncode, run.stdout, run.stderr

    def test_budgets_are_parts_of_the_newest_peak_of_pytorch(self):
        self.assertEqual(self.run_script(RECORDS, "--budgets"), (0, "6.00GiB 4.00GiB 2.00GiB\n", ""))

    def test_the_table_compares_with_neap_without_a_budget(self):
        status, out, _ = self.run_script(RECORDS)
        self.assertEqual(status, 0)
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.strip().splitlines()[2:]]
        self.assertEqual(cells, [
            ["PyTorch, eager", "12.00", "4000", "50%"],
            ["PyTorch, torch.compile", "10.00", "6000", "75%"],
            ["neap, no budget", "7.50", "8000", "100%"],
            ["neap, budget 6.00 GiB (1/2 of eager's peak)", "5.90", "7600", "95%"],
            ["neap, budget 2.00 GiB (1/6 of eager's peak)", "1.90", "6000", "75%"]])

    def test_the_picture_has_a_point_for_each_row_in_both_themes(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.run_script(RECORDS, "--draw", folder)[0], 0)
            for theme in ("light", "dark"):
                root = xml.etree.ElementTree.parse(pathlib.Path(folder) / f"resnet50_{theme}.svg").getroot()
                points = root.findall("{http://www.w3.org/2000/svg}circle")
                self.assertEqual(len(points), 5)
                for point in points:
                    self.assertTrue(0 < float(point.get("cx")) < 760 and 0 < float(point.get("cy")) < 400)

    def test_without_a_measurement_of_pytorch_it_says_so(self):
        status, _, err = self.run_script([record("neap", 8000, 7.5)])
        self.assertEqual(status, 1)
        self.assertIn("no measurement of PyTorch", err)


if __name__ == "__main__":
    unittest.main()
