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
elif sys.argv[1] == "nets":
    print(json.dumps({"nets": [{"net": "resnet50"}, {"net": "nnunet3d"}, {"net": "gpt2"}]}))
elif pathlib.Path(__file__).with_name("broken").exists():
    sys.exit(pathlib.Path(__file__).with_name("broken").read_text())
elif any(text.startswith("tokens:") for text in sys.argv):
    folder = next(text for text in sys.argv if text.startswith("tokens:"))[len("tokens:"):]
    print(json.dumps({"images_per_second": pathlib.Path(folder, "train.bin").stat().st_size, "measured_peak_bytes": 2**30,
                      "predicted_peak_bytes": 2**30}))
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

    def test_what_pytorch_has_no_memory_for_and_neap_has_no_network_for_is_a_result(self):
        self.assertTrue(speed.passed([record("neap"), record("eager", out_of_memory=True, **ERROR)]))
        self.assertTrue(speed.passed([record("eager"), record("neap", missing=True, **ERROR)]))
        self.assertTrue(speed.passed([record("neap"), record("neap-in-third", no_budget=True, **ERROR)]))
        for program in ("neap", "neap-in-checkpoint"):
            self.assertFalse(speed.passed([record("eager"), record(program, out_of_memory=True, **ERROR)]), program)

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


    def test_a_network_may_have_another_size_which_is_a_part_of_its_name(self):
        case = cases.parse_cases("nnunet3d@192:2:bf16:neap")[0]
        network = cases.network_of(case.network)
        self.assertEqual((case.key, network.image, network.neap), (("nnunet3d@192", 2, "bf16"), 192, "nnunet3d"))
        self.assertEqual(network.flags[-2:], ("--image", "192"))
        self.assertEqual(network.input_shape, (1, 192, 192, 192))
        with self.assertRaisesRegex(ValueError, "the size 'large' is not a positive number"):
            cases.parse_cases("nnunet3d@large:2:bf16")

    def test_pytorch_has_volumes_in_both_layouts_but_in_fp32(self):
        case = cases.parse_cases("nnunet3d:2:bf16:neap+eager+checkpoint")[0]
        self.assertEqual(case.runs(), [("neap", "nhwc"), ("eager", "nhwc"), ("eager", "nchw"), ("checkpoint", "nhwc"),
                                       ("checkpoint", "nchw")])
        self.assertEqual(cases.parse_cases("nnunet3d:2:fp32:eager")[0].runs(), [("eager", "nchw")])
        self.assertEqual(cases.parse_cases("vit_b_16:8:bf16:eager")[0].runs(), [("eager", "nhwc")])

    def test_every_case_of_the_sets_of_memory_is_measured_beside_checkpoints_and_in_both_budgets(self):
        chosen = cases.parse_cases("memory")
        self.assertEqual(len(chosen), 10)
        for case in chosen:
            self.assertEqual(case.programs, cases.MEMORY_PROGRAMS, case.key)

    def test_each_program_of_each_case_is_in_one_pass_and_budgets_are_behind_their_peaks(self):
        order = [program for programs in speed.PASSES for program in programs]
        self.assertEqual(sorted(order), sorted(cases.PROGRAMS))
        for program, (of, _) in cases.BUDGETS.items():
            self.assertLess(order.index(of), order.index(program))

    def test_optimizers_are_stated_to_neap(self):
        self.assertEqual(cases.ADAMW.flags(), ["--optimizer", "adamw", "--lr", "0.001", "--weight-decay", "0.05"])
        self.assertEqual(cases.NNUNET_SGD.flags()[-3:], ["--momentum", "0.99", "--nesterov"])

    def test_the_floor_is_that_of_images(self):
        with self.assertRaisesRegex(ValueError, "the floor is that of images, not of volumes"):
            cases.parse_cases("unet3d:2:bf16:floor")


