"""Networks of sequences (n, channels, time) and volumes (n, channels, depth, height, width)."""
import pickle

import numpy
import pytest

import neap
from doubling import Double

BATCH = 4


def sequences(layout="nchw"):
    net = neap.Graph("sequences", batch=BATCH, layout=layout)
    x = net.add("conv", neap.Convolution(6, kernel=(5,), stride=(2,), padding=1, dilation=2), net.input((3, 20)))
    net.add("pool", neap.MaxPool(kernel=2), x)
    net.add("scores", neap.FullyConnected(3), "pool")
    net.output("conv")
    net.loss("scores")
    return net


def convolved(x, weight, bias, stride, padding, dilation):
    """In float64, position by position, of any number of axes; the same numbers along each."""
    axes = x.ndim - 2
    x = numpy.pad(x.astype(float), [(0, 0), (0, 0)] + [(padding, padding)] * axes)
    kernel = weight.shape[2:]
    sizes = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], kernel)]
    y = numpy.empty((len(x), len(weight), *sizes))
    for at in numpy.ndindex(*sizes):
        window = tuple(slice(i * stride, i * stride + dilation * (k - 1) + 1, dilation) for i, k in zip(at, kernel))
        patch = x[(slice(None), slice(None), *window)].reshape(len(x), -1)
        y[(slice(None), slice(None), *at)] = patch @ weight.reshape(len(weight), -1).T.astype(float) + bias
    return y


@pytest.mark.parametrize("layout", ["nchw", "nhwc", "channels_first", "nwc"])
def test_a_network_of_sequences_trains(layout):
    random = numpy.random.default_rng(1)
    x, labels = random.normal(size=(BATCH, 3, 20)).astype("float32"), numpy.arange(BATCH) % 3
    with neap.Session(sequences(layout), device="cpu", lr=0.05) as session:
        state = session.state_dict()
        assert state["conv.weight"].shape == (6, 3, 5)
        result = session.step_feeds({"input": x, "labels": labels})
        y = convolved(x, state["conv.weight"], state["conv.bias"], stride=2, padding=1, dilation=2)
        assert result.outputs["conv"].shape == y.shape == (BATCH, 6, 7)
        numpy.testing.assert_allclose(result.outputs["conv"], y, rtol=1e-4, atol=1e-5)
        losses = [session.step(x, labels) for _ in range(20)]
        assert losses[-1] < result.loss


def test_a_label_for_each_position():
    net = neap.Graph("positions", batch=BATCH)
    net.loss(net.add("scores", neap.Convolution(3, kernel=3, padding=1), net.input((2, 12))), pixels=(12,))
    with neap.Session(net, device="cpu") as session:
        x = numpy.ones((BATCH, 2, 12), "float32")
        assert session.step(x, numpy.zeros((BATCH, 12), int)) > 0
        assert session.predict(x).shape == (BATCH, 3, 12)


def test_a_network_of_volumes_trains():
    net = neap.Graph("volumes", batch=BATCH, layout="ndhwc")
    x = net.add("conv", neap.Convolution(4, kernel=1), net.input((2, 3, 4, 5)))
    x = net.add("relu", neap.Relu(), net.add("bn", neap.BatchNorm(), x))
    net.output(x)
    x = net.add("time", neap.Convolution(4, kernel=(3, 1, 1), padding=(1, 0, 0)), x)
    net.loss(net.add("scores", neap.FullyConnected(3), net.add("mean", neap.GlobalAveragePool(), x)))
    random = numpy.random.default_rng(2)
    x, labels = random.normal(size=(BATCH, 2, 3, 4, 5)).astype("float32"), numpy.arange(BATCH) % 3
    with neap.Session(net, device="cpu", lr=0.05) as session:
        state = session.state_dict()
        assert state["time.weight"].shape == (4, 4, 3, 1, 1)
        result = session.step_feeds({"input": x, "labels": labels})
        y = convolved(x, state["conv.weight"], state["conv.bias"], stride=1, padding=0, dilation=1)
        y = (y - y.mean((0, 2, 3, 4), keepdims=True)) / numpy.sqrt(y.var((0, 2, 3, 4), keepdims=True) + 1e-5)
        numpy.testing.assert_allclose(result.outputs["relu"], numpy.maximum(y, 0), rtol=1e-3, atol=1e-4)
        assert session.step(x, labels) < result.loss


