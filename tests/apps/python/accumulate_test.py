"""Gradients that are summed over batches, and images of several sizes."""
import numpy
import pytest

import neap


def vectors(batch, dtype="fp32"):
    net = neap.Graph("vectors", batch=batch, dtype=dtype)
    x = net.add("fc1", neap.FullyConnected(6), net.input(5))
    x = net.add("relu", neap.Relu(), x)
    net.loss(net.add("fc2", neap.FullyConnected(3), x))
    return net


def batches(count, size=4):
    random = numpy.random.default_rng(3)
    return [(random.normal(size=(size, 5)).astype(numpy.float32), random.integers(3, size=size)) for _ in range(count)]


def mean_gradients(state, parts):
    """In float64: of all images."""
    w1, b1, w2, b2 = (state[name].astype(float) for name in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"))
    images, labels = (numpy.concatenate(values) for values in zip(*parts, strict=True))
    before = images.astype(float) @ w1.reshape(6, 5).T + b1
    hidden = numpy.maximum(before, 0)
    scores = hidden @ w2.reshape(3, 6).T + b2
    shares = numpy.exp(scores) / numpy.exp(scores).sum(1, keepdims=True)
    error = (shares - numpy.eye(3)[labels]) / len(labels)
    of_hidden = (error @ w2.reshape(3, 6)) * (before > 0)
    return {"fc1.weight": of_hidden.T @ images, "fc1.bias": of_hidden.sum(0), "fc2.weight": error.T @ hidden, "fc2.bias": error.sum(0)}


@pytest.mark.parametrize("budget", [None, "98%"])
def test_an_update_takes_the_mean_gradient_of_all_batches(budget):
    session = neap.Session(vectors(4), "cpu", budget, lr=0.5, momentum=0.0, accumulate=3)
    parts = batches(3)
    before = session.state_dict()
    losses = [session.accumulate(*part) for part in parts]
    assert session.accumulated == 3
    assert session.steps == 0
    numpy.testing.assert_array_equal(session.state_dict()["fc1.weight"], before["fc1.weight"])
    assert session.update().step == 0
    assert session.steps == 1
    after = session.state_dict()
    for name, gradient in mean_gradients(before, parts).items():
        expected = before[name] - 0.5 * gradient.reshape(before[name].shape)
        numpy.testing.assert_allclose(after[name], expected, rtol=1e-5, atol=1e-6)
    whole = neap.Session(vectors(12), "cpu")
    whole.load_state_dict(before)
    images, labels = (numpy.concatenate(values) for values in zip(*parts, strict=True))
    assert numpy.mean(losses) == pytest.approx(whole.step(images, labels), rel=1e-5)


def test_calls_in_another_order_are_refused():
    session = neap.Session(vectors(4), "cpu", accumulate=2)
    (images, labels), = batches(1)
    with pytest.raises(neap.Error, match="sums the gradients of several batches"):
        session.step(images, labels)
    with pytest.raises(neap.Error, match="needs the gradients of 2 batches"):
        session.update()
    with pytest.raises(neap.Error, match="TrainingOptions::accumulate"):
        neap.Session(vectors(4), "cpu").accumulate(images, labels)
    with pytest.raises(neap.Error, match="at least 1 batch"):
        neap.Session(vectors(4), "cpu", accumulate=0)


def test_fit_updates_after_so_many_batches():
    parts = batches(5)
    session = neap.Session(vectors(4), "cpu", accumulate=2)
    session.fit(parts)
    assert (session.steps, session.accumulated) == (2, 1)
    by_hand = neap.Session(vectors(4), "cpu", accumulate=2)
    for number, part in enumerate(parts):
        by_hand.accumulate(*part)
        if number % 2 == 1:
            by_hand.update()
    for name, values in by_hand.state_dict().items():
        numpy.testing.assert_array_equal(session.state_dict()[name], values)


def test_an_fp16_overflow_skips_the_update_and_raises_nothing():
    session = neap.Session(vectors(4, "fp16"), "cpu", accumulate=2)
    (images, labels), other = batches(2)
    before = session.state_dict()
    session.accumulate(1e6 * images, labels)
    session.accumulate(*other)
    assert session.update().skipped
    numpy.testing.assert_array_equal(session.state_dict()["fc1.weight"], before["fc1.weight"])


def pooled():
    net = neap.Graph("pooled", batch=4)
    x = net.add("conv", neap.Convolution(4, 3, padding=1), net.input((2, 6, 6)))
    x = net.add("pool", neap.GlobalAveragePool(), net.add("relu", neap.Relu(), x))
    net.loss(net.add("fc", neap.FullyConnected(3), x))
    return net


def sized_batch(height, width, batch, seed):
    random = numpy.random.default_rng(seed)
    return random.normal(size=(batch, 2, height, width)).astype(numpy.float32), random.integers(3, size=batch)


def test_a_step_has_the_size_of_its_images():
    net = pooled()
    net.sizes([(4, 8), (10, 10, 2)])
    session = neap.Session(net, "cpu", "99%")
    plain = neap.Session(pooled(), "cpu")
    for seed, (height, width, batch) in enumerate([(6, 6, 4), (4, 8, 4), (10, 10, 2), (6, 6, 4)]):
        images, labels = sized_batch(height, width, batch, seed)
        fixed = neap.Graph("fixed", batch=batch)
        x = fixed.add("conv", neap.Convolution(4, 3, padding=1), fixed.input((2, height, width)))
        x = fixed.add("pool", neap.GlobalAveragePool(), fixed.add("relu", neap.Relu(), x))
        fixed.loss(fixed.add("fc", neap.FullyConnected(3), x))
        other = neap.Session(fixed, "cpu", momentum=0.0)
        other.load_state_dict(session.state_dict())
        assert session.step(images, labels) == other.step(images, labels)
    images, labels = sized_batch(4, 8, 4, 9)
    assert session.step_feeds({"input": images, "labels": labels}).step == 4
    with pytest.raises(neap.Error, match="4x2x5x5; the session trains"):
        session.step(*sized_batch(5, 5, 4, 1))
    with pytest.raises(neap.Error, match=r"expected \(n, 2, 6, 6\)"):
        plain.step(*sized_batch(4, 8, 4, 1))
    for wrong in [(4,), (4, 8, "full"), (4, "8"), (4, 8, 2, 2)]:
        with pytest.raises(TypeError, match="a size is"):
            net.sizes([wrong])


def test_a_size_may_have_the_batch_that_fills_the_budget():
    net = pooled()
    budget = neap.plan(net, device="cpu").peak_bytes
    net.sizes([(6, 6, "fill"), (4, 4, "fill"), (6, 8, 3)])
    session = neap.Session(net, "cpu", budget)
    own, small, given = session.sizes
    assert own == (6, 6, 4) and given == (6, 8, 3)
    assert small[2] > 4
    assert session.step(*sized_batch(*small, seed=1)) > 0
