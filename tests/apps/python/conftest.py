"""What the tests of the Python package share: the digits, and a network that trains on them in milliseconds."""
import os
import pathlib
import sys

import numpy
import pytest

import neap

sys.path.insert(0, str(pathlib.Path(__file__).parent))

TREE = pathlib.Path(os.environ["NEAP_TREE"])
COMMAND = os.environ["NEAP_COMMAND"]
DIGITS = f"idx:{TREE}/examples/data/digits"


def same(a, b):
    """Whether two states of sessions have the same names and bits."""
    return a.keys() == b.keys() and all(numpy.array_equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="session")
def digits():
    return neap.open_dataset(DIGITS)


@pytest.fixture(scope="session")
def batches(digits):
    """Five batches of 16 digits."""
    loader = iter(neap.Loader(digits, batch=16))
    return [next(loader) for _ in range(5)]


@pytest.fixture
def small_net():
    """A residual network for the digits, made layer by layer."""
    net = neap.Graph("small", batch=16)
    x = net.input((1, 8, 8))
    x = net.add("conv1", neap.Convolution(8, kernel=3, padding=1, bias=False), x)
    x = net.add("bn1", neap.BatchNorm(), x)
    y = net.add("relu1", neap.Relu(), x)
    x = net.add("conv2", neap.Convolution(out_channels=8, kernel=(3, 3), padding=1), y)
    x = net.add("add", neap.Add(), x, y)
    x = net.add("pool", neap.GlobalAveragePool(), x)
    x = net.add("fc", neap.FullyConnected(10), x)
    net.loss(x)
    return net


@pytest.fixture
def session(small_net):
    with neap.Session(small_net, device="cpu", lr=0.05) as opened:
        yield opened
