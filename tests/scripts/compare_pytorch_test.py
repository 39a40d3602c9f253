"""scripts/compare_pytorch.py without PyTorch: which runs fail, what stands in one table, which processes are left."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from comparison import cases, processes, speed, step_rule, table  # noqa: E402

ERROR = {"error": "exit code 1"}
STOPPED = {"error": "stopped after 180 s", "out_of_time": True}

# A command that answers like neap; `train` fails if a file `broken` lies beside it.
NEAP = """#!/usr/bin/env python3
import json, pathlib, sys
if sys.argv[1] == "devices":
    print(json.dumps({"devices": [{"device": "cuda:0", "name": "GPU A"}]}))
elif pathlib.Path(__file__).with_name("broken").exists():
    sys.exit("neap: no kernels")
else:
    speed = 190 if "cuda:0,cuda:1" in sys.argv and "16" in sys.argv else 100
    print(json.dumps({"images_per_second": speed, "measured_peak_bytes": 2**30, "predicted_peak_bytes": 2**30}))
"""


def record(program, gpu="GPU A", commit="1234567", **fields):
    return {"kind": "speed", "network": "resnet50", "batch": 8, "dtype": "bf16", "program": program, "gpu": gpu,
            "commit": commit, **fields}


def lives(pid):
    """Whether a process runs; one that ended and that nobody has asked for its exit code does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class PassedTest(unittest.TestCase):

    def test_a_run_passes_if_every_program_ran(self):
        self.assertTrue(speed.passed([record("neap"), record("eager"), record("floor"), record("compile")]))

    def test_a_failed_program_fails_the_run_whichever_it_is(self):
        for program in ("neap", "eager", "floor", "compile", "reduce-overhead"):
            with self.subTest(program):
                self.assertFalse(speed.passed([record("eager"), record(program, **ERROR)]))

    def test_a_time_limit_may_end_the_floor_and_compiled_programs_alone(self):
        for program, expected in [("neap", False), ("eager", False), ("floor", True), ("compile", True)]:
            with self.subTest(program):
                self.assertEqual(speed.passed([record("neap"), record(program, **STOPPED)]), expected)

    def test_a_run_that_measured_nothing_fails(self):
        self.assertFalse(speed.passed([record("floor", **STOPPED)]))
        self.assertFalse(speed.passed([]))


class StepRuleTest(unittest.TestCase):
    """Of a network with two parameters, in fp32: errors of at most four times PyTorch's plus 1e-5 pass."""

    def step(self, neap, pytorch):
        rows = [step_rule.Row(name, "change", "weight", 2.0, 2 * neap, 2 * pytorch) for name in ("conv.weight", "fc.weight")]
        return step_rule.Step(step_rule.Row("loss", "value", "loss", 7.0, 0.0, 0.0), rows, [])

    def check(self, *errors):
        return step_rule.check("network", "fp32", [self.step(*pair) for pair in errors])

    def test_errors_are_compared_with_those_of_pytorch(self):
        self.assertTrue(self.check((4e-3, 1e-3))["passed"])
        failed = self.check((5e-3, 1e-3))
        self.assertEqual(failed["beyond"], ["conv.weight", "fc.weight"])
        self.assertEqual(failed["exceeded"], ["norm", "median", "worst"])

    def test_a_flipped_relu_in_one_of_several_batches_passes_and_in_most_of_them_does_not(self):
        self.assertFalse(self.check((1e-3, 1e-6))["passed"])
        self.assertTrue(self.check((1e-3, 1e-6), (1e-6, 1e-6), (1e-6, 1e-6))["passed"])
        self.assertFalse(self.check((1e-3, 1e-6), (1e-3, 1e-6), (1e-6, 1e-6))["passed"])
        self.assertTrue(self.check((1e-3, 1e-6), (1e-3, 1e-6), (1e-6, 1e-3))["passed"])

    def test_a_step_that_is_wrong_altogether_fails_in_any_batch(self):
        right = [(1e-6, 1e-6)] * 4
        self.assertFalse(self.check((float("nan"), 1e-6), *right)["passed"])
        self.assertEqual(self.check((10, 1e-6), *right)["exceeded"], ["norm of a batch"])
        steps = [self.step(*pair) for pair in right]
        wrong_loss = step_rule.Row("loss", "value", "loss", 7.0, 0.1, 0.0)
        steps.append(step_rule.Step(wrong_loss, steps[0].parameters, []))
        self.assertEqual(step_rule.check("network", "fp32", steps)["exceeded"], ["loss"])


class CasesTest(unittest.TestCase):

    def test_a_network_that_neap_reads_from_onnx_files_only_has_no_speed(self):
        with self.assertRaisesRegex(ValueError, "neap reads dla34 from ONNX files only"):
            cases.parse_cases("dla34:32:fp32")


