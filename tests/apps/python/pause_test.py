"""Steps that pause after forward, for a loss that the caller computes."""
import copy

import numpy
import pytest

import neap


def classifier(batch=4, dtype="fp32", given=True):
    net = neap.Graph("classifier", batch=batch, dtype=dtype)
    x = net.add("relu", neap.Relu(), net.add("fc1", neap.FullyConnected(6), net.input(5)))
    scores = net.add("fc2", neap.FullyConnected(3), x)
    if given:
        net.output_with_gradient(scores)
    else:
        net.loss(scores)
    return net


def batch_of(seed, size=4):
    random = numpy.random.default_rng(seed)
    return random.normal(size=(size, 5)).astype(numpy.float32), random.integers(3, size=size)


def cross_entropy_gradient(scores, labels, batches=1):
    shares = numpy.exp(scores.astype(float))
    shares /= shares.sum(1, keepdims=True)
    return ((shares - numpy.eye(3)[labels]) / len(labels) / batches).astype(numpy.float32)


@pytest.mark.parametrize("budget", [None, "98%"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_a_gradient_that_is_given_trains_as_the_loss_that_it_is_of(budget, dtype):
    session = neap.Session(classifier(dtype=dtype), "cpu", budget, lr=0.25)
    with_loss = neap.Session(classifier(dtype=dtype, given=False), "cpu", lr=0.25)
    for step in range(3):
        images, labels = batch_of(step)
        with_loss.step(images, labels)
        outputs = session.forward({"input": images})
        assert list(outputs) == ["fc2"]
        assert outputs["fc2"].shape == (4, 3)
        result = session.backward({"fc2": cross_entropy_gradient(outputs["fc2"], labels)})
        assert result.step == step
        assert result.losses == {}
    for name, values in with_loss.state_dict().items():
        numpy.testing.assert_allclose(session.state_dict()[name], values, rtol=1e-3 if dtype == "fp16" else 1e-5, atol=1e-5)


def test_gradients_of_several_batches_are_summed():
    session = neap.Session(classifier(), "cpu", lr=0.25, accumulate=2)
    whole = neap.Session(classifier(batch=8, given=False), "cpu", lr=0.25)
    whole.load_state_dict(session.state_dict())
    parts = [batch_of(seed) for seed in range(2)]
    for images, labels in parts:
        outputs = session.forward({"input": images})
        session.backward({"fc2": cross_entropy_gradient(outputs["fc2"], labels, batches=2)})
    assert session.accumulated == 2
    assert session.update().step == 0
    whole.step(*(numpy.concatenate(values) for values in zip(*parts, strict=True)))
    for name, values in whole.state_dict().items():
        numpy.testing.assert_allclose(session.state_dict()[name], values, rtol=1e-5, atol=1e-6)


def test_a_step_can_be_given_up():
    session = neap.Session(classifier(), "cpu")
    before = session.state_dict()
    session.forward({"input": batch_of(1)[0]})
    session.skip_backward()
    assert session.steps == 0
    for name, values in session.state_dict().items():
        numpy.testing.assert_array_equal(values, before[name])


def test_calls_in_another_order_and_gradients_of_another_shape_are_refused():
    session = neap.Session(classifier(), "cpu")
    images, labels = batch_of(1)
    with pytest.raises(neap.Error, match=r"Forward\(\) and Backward\(\) train it"):
        session.step_feeds({"input": images})
    with pytest.raises(neap.Error, match="continues after"):
        session.backward({"fc2": numpy.zeros((4, 3), numpy.float32)})
    session.forward({"input": images})
    with pytest.raises(neap.Error, match="paused"):
        session.state_dict()
    with pytest.raises(ValueError, match=r"has the shape \(3, 4\), not \(4, 3\)"):
        session.backward({"fc2": numpy.zeros((3, 4), numpy.float32)})
    with pytest.raises(neap.Error, match="there is no gradient of output 'fc2'"):
        session.backward({})
    session.backward({"fc2": numpy.zeros((4, 3), numpy.float32)})
    assert session.steps == 1


def test_a_copy_of_the_network_takes_gradients_too():
    session = neap.Session(copy.deepcopy(classifier()), "cpu")
    assert session.forward({"input": batch_of(1)[0]})["fc2"].shape == (4, 3)
    evaluated = neap.Session(classifier(), "cpu").evaluate_feeds({"input": batch_of(1)[0]})
    assert evaluated.outputs["fc2"].shape == (4, 3)
