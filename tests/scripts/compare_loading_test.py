"""scripts/compare_loading.py with commands that answer like neap's: which tables it prints, and what it does without PyTorch."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from comparison import cases, loading  # noqa: E402

# image_folder_bench: 500 images/s for each thread. It writes the names of its folder and the number of photographs to a file.
BENCH = """#!/usr/bin/env python3
import json, os, pathlib, re, sys
if pathlib.Path(__file__).with_name("broken").exists():
    print(json.dumps({"benchmarks": [{"name": "Train/crop/threads:1/", "error_occurred": True,
                                      "error_message": "0.jpg: No space left on device"}]}))
    sys.exit()
pathlib.Path(__file__).with_name("photographs").write_text(
    os.environ["NEAP_PHOTOGRAPHS"] + " " + os.environ["NEAP_PHOTOGRAPH_COUNT"])
numbers = re.search("threads:[(]([0-9|]+)[)]", " ".join(sys.argv)).group(1).split("|")
print(json.dumps({"benchmarks": [{"name": f"Train/crop/threads:{n}/process_time/real_time",
                                  "items_per_second": 500 * int(n)} for n in numbers]}))
"""

# neap: trains 1800 images/s on a folder and 2000 on one batch, and copies as many bytes as 6000 images of 16-bit values have.
NEAP = """#!/usr/bin/env python3
import json, sys
if sys.argv[1] == "devices":
    print(json.dumps({"devices": [{"device": "cuda:0", "name": "GPU A", "measured_copies": {"to_device": 6000 * 301056}}]}))
else:
    speed = 2000 if "--repeat-batch" in sys.argv else 1800
    print(json.dumps({"images_per_second": speed, "images_per_second_mean": speed, "arguments": sys.argv[2:]}))
"""


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


class BoundTest(unittest.TestCase):

    def test_a_gpu_that_trains_as_fast_on_photographs_is_fed(self):
        self.assertEqual(loading.bound(1960, 2000, 5000, 6000), "The GPU is fed at full speed.")

    def test_the_slowest_part_bounds_the_training_if_it_is_no_faster(self):
        self.assertIn("as fast as decoding alone", loading.bound(1500, 2000, 1510, 6000))
        self.assertIn("as fast as copying to the GPU alone", loading.bound(1500, 2000, 5000, 1510))

    def test_a_training_that_is_slower_than_each_part_is_bound_by_what_they_share(self):
        self.assertIn("the parts share the host's cores", loading.bound(1500, 2000, 1800, 6000))
        self.assertIn("the parts share the host's cores", loading.bound(1500, 2000, None, None))

    def test_what_is_missing_is_said(self):
        self.assertEqual(loading.bound(None, 2000, 1800, None), "Not all of it was measured.")


class TableTest(unittest.TestCase):

    def test_medians_of_the_rounds_stand_beside_each_other(self):
        table = loading.loading_table([1, 16], {"neap": [[500, 6000], [520, 8000], [510, 7000]], "PyTorch": [[255, 2000]]})
        lines = table.splitlines()
        self.assertEqual(lines[2].split(), ["|", "1", "|", "510", "|", "255", "|", "2.00", "|"])
        self.assertEqual(lines[3].split(), ["|", "16", "|", "7000", "|", "2000", "|", "3.50", "|"])

    def test_a_training_that_failed_is_a_dash(self):
        case = cases.parse_case("resnet50:256:bf16")
        table = loading.training_table(case, 16, {"folder": [], "repeated": [2000]}, 7000, None)
        self.assertIn("| training on photographs, 16 threads |        - |            - |", table)
        self.assertIn("| resnet50, batch 256, bf16 ", table)


class CommandTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        write_program(self.path / "bench", BENCH)
        write_program(self.path / "neap", NEAP)
        # Instead of PyTorch, if there is one.
        (self.path / "torch.py").write_text('raise ImportError("no PyTorch in this test")\n')
        (self.path / "PIL.py").write_text("")

    def compare(self, *arguments):
        """The exit code and the output of the script, with the commands above."""
        run = subprocess.run([sys.executable, "-B", ROOT / "scripts/compare_loading.py", "--neap", self.path / "neap", "--bench",
                              self.path / "bench", "--results", self.path / "results", *arguments], capture_output=True,
                             text=True, env={**os.environ, "PYTHONPATH": str(self.path)})
        return run.returncode, run.stdout + run.stderr

    def test_without_pytorch_neap_is_measured_alone_and_one_line_says_so(self):
        code, output = self.compare("--threads", "1,16", "--rounds", "2", "--training", "none", "--images", "30")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("PyTorch is not measured: no PyTorch in this test\n"), 1)
        self.assertIn("| 16      |           8000 |       - |              - |", output)
        self.assertTrue((self.path / "photographs").read_text().endswith("/photographs 30"))
        records = [json.loads(line) for line in (self.path / "results").read_text().splitlines()]
        self.assertEqual([record["images_per_second"] for record in records], [[500, 8000]] * 2)

    def test_training_on_photographs_stands_beside_one_batch_and_its_bound_is_named(self):
        code, output = self.compare("--threads", "4", "--rounds", "1", "--photographs", str(self.path / "kept"))
        self.assertEqual(code, 0, output)
        self.assertIn("GPU A, ", output)
        rows = [line.split("|")[1:-1] for line in output.splitlines() if line.startswith("| ")]
        speeds = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows}
        self.assertEqual(speeds["training on one batch repeatedly"], ["2000", "1.000"])
        self.assertEqual(speeds["training on photographs, 4 threads"], ["1800", "0.900"])
        self.assertEqual(speeds["decoding alone, 4 threads"], ["2000", "1.000"])
        self.assertEqual(speeds["copying to the GPU alone"], ["6000", "3.000"])
        self.assertIn("the parts share the host's cores", output)
        records = [json.loads(line) for line in (self.path / "results").read_text().splitlines()]
        given = {record["program"]: record["neap"]["arguments"] for record in records if "neap" in record}
        self.assertIn(f"imagefolder:{self.path / 'kept'}", given["folder"])
        self.assertEqual(given["folder"][given["folder"].index("--workers") + 1], "4")

    def test_a_benchmark_that_fails_ends_the_comparison_with_its_message(self):
        (self.path / "broken").touch()
        code, output = self.compare("--threads", "1", "--training", "none")
        self.assertEqual(code, 1, output)
        self.assertIn("photographs: image_folder_bench: 0.jpg: No space left on device", output)

    def test_a_benchmark_that_is_not_there_is_named(self):
        (self.path / "bench").unlink()
        code, output = self.compare("--threads", "1", "--training", "none")
        self.assertEqual(code, 1, output)
        self.assertIn(f"photographs: [Errno 2] No such file or directory: '{self.path / 'bench'}'", output)

    def test_a_number_of_threads_that_is_not_measured_is_refused(self):
        code, output = self.compare("--threads", "1,3")
        self.assertEqual(code, 2, output)
        self.assertIn("3 threads are not measured, only 1, 2, 4, 8, 16", output)

    def test_the_limit_ends_the_comparison_between_two_rounds(self):
        code, output = self.compare("--threads", "1", "--training", "none", "--rounds", "1000", "--limit", "11")
        self.assertEqual(code, 0, output)
        self.assertIn("the limit ends the comparison after ", output)


if __name__ == "__main__":
    unittest.main()
