"""Networks of several inputs, losses and outputs, and shared parameters."""
import pickle

import numpy
import onnx
import onnx.reference
import pytest

import neap
from conftest import same

BATCH = 4


def towers(batch=BATCH):
    net = neap.Graph("towers", batch=batch)
    net.input((3,), "image")
    net.input(3, "age")
    net.add("a", neap.FullyConnected(5), "image")
    net.add("b", neap.FullyConnected(5), "age")
    net.share("b.weight", "a.weight")
    net.share("b.bias", "a.bias")
    net.add("sum", neap.Add(), "a", "b")
    net.add("scores", neap.FullyConnected(2), "sum")
    net.add("years", neap.FullyConnected(1), "sum")
    net.input((), "species", "int32")
    net.input(1, "estimate", "fp32")
    net.add_loss("species_loss", neap.SoftmaxCrossEntropy(), "scores", "species")
    net.add_loss("age_loss", neap.MeanSquaredError(weight=0.25), "years", "estimate")
    net.output("scores")
    net.output("years")
    return net


def feeds(examples=BATCH):
    random = numpy.random.default_rng(1)
    given = {"image": random.normal(size=(BATCH, 3)), "age": random.normal(size=(BATCH, 3)),
             "species": numpy.arange(BATCH) % 2, "estimate": random.normal(size=(BATCH, 1))}
    return {name: values[:examples] for name, values in given.items()}


def expected(state, given):
    """In float64: the losses and the outputs."""
    w, b = state["a.weight"].astype(float).reshape(5, 3), state["a.bias"].astype(float)
    hidden = (given["image"] + given["age"]) @ w.T + 2 * b
    scores = hidden @ state["scores.weight"].astype(float).T + state["scores.bias"]
    years = hidden @ state["years.weight"].astype(float).T + state["years.bias"]
    logs = numpy.log(numpy.exp(scores).sum(1)) - scores[numpy.arange(len(scores)), given["species"]]
    return {"species_loss": logs.mean(), "age_loss": ((years - given["estimate"]) ** 2).mean()}, {"scores": scores, "years": years}


@pytest.mark.parametrize("budget", [None, "95%"])
def test_a_step_returns_the_losses_and_outputs_by_name(budget):
    session = neap.Session(towers(), "cpu", budget)
    state = session.state_dict()
    assert list(state) == ["a.weight", "a.bias", "scores.weight", "scores.bias", "years.weight", "years.bias"]
    losses, outputs = expected(state, feeds())
    result = session.step_feeds(feeds())
    assert result.loss == pytest.approx(losses["species_loss"] + 0.25 * losses["age_loss"], rel=1e-5)
    for name, loss in losses.items():
        assert result.losses[name].loss == pytest.approx(loss, rel=1e-5)
    assert result.losses["age_loss"].weight == 0.25
    for name, values in outputs.items():
        numpy.testing.assert_allclose(result.outputs[name], values, rtol=1e-4, atol=1e-5)
    assert session.step_feeds(feeds()).loss < result.loss


def test_evaluation_takes_fewer_examples_and_no_targets():
    session = neap.Session(towers(), "cpu")
    losses, outputs = expected(session.state_dict(), feeds(3))
    result = session.evaluate_feeds(feeds(3))
    assert result.losses["species_loss"].loss == pytest.approx(losses["species_loss"], rel=1e-5)
    assert result.losses["species_loss"].labels == 3
    numpy.testing.assert_allclose(result.outputs["years"], outputs["years"], rtol=1e-4, atol=1e-5)
    given = {name: values for name, values in feeds(3).items() if name in ("image", "age")}
    numpy.testing.assert_array_equal(session.evaluate_feeds(given).outputs["years"], result.outputs["years"])


def test_feeds_that_do_not_fit_are_refused():
    session = neap.Session(towers(), "cpu")
    with pytest.raises(neap.Error, match="no feed 'colour'"):
        session.step_feeds({**feeds(), "colour": numpy.zeros((BATCH, 3))})
    with pytest.raises(neap.Error, match=r"age have the shape \(4, 2\), expected \(n, 3, 1, 1\)"):
        session.step_feeds({**feeds(), "age": numpy.zeros((BATCH, 2))})
    with pytest.raises(neap.Error, match="'species' takes integers"):
        session.step_feeds({**feeds(), "species": numpy.zeros(BATCH)})
    with pytest.raises(neap.Error, match="give them by name"):
        session.step(numpy.zeros((BATCH, 3)), numpy.zeros(BATCH, int))


def test_copies_of_a_graph_have_its_outputs_and_shared_parameters():
    for net in (pickle.loads(pickle.dumps(towers())), towers(8).with_options(batch=BATCH)):
        session = neap.Session(net, "cpu")
        assert set(session.step_feeds(feeds()).outputs) == {"scores", "years"}
        assert "b.weight" not in session.state_dict()


