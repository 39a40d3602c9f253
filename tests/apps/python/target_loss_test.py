"""Losses against targets."""
import numpy
import pytest

import neap


def regression_net():
    net = neap.Graph("line", batch=8)
    x = net.add("fc", neap.FullyConnected(2), net.input((3, 1, 1)))
    net.loss(x, neap.MeanSquaredError(), targets=(2, 1, 1))
    return net


def points(count, seed=0):
    x = numpy.random.default_rng(seed).uniform(-1, 1, (count, 3)).astype(numpy.float32)
    y = x @ numpy.float32([[1, -2], [0.5, 1], [2, 0]]) + numpy.float32([0.25, -0.5])
    return x.reshape(count, 3, 1, 1), y


def test_a_line_is_found():
    with neap.Session(regression_net(), device="cpu", lr=0.1) as session:
        for step in range(200):
            session.step(*points(8, step))
        x, y = points(20, 1000)
        assert numpy.abs(session.predict(x) - y).max() < 1e-2
        result = session.evaluate(x, y)
    assert result.labels == 20 and result.loss < 1e-4


def test_the_mean_is_over_the_elements_that_have_targets():
    with neap.Session(regression_net(), device="cpu") as session:
        x, y = points(3)
        error = (session.predict(x) - y) ** 2
        assert abs(session.evaluate(x, y).loss - error.mean()) < 1e-5
        y[1, 0] = numpy.nan
        assert abs(session.evaluate(x, y).loss - (error.sum() - error[1, 0]) / 5) < 1e-5


def test_binary_cross_entropy_takes_targets_or_labels(small_net, batches):
    net = neap.Graph("several", batch=16)
    for name, layer, inputs in small_net.layers[1:-2]:
        if not net.layers:
            net.input((1, 8, 8))
        net.add(name, layer, *inputs)
    net.loss("fc", neap.BinaryCrossEntropy(), targets=(10, 1, 1))
    x, y = batches[0]
    targets = numpy.eye(10, dtype=numpy.float32)[y]
    with neap.Session(net, device="cpu", lr=0.1) as session:
        logits = session.predict(x).astype("f8")
        loss = session.evaluate(x, targets)
        wanted = (numpy.maximum(logits, 0) - logits * targets + numpy.log1p(numpy.exp(-abs(logits)))).mean()
        assert loss.loss == pytest.approx(wanted, rel=1e-4)
        assert session.evaluate(x, y) == loss
        assert loss.correct == (logits.argmax(1) == y).sum()
        assert abs(session.predict(x, probabilities=True) - 1 / (1 + numpy.exp(-logits))).max() < 1e-5
        losses = [session.step(x, y) for _ in range(20)]
        assert losses[-1] < losses[0] / 2


def test_targets_of_another_shape_are_refused():
    with neap.Session(regression_net(), device="cpu") as session:
        x, y = points(8)
        for wrong in (y[:, :1], y.reshape(8, 2, 1, 1)):
            with pytest.raises(neap.Error, match="targets have the shape"):
                session.step(x, wrong)
        with pytest.raises(neap.Error, match="8 images have 7 targets"):
            session.step(x, y[:7])