class TableTest(unittest.TestCase):

    def test_measurements_of_two_gpus_stand_in_two_tables(self):
        lines = table.speed_table([record("floor", gpu="GPU B", floor_ms=7.25), record("neap", images_per_second=100.0)])
        first, second = lines.split("GPU A;")
        self.assertIn("GPU B; commit: 1234567", first)
        self.assertIn("7.25", first)
        self.assertIn("100.0", second)
        self.assertNotIn("7.25", second)

    def test_the_heading_says_where_the_batches_lie_and_names_all_commits(self):
        lines = table.speed_table([record("neap", commit="b"), record("eager", commit="a", cudnn=91900)])
        self.assertIn("PyTorch's batch stays on the GPU; neap copies one from pinned memory in every step", lines)
        self.assertIn("GPU A; commit: a, b; PyTorch's cuDNN: 91900", lines)

    def test_what_is_missing_is_a_dash_and_its_reason_stands_below(self):
        lines = table.speed_table([record("compile", **STOPPED)]).splitlines()
        self.assertEqual(lines[-1], "resnet50 8 bf16 compile: stopped after 180 s")


class ProcessesTest(unittest.TestCase):

    def test_processes_that_a_command_leaves_behind_are_killed_when_it_has_ended(self):
        begin = time.monotonic()
        ended = processes.run_limited(["bash", "-c", "sleep 60 & echo $!"], limit_s=30)
        pid = int(ended.stdout)
        self.assertEqual(ended.code, 0)
        while lives(pid) and time.monotonic() - begin < 20:
            time.sleep(0.01)
        self.assertFalse(lives(pid))

    def test_a_command_that_leaves_nothing_behind_ends_with_its_own_exit_code(self):
        self.assertEqual(processes.run_limited(["bash", "-c", "echo out; echo err >&2; exit 3"]),
                         processes.Ended(3, "out\n", "err\n"))

    def test_a_limit_is_told_apart_from_a_failure(self):
        with self.assertRaisesRegex(processes.OutOfTime, "stopped after 0 s"):
            processes.run_limited(["sleep", "60"], limit_s=0.1)
        with self.assertRaises(processes.OutOfTime):
            processes.Deadline(1).limit(180)


class CommandTest(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "neap").write_text(NEAP)
        (self.path / "neap").chmod(0o755)
        # Instead of PyTorch, if there is one.
        (self.path / "torch.py").write_text('raise ImportError("no PyTorch in this test")\n')

    def compare(self, *arguments):
        """The exit code and the output of the script, with the command above."""
        run = subprocess.run([sys.executable, "-B", ROOT / "scripts/compare_pytorch.py", "--neap", self.path / "neap",
                              "--results", self.path / "results", *arguments], capture_output=True, text=True,
                             env={**os.environ, "PYTHONPATH": str(self.path)})
        return run.returncode, run.stdout

    def test_neap_alone_is_measured_and_recorded_with_its_gpu(self):
        code, output = self.compare("--cases", "resnet50:8:bf16:neap")
        self.assertEqual(code, 0, output)
        self.assertIn("GPU A; commit: ", output)
        result = json.loads((self.path / "results").read_text())
        self.assertEqual((result["gpu"], result["images_per_second"]), ("GPU A", 100.0))

    def test_a_floor_that_cannot_be_measured_ends_with_exit_code_1(self):
        code, output = self.compare("--cases", "resnet50:8:bf16", "--floor")
        self.assertEqual(code, 1, output)
        self.assertIn("resnet50 8 bf16 floor: exit code 1", output)

    def test_what_fails_to_compile_first_is_measured_all_the_same(self):
        code, output = self.compare("--cases", "resnet50:8:bf16:neap+compile", "--compile-first")
        self.assertEqual(code, 1, output)
        self.assertIn("resnet50 8 bf16 compile: not compiled first: exit code 1", output)
        self.assertIn("compiled first in ", output)
        results = [json.loads(line) for line in (self.path / "results").read_text().splitlines()]
        self.assertEqual([result["program"] for result in results], ["neap", "compile"])

    def test_two_gpus_with_twice_the_batch_are_compared_with_one(self):
        code, output = self.compare("--cases", "resnet50:8:bf16:neap", "--gpus", "2", "--rounds", "2")
        self.assertEqual(code, 0, output)
        self.assertIn("| resnet50 | 8 | bf16 | neap | 100 | 2 | 190 | 95.0% |", output)
        results = [json.loads(line) for line in (self.path / "results").read_text().splitlines()]
        self.assertEqual([result["gpus"] for result in results], [1, 2, 1, 2])

    def test_a_neap_that_fails_ends_with_exit_code_1(self):
        (self.path / "broken").touch()
        code, output = self.compare("--cases", "resnet50:8:bf16:neap")
        self.assertEqual(code, 1, output)
        self.assertIn("neap: exit code 1: neap: no kernels", output)


if __name__ == "__main__":
    unittest.main()
