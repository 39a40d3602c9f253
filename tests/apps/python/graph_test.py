"""Graphs and the networks of neap.nets."""
import json
import subprocess

import pytest

import neap
from conftest import COMMAND


def test_a_graph_says_what_it_consists_of(small_net):
    assert small_net.batch == 16
    assert small_net.dtype == "fp32"
    names = [name for name, _, _ in small_net.layers]
    assert names == ["input", "conv1", "bn1", "relu1", "conv2", "add", "pool", "fc", "labels", "loss"]
    assert small_net.layers[5][2] == ["conv2", "relu1"]
    assert small_net.layers[3][1] == neap.Relu()
    assert repr(small_net.layers[7][1]) == "<neap.Layer fully_connected out_features=10 bias=true>"
    assert repr(small_net) == "<neap.Graph 'small' batch=16 fp32 nchw, 10 layers>"
    lines = str(small_net).splitlines()
    assert lines[0] == repr(small_net) and lines[2].startswith("  conv1: convolution out_channels=8 ")
    assert lines[6] == "  add: add of conv2, relu1"
    assert small_net.parameter_count() == 8 * 9 + 16 + (8 * 8 * 9 + 8) + 10 * 8 + 10


def test_layers_have_the_fields_of_the_library():
    text = repr(neap.Convolution(4, kernel=(1, 7), stride=2, padding=(0, 3), groups=2, bias=False))
    assert "out_channels=4" in text and "groups=2" in text and "bias=false" in text
    assert neap.MaxPool() == neap.MaxPool(kernel=2, stride=2)
    assert neap.MaxPool() != neap.MaxPool(kernel=3)
    assert repr(neap.ZeroPad(bottom=1, right=2)) == "<neap.Layer zero_pad top=0 left=0 bottom=1 right=2>"
    assert repr(neap.Resize(scales=(1, 1.5), mode="linear")) == "<neap.Layer resize scales=1x1.5 mode=linear coordinates=half_pixel>"
    assert neap.Resize(7) == neap.Resize(sizes=(7, 7), rounding="prefer_ceil")
    assert neap.AdaptiveAveragePool((1, 1)) == neap.GlobalAveragePool()
    assert neap.AdaptiveAveragePool(7).type == "adaptive_average_pool"
    with pytest.raises(neap.Error, match="unknown mode 'bilinear'; known: nearest, linear, cubic"):
        neap.Resize(2, mode="bilinear")
    assert len({neap.Tanh(), neap.Tanh(), neap.Sigmoid()}) == 2


def test_other_options_keep_the_layers(small_net):
    other = small_net.with_options(batch=4, dtype="bf16", layout="nhwc")
    assert (other.batch, other.dtype, other.layout) == (4, "bf16", "nhwc")
    assert other.layers[1] == small_net.layers[1]
    assert small_net.batch == 16


def test_every_network_of_the_command_is_there():
    listed = subprocess.run([COMMAND, "nets"], capture_output=True, text=True, check=True).stdout
    for name in ("lenet", "resnet50", "resnet_cifar", "alexnet_torchvision", "densenet_bc_cifar", "unet"):
        assert name.replace("_", "-") in listed or name in listed
        assert getattr(neap.nets, name)(batch=2).batch == 2
    assert neap.nets.resnet50().parameter_count() == 25557032
    assert neap.nets.resnet(blocks=(1, 1, 1, 1), batch=2, image=64).batch == 2


def test_plans_of_nnunet_are_networks(tmp_path):
    arguments = {"n_stages": 2, "features_per_stage": [4, 8], "conv_op": "Conv2d", "kernel_sizes": [[3, 3], [3, 3]],
                 "strides": [[1, 1], [2, 2]], "n_conv_per_stage": [1, 1], "n_conv_per_stage_decoder": [1], "conv_bias": True,
                 "norm_op": "InstanceNorm2d", "norm_op_kwargs": {"affine": True}, "nonlin": "LeakyReLU"}
    planned = {"batch_size": 3, "patch_size": [8, 8], "normalization_schemes": ["CTNormalization"],
               "architecture": {"network_class_name": "PlainConvUNet", "arch_kwargs": arguments}}
    file = tmp_path / "plans.json"
    file.write_text(json.dumps({"configurations": {"2d": planned}}))
    with pytest.raises(neap.Error, match="CTNormalization"):
        neap.nets.nnunet(str(file), classes=2)
    assert neap.nets.nnunet(f"{file}#2d", classes=2, other_normalizations=True).batch == 3
    assert neap.nets.nnunet(str(file), classes=2, batch=5, other_normalizations=True).batch == 5


def test_any_network_may_have_another_loss(small_net):
    for loss in ("mse", neap.MeanSquaredError()):
        other = small_net.with_loss(loss)
        assert [name for name, _, _ in other.layers][-2:] == ["targets", "loss"]
        assert other.layers[-1][1] == neap.MeanSquaredError()
    smoothed = small_net.with_loss(neap.SoftmaxCrossEntropy(label_smoothing=0.1))
    assert smoothed.layers[-1][1] == neap.SoftmaxCrossEntropy(0.1)
    assert smoothed.with_loss("cross-entropy").layers == small_net.layers
    dice = neap.DiceLoss(cross_entropy=1)
    assert small_net.with_loss(dice).layers == [*small_net.layers[:-1], ("loss", dice, small_net.layers[-1][2])]
    with pytest.raises(neap.Error, match="'l1' is not"):
        small_net.with_loss("l1")
    with pytest.raises(TypeError, match="not a int"):
        small_net.with_loss(3)


def criterion(name, **attributes):
    """As much of one of torch.nn as neap knows."""
    return type(name, (), {"reduction": "mean", "weight": None, **attributes})()


def test_the_loss_may_be_a_criterion_of_pytorch(small_net):
    for name, layer in (("MSELoss", neap.MeanSquaredError()), ("BCEWithLogitsLoss", neap.BinaryCrossEntropy()),
                        ("CrossEntropyLoss", neap.SoftmaxCrossEntropy())):
        assert small_net.with_loss(criterion(name)).layers[-1][1] == layer
    smoothed = small_net.with_loss(criterion("CrossEntropyLoss", label_smoothing=0.25, ignore_index=-100))
    assert smoothed.layers[-1][1] == neap.SoftmaxCrossEntropy(0.25)
    for attributes, text in (({"reduction": "sum"}, "reduction"), ({"weight": 1}, "weight"), ({"pos_weight": 1}, "positive_weight="),
                             ({"ignore_index": 255}, "ignore_index")):
        with pytest.raises(ValueError, match=text):
            small_net.with_loss(criterion("CrossEntropyLoss", **attributes))
    with pytest.raises(TypeError, match="not a L1Loss"):
        small_net.with_loss(criterion("L1Loss"))


def test_errors_name_what_is_wrong(small_net):
    with pytest.raises(neap.Error, match="depth") as refused:
        neap.nets.resnet50(depth=7)
    assert refused.value.code == "INVALID_ARGUMENT"
    with pytest.raises(neap.Error, match="'fp33'"):
        neap.Graph(dtype="fp33")
    small_net.add("lost", neap.Relu(), "nothing")
    with pytest.raises(neap.Error, match="'lost'.*'nothing'"):
        neap.plan(small_net, device="cpu")
    with pytest.raises(TypeError):
        small_net.add("relu9", neap.Relu(), 7)