class BudgetTest(unittest.TestCase):

    def setUp(self):
        self.case = cases.parse_cases("nnunet3d:2:bf16")[0]

    def peak(self, program, layout, peak_bytes, **fields):
        return {"kind": "speed", "network": "nnunet3d", "batch": 2, "dtype": "bf16", "program": program, "layout": layout,
                "gpu": "GPU A", "peak_bytes": peak_bytes, **fields}

    def budget(self, program, *records):
        return speed.budget_of(self.case, program, "GPU A", records)

    def test_the_smallest_of_the_latest_peaks_of_both_layouts_counts(self):
        records = [self.peak("checkpoint", "nhwc", 50), self.peak("checkpoint", "nhwc", 90), self.peak("checkpoint", "nchw", 80)]
        self.assertEqual(self.budget("neap-in-checkpoint", *records), 80)

    def test_a_third_is_that_of_eager(self):
        self.assertEqual(self.budget("neap-in-third", self.peak("eager", "nhwc", 90), self.peak("checkpoint", "nhwc", 60)), 30)

    def test_other_gpus_types_and_programs_say_nothing(self):
        others = [self.peak("eager", "nhwc", 90, gpu="GPU B"), self.peak("eager", "nhwc", 90, dtype="fp16"),
                  self.peak("compile", "nhwc", 90)]
        self.assertIsNone(self.budget("neap-in-third", *others))


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


    def test_a_case_with_checkpoints_stands_in_the_table_of_memory_with_the_faster_layout(self):
        def of(program, **fields):
            return {"kind": "speed", "network": "nnunet3d", "batch": 2, "dtype": "bf16", "gpu": "GPU A", "commit": "a",
                    "program": program, "layout": "nhwc", **fields}

        lines = table.speed_table([
            record("neap", images_per_second=100.0),
            of("neap", images_per_second=8.0, peak_bytes=2**30, predicted_peak_bytes=2**30, step_ms=250.0, predicted_step_ms=275.0),
            of("eager", images_per_second=4.0, peak_bytes=3 * 2**30),
            of("eager", layout="nchw", images_per_second=5.0, peak_bytes=4 * 2**30),
            of("compile", error="out of memory", out_of_memory=True),
            of("checkpoint", images_per_second=3.0, peak_bytes=2 * 2**30),
            of("neap-in-third", images_per_second=6.0, peak_bytes=2**29, budget_bytes=2**30),
        ]).splitlines()
        rows = [line.split("|")[1:-1] for line in lines if line.startswith("| nnunet3d")]
        self.assertEqual([cell.strip() for cell in rows[0]],
                         ["nnunet3d", "2", "bf16", "volumes", "8.00 / 1.00", "1.00, 275.0 (+10.0%)", "5.00 / 4.00", "no memory",
                          "3.00 / 2.00", "-", "6.00 / 0.50 of 1.00"])
        self.assertIn("nnunet3d 2 bf16 eager nhwc: 4.00 / 3.00", lines)
        self.assertIn("nnunet3d 2 bf16 compile nhwc: out of memory", lines)
        self.assertTrue(any(line.startswith("| resnet50") for line in lines))

    def test_tokens_are_counted_and_networks_that_neap_lacks_are_missing(self):
        cell = table.speed_and_peak({"network": "gpt2", "images_per_second": 100.0, "peak_bytes": 2**30})
        self.assertEqual(cell, "102,400 / 1.00")
        self.assertEqual(table.speed_and_peak({"network": "gpt2", "error": "neap nets does not list gpt2", "missing": True}),
                         "missing")


class ProcessesTest(unittest.TestCase):

    def test_too_little_memory_is_told_apart_from_other_failures(self):
        for text in ("CUDA out of memory. Tried to allocate 2 GiB", "CUDNN_STATUS_ALLOC_FAILED", "neap: cudaMalloc(8 bytes) on GPU 0",
                     "neap: a budget of 1 byte is too small for x; the smallest feasible budget is 2 bytes"):
            self.assertTrue(processes.is_memory_failure(text), text)
        self.assertFalse(processes.is_memory_failure("neap: an image of 8 is too small for resnet50"))

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

    def results(self):
        return [json.loads(line) for line in (self.path / "results").read_text().splitlines()]

    def test_neap_is_measured_within_the_bytes_of_an_earlier_peak(self):
        peak = {"kind": "speed", "network": "nnunet3d", "batch": 2, "dtype": "bf16", "program": "eager", "gpu": "GPU A",
                "peak_bytes": 3000}
        (self.path / "results").write_text(json.dumps(peak) + "\n")
        code, output = self.compare("--cases", "nnunet3d:2:bf16:neap-in-third+neap-in-checkpoint")
        self.assertEqual(code, 0, output)
        _, checkpoint, third = self.results()
        if checkpoint["program"] == "neap-in-third":
            checkpoint, third = third, checkpoint
        self.assertEqual(third["flags"][third["flags"].index("--budget") + 1], "1000")
        self.assertEqual(third["budget_bytes"], 1000)
        self.assertIn("--nesterov", third["flags"])
        self.assertTrue(checkpoint["no_budget"])
        self.assertIn("100.0 volumes/s", output)

    def test_tokens_are_a_file_as_long_as_the_batch(self):
        code, output = self.compare("--cases", "gpt2:16:bf16:neap")
        self.assertEqual(code, 0, output)
        result = self.results()[0]
        self.assertEqual(result["images_per_second"], 2 * (16 * 1024 + 1))
        self.assertEqual(result["flags"][:3], ["gpt2", "--classes", "50257"])

    def test_a_network_that_neap_does_not_list_is_missing_and_the_others_are_measured(self):
        code, output = self.compare("--cases", "gpt2-medium:8:bf16:neap,gpt2:16:bf16:neap")
        self.assertEqual(code, 0, output)
        self.assertEqual([result.get("missing") for result in self.results()], [True, None])
        self.assertIn("gpt2-medium 8 bf16 neap: neap nets does not list gpt2-medium", output)

    def test_a_neap_without_memory_is_recorded_as_such(self):
        (self.path / "broken").write_text("neap: cudaMalloc(8 bytes) on GPU 0: out of memory")
        code, output = self.compare("--cases", "nnunet3d:2:bf16:neap")
        self.assertEqual(code, 1, output)
        self.assertTrue(self.results()[0]["out_of_memory"])

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
        (self.path / "broken").write_text("neap: no kernels")
        code, output = self.compare("--cases", "resnet50:8:bf16:neap")
        self.assertEqual(code, 1, output)
        self.assertIn("neap: exit code 1: neap: no kernels", output)


if __name__ == "__main__":
    unittest.main()
