"""PyTorch's side of scripts/compare_pytorch.py where PyTorch is: the networks of volumes and tokens, their losses, and tiny steps of
training on the CPU."""
import contextlib
import importlib.util
import io
import math
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "torchvision", "safetensors"))
if HAS_TORCH:
    import torch
    from comparison import cases, gpt2, models, peaks, pytorch_speed, step_check, training, volumes
else:
    print("SKIPPED, no PyTorch: the networks, the losses and the steps of PyTorch's side of the comparison")

TINY = ("nnunet3d@16", "resenc-unet-xl@16", "unet3d@64", "gpt2@8")


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def tiny():
    """The networks of TINY become small."""
    return mock.patch.multiple(volumes, FEATURES=(4,) * 6, planned_features=lambda edge: [4, 6, 8]), \
        mock.patch.dict(gpt2.SIZES, {"gpt2": (2, 2, 8)})


@unittest.skipUnless(HAS_TORCH, "needs PyTorch, torchvision and safetensors")
class NetworksTest(unittest.TestCase):

    def made(self, name):
        with torch.device("meta"):
            return models.make_network(name)

    def test_they_have_as_many_parameters_as_neaps_and_the_sources(self):
        for name, number in [("unet3d", 31_190_243), ("gpt2", 124_439_808), ("gpt2-medium", 354_823_168)]:
            self.assertEqual(parameters(self.made(name)), number, name)
        with torch.device("meta"):
            self.assertEqual(parameters(volumes.NnUNet(128, 1, 2, residual=False)), 31_195_594)
            self.assertEqual(parameters(volumes.NnUNet(128, 1, 2, residual=True)), 102_349_770)

    def test_parameters_have_the_names_of_the_sources(self):
        plain = dict(self.made("nnunet3d").named_parameters())
        for name in ("encoder.stages.0.0.convs.0.conv.weight", "encoder.stages.5.0.convs.1.norm.bias", "decoder.transpconvs.4.bias",
                     "decoder.stages.4.convs.1.conv.bias", "decoder.seg_layers.0.weight"):
            self.assertIn(name, plain)
        self.assertEqual(len(plain), 22 * 4 + 5 * 2 + 5 * 2)
        residual = dict(self.made("resenc-unet-xl").named_parameters())
        for name in ("encoder.stem.convs.0.conv.weight", "encoder.stages.0.blocks.0.conv2.norm.weight",
                     "encoder.stages.1.blocks.0.skip.1.conv.weight", "decoder.stages.0.convs.0.norm.weight"):
            self.assertIn(name, residual)
        for name in ("encoder.stages.0.blocks.0.skip.0.conv.weight", "encoder.stages.1.blocks.0.skip.1.conv.bias",
                     "encoder.stages.5.blocks.0.skip.1.conv.weight"):
            self.assertNotIn(name, residual)
        mlperf = dict(self.made("unet3d").named_parameters())
        for name in ("input_block.conv1.0.weight", "downsample.3.conv2.1.bias", "bottleneck.conv1.0.weight",
                     "upsample.0.upsample_conv.0.weight", "output.conv.weight"):
            self.assertIn(name, mlperf)
        self.assertNotIn("lm_head.weight", dict(self.made("gpt2").named_parameters()))

    def test_each_network_in_budgets_has_blocks_to_checkpoint(self):
        for case in cases.parse_cases("memory"):
            self.assertGreater(peaks.checkpoint_blocks(self.made(case.network)), 3, case.network)

    def test_stages_are_those_that_nnunet_plans(self):
        self.assertEqual(volumes.planned_features(128), [32, 64, 128, 256, 320, 320])
        self.assertEqual(volumes.planned_features(192), [32, 64, 128, 256, 320, 320])
        self.assertEqual(volumes.planned_features(64), [32, 64, 128, 256, 320])

    def test_biases_in_front_of_instance_norms_are_cancelled(self):
        cancelled = volumes.cancelled_biases(self.made("resenc-unet-xl"))
        self.assertIn("encoder.stem.convs.0.conv.bias", cancelled)
        self.assertNotIn("encoder.stages.1.blocks.0.skip.1.conv.bias", cancelled)  # it has none
        self.assertEqual(volumes.cancelled_biases(self.made("unet3d")), set())


