#!/usr/bin/env python3
"""Makes the files of this folder: small networks of torchvision's classes as PyTorch exports them, and what PyTorch predicts.

    python3 tests/nets/onnx/exported/export.py      needs PyTorch 2.9, torchvision 0.24, onnxscript and safetensors

Their weights are random, their running statistics are those of a few batches of noise. expected.safetensors has two images and, by
the name of the file, each network's scores.
"""
import functools
import pathlib

import onnx
import safetensors.torch
import torch
from torch.onnx import TrainingMode
from torchvision.models import DenseNet, EfficientNet, MobileNetV3, RegNet
from torchvision.models.efficientnet import MBConvConfig
from torchvision.models.mobilenetv3 import _mobilenet_v3_conf
from torchvision.models.regnet import BlockParams

FOLDER = pathlib.Path(__file__).parent


def mobilenet_v3():
    blocks, _ = _mobilenet_v3_conf("mobilenet_v3_small", width_mult=0.1)
    return MobileNetV3(blocks, last_channel=64, num_classes=10)


def efficientnet():
    of_width = functools.partial(MBConvConfig, width_mult=0.25, depth_mult=0.5)
    blocks = [of_width(1, 3, 1, 32, 16, 1), of_width(6, 3, 2, 16, 24, 2), of_width(6, 5, 2, 24, 40, 2), of_width(6, 3, 2, 40, 80, 2)]
    return EfficientNet(blocks, dropout=0.2, num_classes=10)


def regnet():
    return RegNet(BlockParams.from_init_params(depth=4, w_0=16, w_a=8, w_m=2, group_width=8, se_ratio=0.25), num_classes=10)


def densenet():
    return DenseNet(growth_rate=4, block_config=(2, 2, 2), num_init_features=8, num_classes=10)


def export_for_training(model, images, path):
    torch.onnx.export(model.train(), images, path, training=TrainingMode.TRAINING, do_constant_folding=False, dynamo=False,
                      opset_version=13, dynamic_axes={"images": {0: "n"}}, input_names=["images"])


def export_with_batch_norms(model, images, path):
    torch.onnx.export(model.eval(), images, path, training=TrainingMode.PRESERVE, do_constant_folding=False, dynamo=False,
                      opset_version=16, dynamic_axes={"images": {0: "n"}}, input_names=["images"])


def export_newer(model, images, path):
    torch.onnx.export(model.eval(), (images,), path, dynamo=True, external_data=False, input_names=["images"])
    without_origin(path)


def without_origin(path):
    """Leaves out where in the source each node comes from, with paths of the machine that has exported it."""
    model = onnx.load(path)
    for part in (*model.graph.node, *model.graph.value_info, *model.graph.initializer, *model.graph.input, *model.graph.output,
                 model.graph, model):
        part.doc_string = ""
        del part.metadata_props[:]
    onnx.save(model, path)


FILES = {"mobilenet_v3": (mobilenet_v3, export_for_training), "densenet": (densenet, export_for_training),
         "efficientnet": (efficientnet, export_with_batch_norms), "regnet": (regnet, export_newer)}


def main():
    torch.manual_seed(1)
    expected = {"images": torch.randn(2, 3, 32, 32)}
    for name, (build, export) in FILES.items():
        model = build()
        with torch.no_grad():
            for _ in range(20):
                model.train()(torch.randn(16, 3, 32, 32))
        with torch.no_grad():  # scores that differ between images and classes, as those of a trained network
            list(model.modules())[-1].weight.div_(model.eval()(expected["images"]).std())
        export(model, expected["images"], str(FOLDER / f"{name}.onnx"))
        with torch.no_grad():  # afterwards: to export for training is a training step for the running statistics
            expected[name] = model.eval()(expected["images"]).contiguous()
        print(name, sum(parameter.numel() for parameter in model.parameters()))
    safetensors.torch.save_file(expected, FOLDER / "expected.safetensors")


if __name__ == "__main__":
    main()