@pytest.mark.parametrize("layout", ["ncdhw", "ndhwc"])
def test_windows_move_along_all_axes_of_volumes(layout):
    net = neap.Graph("volumes", batch=BATCH, layout=layout)
    net.output(net.add("conv", neap.Convolution(4, kernel=3, stride=2, padding=1), net.input((2, 6, 7, 8))))
    net.output(net.add("pool", neap.MaxPool(kernel=2, stride=1), "conv"))
    net.loss(net.add("scores", neap.FullyConnected(3), "pool"))
    random = numpy.random.default_rng(4)
    x, labels = random.normal(size=(BATCH, 2, 6, 7, 8)).astype("float32"), numpy.arange(BATCH) % 3
    with neap.Session(net, device="cpu", lr=0.02) as session:
        state = session.state_dict()
        assert state["conv.weight"].shape == (4, 2, 3, 3, 3)
        result = session.step_feeds({"input": x, "labels": labels})
        y = convolved(x, state["conv.weight"], state["conv.bias"], stride=2, padding=1, dilation=1)
        assert result.outputs["conv"].shape == y.shape == (BATCH, 4, 3, 4, 4)
        numpy.testing.assert_allclose(result.outputs["conv"], y, rtol=1e-4, atol=1e-5)
        windows = numpy.lib.stride_tricks.sliding_window_view(result.outputs["conv"], (2, 2, 2), axis=(2, 3, 4))
        numpy.testing.assert_array_equal(result.outputs["pool"], windows.max((-3, -2, -1)))
        losses = [session.step(x, labels) for _ in range(20)]
        assert losses[-1] < result.loss


def test_extents_are_one_number_or_one_for_each_axis():
    assert neap.Convolution(1, kernel=3) == neap.Convolution(1, kernel=(3, 3))
    assert neap.Convolution(1, kernel=[3, 3, 3]) != neap.Convolution(1, kernel=3)
    assert "kernel=3x2x1" in repr(neap.MaxPool(kernel=(3, 2, 1)))
    for wrong in [(), (1, 2, 3, 4)]:
        with pytest.raises(TypeError, match="one for each of 1 to 3 axes"):
            neap.Convolution(1, kernel=wrong)
    for layer in [neap.Convolution(4, kernel=(5,)), neap.MaxPool(kernel=2, stride=(1, 2, 3)), neap.ZeroPad(front=1, right=2)]:
        again = pickle.loads(pickle.dumps(layer))
        assert again == layer and repr(again) == repr(layer)
    net = pickle.loads(pickle.dumps(sequences()))
    assert str(net) == str(sequences())


def test_shapes_of_other_lengths_are_refused():
    for wrong in [(), (1, 2, 3, 4, 5)]:
        with pytest.raises(TypeError, match="a shape is"):
            neap.Graph("n").input(wrong)


@pytest.mark.parametrize("shape", [(2, 6), (2, 3, 4, 5)])
def test_layers_in_python_take_any_axes(shape):
    net = neap.Graph("custom", batch=BATCH, layout="channels_last")
    net.output(net.add("doubled", Double(), net.input(shape)))
    net.loss(net.add("scores", neap.FullyConnected(3), "doubled"))
    x = numpy.random.default_rng(3).normal(size=(BATCH, *shape)).astype("float32")
    with neap.Session(net, device="cpu") as session:
        result = session.step_feeds({"input": x, "labels": numpy.zeros(BATCH, int)})
        numpy.testing.assert_array_equal(result.outputs["doubled"], 2 * x)