@unittest.skipUnless(HAS_TORCH, "needs PyTorch, torchvision and safetensors")
class LossesTest(unittest.TestCase):

    def test_dice_and_cross_entropy_by_hand(self):
        # Two voxels, whose probabilities of class 1 are 1/2 and 3/4.
        logits = torch.tensor([[1.0, 1.0], [1.0, 3.0]], dtype=torch.float64).log().reshape(1, 2, 1, 1, 2)
        labels = torch.tensor([0, 1]).reshape(1, 1, 1, 2)
        dice = (2 * 0.75 + 1e-5) / (0.5 + 0.75 + 1 + 1e-5)
        entropy = -(math.log(0.5) + math.log(0.75)) / 2
        self.assertAlmostEqual(training.dice_and_cross_entropy(logits, labels, 1e-5).item(), entropy - dice, places=12)

    def test_heads_read_the_nearest_labels_and_have_halved_weights(self):
        labels = torch.randint(0, 2, (2, 8, 8, 8))
        heads = [torch.randn(2, 2, *3 * (8 // stride,), dtype=torch.float64) for stride in (1, 2, 4)]
        losses = [training.dice_and_cross_entropy(heads[0], labels, 1e-5),
                  training.dice_and_cross_entropy(heads[1], labels[:, 1::2, 1::2, 1::2], 1e-5),
                  training.dice_and_cross_entropy(heads[2], labels[:, 2::4, 2::4, 2::4], 1e-5)]
        weights = [1, 0.5, 1e-6]
        expected = sum(weight * loss for weight, loss in zip(weights, losses)) / sum(weights)
        self.assertAlmostEqual(training.deep_supervision(heads, labels).item(), expected.item(), places=12)


@unittest.skipUnless(HAS_TORCH, "needs PyTorch, torchvision and safetensors")
class StepsTest(unittest.TestCase):

    def setUp(self):
        for patch in tiny():
            patch.start()
            self.addCleanup(patch.stop)

    def test_tiny_networks_train_and_checkpoints_change_no_loss(self):
        for name in TINY:
            losses = {}
            for program, layout in (("eager", "nchw"), ("eager", "nhwc"), ("checkpoint", "nhwc")):
                request = {"network": name, "batch": 2, "dtype": "fp32", "layout": layout, "program": program, "device": "cpu",
                           "warm_up": 1, "steps": 2}
                record = pytorch_speed.measure(request)
                self.assertNotIn("error", record)
                self.assertGreater(record["images_per_second"], 0)
                losses[program, layout] = record["loss"]
            self.assertAlmostEqual(losses["eager", "nhwc"], losses["checkpoint", "nhwc"], places=5, msg=name)
            self.assertAlmostEqual(losses["eager", "nhwc"], losses["eager", "nchw"], places=3, msg=name)

    def test_pytorch_without_memory_is_recorded_as_such(self):
        request = {"network": "gpt2@8", "device": "cpu"}
        with mock.patch.object(pytorch_speed, "train", side_effect=RuntimeError("CUDA out of memory.")):
            self.assertTrue(pytorch_speed.measure(request)["out_of_memory"])
        with mock.patch.object(pytorch_speed, "train", side_effect=RuntimeError("no kernel")), self.assertRaises(RuntimeError):
            pytorch_speed.measure(request)

    def step(self, name, dtype):
        arguments = types.SimpleNamespace(device="cpu", batch=2, loss_scale=1.0, onnx=False, neap="neap", neap_arguments=[],
                                          measurement_limit=60)
        return step_check.StepCheck(arguments, name, dtype)

    def test_the_step_check_passes_what_pytorch_computes_and_no_other_change(self):
        for name in TINY:
            step = self.step(name, "fp32")
            with mock.patch.object(step, "neap", lambda: step.pytorch(exact=False)):  # pylint: disable=cell-var-from-loop
                differences = step.differences()
            self.assertEqual(len(differences.parameters), len(step.parameters), name)
            self.assertTrue(step_check.check(name, "fp32", [differences])["passed"], name)
            with mock.patch.object(step, "neap", lambda: (0.0, step.weights)):  # pylint: disable=cell-var-from-loop
                self.assertFalse(step_check.check(name, "fp32", [step.differences()])["passed"], name)

    def test_batches_are_written_as_neap_reads_them(self):
        step = self.step("nnunet3d@16", "bf16")
        with tempfile.TemporaryDirectory() as folder:
            flag, path = step.write_batch(folder)
            self.assertEqual((flag, os.path.getsize(path)), ("--batch-file", 2 * 16**3 * (4 + 4)))
        step = self.step("gpt2@8", "fp32")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(step.write_batch(folder), ["--data", f"tokens:{folder}"])
            stored = pathlib.Path(folder, "train.bin").read_bytes()
        tokens = [int.from_bytes(stored[i:i + 2], "little") for i in range(0, len(stored), 2)]
        self.assertEqual(tokens, [*step.inputs[1].tolist(), step.labels[1, -1].item()])

    def test_networks_that_neap_does_not_list_are_missing_from_the_step_check(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = types.SimpleNamespace(results=os.path.join(folder, "results.json"), onnx=False, batch=2, batches=1)
            with mock.patch.object(step_check, "networks_of_neap", lambda _: {"resnet18"}), \
                    contextlib.redirect_stdout(io.StringIO()) as output:
                self.assertTrue(step_check.compare(arguments, "fp32", ["gpt2@8"]))
        self.assertIn("gpt2@8: missing: neap nets does not list gpt2", output.getvalue())

    def test_what_neap_cannot_take_a_step_of_is_refused(self):
        with self.assertRaisesRegex(ValueError, "convnext_tiny has stochastic depth"):
            step_check.check_networks(["resnet18", "convnext_tiny"], onnx=False)
        with self.assertRaisesRegex(ValueError, "dla34 from ONNX files only"):
            step_check.check_networks(["dla34"], onnx=False)
        step_check.check_networks(["convnext_tiny", "dla34"], onnx=True)


if __name__ == "__main__":
    unittest.main()