def test_a_state_may_have_other_names_of_a_shared_parameter_with_the_same_values():
    state = neap.Session(towers(), "cpu", seed=5).state_dict()
    tied = {**state, "b.weight": state["a.weight"], "b.bias": state["a.bias"].copy()}
    session = neap.Session(towers(), "cpu", seed=6)
    loaded = session.load_state_dict(tied)
    assert loaded.missing_keys == [] and loaded.unexpected_keys == []
    assert same(session.state_dict(), state)
    for strict in (True, False):
        with pytest.raises(neap.Error, match="'b.weight' and 'a.weight' have other values") as refused:
            session.load_state_dict({**tied, "b.weight": 2 * state["a.weight"]}, strict)
        assert refused.value.code == "INVALID_ARGUMENT"
        with pytest.raises(neap.Error, match="'b.bias' and 'a.bias' have other values"):
            session.load_state_dict({**tied, "b.bias": state["a.bias"][:3]}, strict)
    del tied["a.weight"]
    with pytest.raises(neap.Error, match="'a.weight' is missing"):
        session.load_state_dict(tied)
    loaded = session.load_state_dict(tied, strict=False)
    assert loaded.missing_keys == ["a.weight"] and loaded.unexpected_keys == ["b.weight"]
    assert same(session.state_dict(), state)


def test_the_other_names_lead_to_the_owner_of_a_chain():
    net = towers()
    net.add("c", neap.FullyConnected(5), "age")
    net.share("c.weight", "b.weight")
    net.output("c")
    session = neap.Session(net, "cpu")
    state = session.state_dict()
    assert "c.weight" not in state
    session.load_state_dict({**state, "c.weight": state["a.weight"]})
    with pytest.raises(neap.Error, match="'c.weight' and 'a.weight' have other values"):
        session.load_state_dict({**state, "c.weight": state["a.weight"] + 1})


def test_an_onnx_file_has_the_inputs_outputs_and_one_tensor_of_a_shared_parameter(tmp_path):
    session = neap.Session(towers(), "cpu")
    path = tmp_path / "towers.onnx"
    session.save_onnx(path)
    model = onnx.load(path)
    assert [value.name for value in model.graph.input] == ["image", "age"]
    assert [tensor.name for tensor in model.graph.initializer].count("a.weight") == 1
    given = {name: values.astype(numpy.float32) for name, values in feeds().items() if name in ("image", "age")}
    images = {name: values.reshape(BATCH, 3, 1, 1) for name, values in given.items()}
    results = onnx.reference.ReferenceEvaluator(model).run(None, images)
    outputs = session.evaluate_feeds(given).outputs
    for value, result in zip(model.graph.output, results, strict=True):
        numpy.testing.assert_allclose(result, outputs[value.name.split("flatten_")[-1]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("owner, other", [("fc", "conv"), ("conv", "fc")])
def test_a_matrix_product_and_a_convolution_share_a_weight_in_an_onnx_file(owner, other, tmp_path):
    net = neap.Graph("mixed", batch=BATCH)
    net.input((3,), "x")
    net.add("fc", neap.FullyConnected(3), "x")
    net.add("conv", neap.Convolution(3, kernel=1), "fc")
    net.share(other + ".weight", owner + ".weight")
    net.add("scores", neap.FullyConnected(2), "conv")
    net.input((), "labels", "int32")
    net.add_loss("loss", neap.SoftmaxCrossEntropy(), "scores", "labels")
    net.output("scores")
    session = neap.Session(net, "cpu")
    path = tmp_path / "mixed.onnx"
    session.save_onnx(path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    shapes = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    assert shapes[owner + ".weight"] == ([3, 3] if owner == "fc" else [3, 3, 1, 1]) and other + ".weight" not in shapes
    x = numpy.random.default_rng(3).normal(size=(BATCH, 3)).astype(numpy.float32)
    scores = session.evaluate_feeds({"x": x}).outputs["scores"].reshape(BATCH, 2)
    results = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x.reshape(BATCH, 3, 1, 1)})
    numpy.testing.assert_allclose(results[0], scores, rtol=1e-4, atol=1e-5)
    read = neap.from_onnx(path, batch=BATCH)
    assert [name for name, _, _ in read.layers if name in ("fc", "conv", "scores")] == ["fc", "conv", "scores"]
    with neap.Session(read, "cpu") as again:
        assert other + ".weight" not in again.state_dict()
        assert same(again.state_dict(), session.state_dict())
        numpy.testing.assert_allclose(again.predict(x), scores, rtol=1e-6)


def test_a_layer_of_several_outputs_is_read_by_their_names():
    net = neap.Graph("gated", batch=BATCH)
    net.input((6, 2, 2), "x")
    assert net.add("halves", neap.ChannelSplit([3, 3]), "x") == "halves"
    net.add("gate", neap.Sigmoid(), "halves:1")
    net.add("product", neap.Multiply(), "halves", "gate")
    net.add("fc", neap.FullyConnected(2), "product")
    net.input((), "labels", "int32")
    net.add_loss("loss", neap.SoftmaxCrossEntropy(), "fc", "labels")
    net.output("halves:1")
    net.output("product")
    assert pickle.loads(pickle.dumps(net)).layers == net.layers
    x = numpy.random.default_rng(2).normal(size=(BATCH, 6, 2, 2)).astype("float32")
    result = neap.Session(net, "cpu").step_feeds({"x": x, "labels": numpy.arange(BATCH) % 2})
    assert numpy.array_equal(result.outputs["halves:1"], x[:, 3:])
    product = x[:, :3] / (1 + numpy.exp(-x[:, 3:].astype(float)))
    assert result.outputs["product"] == pytest.approx(product, abs=1e-6)
