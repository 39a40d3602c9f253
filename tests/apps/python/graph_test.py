"""Graphs and the networks of neap.nets."""
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
    assert small_net.parameter_count() == 8 * 9 + 16 + (8 * 8 * 9 + 8) + 10 * 8 + 10


def test_layers_have_the_fields_of_the_library():
    text = repr(neap.Convolution(4, kernel=(1, 7), stride=2, padding=(0, 3), groups=2, bias=False))
    assert "out_channels=4" in text and "groups=2" in text and "bias=false" in text
    assert neap.MaxPool() == neap.MaxPool(kernel=2, stride=2)
    assert neap.MaxPool() != neap.MaxPool(kernel=3)
    assert repr(neap.ZeroPad(bottom=1, right=2)) == "<neap.Layer zero_pad top=0 left=0 bottom=1 right=2>"
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
