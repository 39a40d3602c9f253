"""Layers whose kernels are written in Python."""
import gc
import inspect
import math
import subprocess
import sys
import threading
import traceback
import weakref

import numpy
import pytest

import neap
from doubling import Double

erfc = numpy.vectorize(math.erfc, otypes=[numpy.float32])


def phi(x):
    return numpy.float32(0.5) * erfc(numpy.float32(-0.70710678) * x)


def density(x):
    return numpy.float32(0.39894228) * numpy.exp(numpy.float32(-0.5) * x * x)


class Gelu(neap.CustomLayer):
    """As examples/custom_layer/gelu.cc."""

    in_place = {"y": "x", "dx": "dy"}
    independent_images = True

    def output(self, x):
        return x

    def forward(self, x, y):
        y[...] = x * phi(x)

    def backward_data(self, x, dy, dx):
        dx[...] = dy * (phi(x) + x * density(x))


class Shift(neap.CustomLayer):
    """Adds a learned value to each channel."""

    def output(self, x):
        return x

    def parameters(self, x):
        return {"shift": neap.Parameter((x[1],), "uniform", 0.1)}

    def forward(self, x, shift, y):
        y[...] = x + shift[:, None, None]

    def backward_data(self, dy, dx):
        dx[...] = dy

    def backward_params(self, dy, dshift):
        dshift[...] = dy.sum((0, 2, 3))


class Product(neap.CustomLayer):
    """The product of two tensors, which forward saves, so that backward reads neither."""

    def output(self, x, x1):
        assert x == x1
        return x

    def saved(self, x, x1):
        return {"factors": (2, math.prod(x))}

    def forward(self, x, x1, y, factors):
        y[...] = x * x1
        factors[0], factors[1] = x.ravel(), x1.ravel()

    def backward_data(self, factors, dy, dx, dx1):
        dx[...] = dy * factors[1].reshape(dy.shape)
        dx1[...] = dy * factors[0].reshape(dy.shape)


def net_with(*layers, channels=8, layout="nchw"):
    """Convolutions with the layers behind each of them."""
    net = neap.Graph("custom", batch=16, layout=layout)
    x = net.input((1, 8, 8))
    for i in (1, 2):
        x = net.add(f"conv{i}", neap.Convolution(channels, kernel=3, padding=1, bias=False), x)
        for layer in layers:
            x = net.add(f"{type(layer).__name__}{i}", layer, x)
    x = net.add("pool", neap.MaxPool(), x)
    net.loss(net.add("fc", neap.FullyConnected(10), x))
    return net


def losses_of(net, batches, **options):
    with neap.Session(net, device="cpu", lr=0.05, **options) as session:
        return [session.step(x, y) for x, y in batches], session.state_dict(), session.plan


class Reference:
    """fc1, GELU, fc2 and cross-entropy, trained as torch.optim.SGD does."""

    def __init__(self, state):
        self.values = {name: values.astype("f8") for name, values in state.items()}
        self.momenta = {name: 0 for name in state}

    def step(self, images, labels, rate, momentum):
        x, labels = images.reshape(len(images), -1).astype("f8"), numpy.eye(10)[labels]
        z = x @ self.values["fc1.weight"].T + self.values["fc1.bias"]
        upper = numpy.vectorize(math.erfc)(-z / math.sqrt(2)) / 2
        h = z * upper
        scores = h @ self.values["fc2.weight"].T + self.values["fc2.bias"]
        scores = scores - scores.max(1, keepdims=True)
        logs = scores - numpy.log(numpy.exp(scores).sum(1, keepdims=True))
        dy = (numpy.exp(logs) - labels) / len(images)
        dz = (dy @ self.values["fc2.weight"]) * (upper + z * numpy.exp(-z * z / 2) / math.sqrt(2 * math.pi))
        gradients = {"fc1.weight": dz.T @ x, "fc1.bias": dz.sum(0), "fc2.weight": dy.T @ h, "fc2.bias": dy.sum(0)}
        for name, gradient in gradients.items():
            self.momenta[name] = momentum * self.momenta[name] + gradient
            self.values[name] -= rate * self.momenta[name]
        return -(labels * logs).sum() / len(images)


def test_gelu_trains_as_its_mathematics_do(batches):
    net = neap.Graph("mlp", batch=16)
    x = net.add("fc1", neap.FullyConnected(32), net.input((1, 8, 8)))
    x = net.add("gelu", Gelu(), x)
    net.loss(net.add("fc2", neap.FullyConnected(10), x))
    with neap.Session(net, device="cpu", lr=0.05) as session:
        reference = Reference(session.state_dict())
        for images, labels in batches:
            assert session.step(images, labels) == pytest.approx(reference.step(images, labels, 0.05, 0.9), abs=1e-6)
        assert session.predict(images).shape == (16, 10)


@pytest.mark.parametrize("layer", [Gelu(), Shift()], ids=["gelu", "shift"])
def test_every_budget_gives_the_same_bits(layer, batches):
    net = net_with(layer)
    losses, state, plan = losses_of(net, batches)
    for policy in ("superneurons", "auto"):
        minimum = neap.plan(net, device="cpu", policy=policy, host_budget="1GiB").minimum_bytes
        assert minimum < plan.peak_bytes
        tight, tight_state, tight_plan = losses_of(net, batches, budget=minimum, policy=policy, host_budget="1GiB")
        assert tight_plan.steps["recompute"].any() or (tight_plan.tensors["offloads"] > 0).any()
        assert tight == losses
        assert all(numpy.array_equal(values, state[name]) for name, values in tight_state.items())


def test_a_budget_is_planned_for_while_kernels_run(batches):
    net = net_with(Gelu())
    losses, _, _ = losses_of(net, batches)
    with neap.Session(net, device="cpu", lr=0.05) as session:
        found = [session.step(*batches[0])]
        session.set_budget(session.plan.minimum_bytes, wait=False)
        found += [session.step(x, y) for x, y in batches[1:3]]
        session.await_budget()
        assert found + [session.step(x, y) for x, y in batches[3:]] == losses


def test_sub_batches_run_the_kernels_of_smaller_batches(batches):
    losses, _, _ = losses_of(net_with(Gelu()), batches)
    halves, _, plan = losses_of(net_with(Gelu()), batches, sub_batches=2)
    assert plan.sub_batches == 2
    assert halves == pytest.approx(losses, rel=1e-5)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_arrays_have_the_axes_of_images_in_every_layout(layout, batches):
    """A shift of the channels behind a convolution is its bias."""
    nets = [neap.Graph("shifted", batch=16, layout=layout) for _ in range(2)]
    for net, bias in zip(nets, (False, True)):
        x = net.add("conv", neap.Convolution(8, kernel=3, padding=1, bias=bias), net.input((1, 8, 8)))
        x = net.add("relu", neap.Relu(), x if bias else net.add("bias", Shift(), x))
        net.loss(net.add("fc", neap.FullyConnected(10), x))
    with neap.Session(nets[0], device="cpu") as custom, neap.Session(nets[1], device="cpu") as session:
        state = custom.state_dict()
        assert state["bias.shift"].any()
        session.load_state_dict({name.replace("bias.shift", "conv.bias"): values for name, values in state.items()})
        for images, labels in batches:
            assert custom.step(images, labels) == pytest.approx(session.step(images, labels), rel=1e-5)


def test_two_inputs_and_what_forward_saves(batches):
    def gated(layer):
        net = neap.Graph("gated", batch=16)
        x = net.add("conv", neap.Convolution(4, kernel=3, padding=1), net.input((1, 8, 8)))
        x = net.add("gate", layer, x, net.add("sigmoid", neap.Sigmoid(), x))
        net.loss(net.add("fc", neap.FullyConnected(10), x))
        return net

    net = gated(Product())
    losses, _, _ = losses_of(net, batches)
    assert losses == pytest.approx(losses_of(gated(neap.Multiply()), batches)[0], rel=1e-5)
    minimum = neap.plan(net, device="cpu").minimum_bytes
    assert losses_of(net, batches, budget=minimum)[0] == losses
    with neap.Session(net, device="cpu", inference_only=True) as session:
        assert session.predict(batches[0][0]).shape == (16, 10)
        with pytest.raises(neap.Error, match=r"ONNX has no operator for: 'gate' \(python\)"):
            session.save_onnx("gated.onnx")


class Failing(Gelu):
    def __init__(self):
        self.calls = 0

    def forward(self, x, y):
        self.calls += 1
        super().forward(x, y)
        if self.calls == 3:
            y[0, 0, 0, 0] = 1 // (self.calls - 3)


def test_an_exception_of_a_kernel_is_the_cause_of_the_steps(batches, tmp_path):
    layer = Failing()
    with neap.Session(net_with(layer), device="cpu") as session:
        session.step(*batches[0])
        session.save(tmp_path / "saved")
        with pytest.raises(neap.Error, match="python forward: ZeroDivisionError: integer division or modulo by zero") as raised:
            session.step(*batches[1])
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        assert "1 // (self.calls - 3)" in "".join(traceback.format_exception(raised.value))
        with pytest.raises(neap.Error) as other:
            session.load(tmp_path / "missing")
        assert other.value.__cause__ is None
        session.load(tmp_path / "saved")
        assert session.step(*batches[1]) > 0
    assert session.closed


def test_the_plan_names_the_layer_and_needs_the_cpu():
    net = net_with(Gelu())
    assert "class=Gelu" in repr(net.layers[2][1])
    assert net.layers[2][1] != net.layers[4][1] and net.layers[2][1] == net.with_options(batch=8).layers[2][1]
    assert (neap.plan(net, device="cpu").steps["type"] == "python").sum() == 4
    assert neap.peak_batch(net, "1MiB", device="cpu")["batch"][0] >= 1
    with pytest.raises(neap.Error, match=r"layer 'Gelu1' \(class=Gelu .*\): the kernels .* on the device cpu only") as refused:
        neap.plan(net, device="h200")
    assert refused.value.code == "UNIMPLEMENTED"
    with pytest.raises(neap.Error, match="fp16"):
        neap.Session(net, device="cpu", dtype="fp16")


def changed(**functions):
    return type("Changed", (Gelu,), functions)()


KEPT = []
WRONG = [
    (changed(forward=lambda self, x: None), r"Changed.forward\(\) does not take its result 'y'"),
    (changed(forward=lambda self, x, y, dy: None), r"Changed.forward\(\) takes 'dy', which is not one of its operands: x, y"),
    (changed(backward_data=None), r"Changed does not define backward_data\(\)"),
    (changed(output=lambda self, x: x[:2]), r"output\(\) returns the shape 16x8, which is not"),
    (changed(output=lambda self, x: "no"), "Changed"),
    (changed(output=neap.CustomLayer.output), r"NotImplementedError: Changed does not define output\(\)"),
    (changed(parameters=lambda self, x: {"y": neap.Parameter((1,))}), "two operands have one name: x, y, y"),
    (changed(parameters=lambda self, x: {"p": neap.Parameter((1,))}), r"Changed does not define backward_params\(\)"),
    (changed(parameters=lambda self, x: {"p": ((1,), "random")}, backward_params=lambda self, dp: None),
     "'random' is none of constant, normal, uniform"),
    (changed(saved=lambda self, x: {"s": (1, 1, 1, 1, 1, 1)}, forward=lambda self, x, y, s: None), "'s' has 6 axes"),
    (changed(forward=lambda self, x, y: x), r"Changed.forward\(\) returns a value"),
    (changed(forward=lambda self, x, y: KEPT.append(x[0])), r"Changed.forward\(\) keeps 'x', or a view of it"),
    (changed(forward=lambda self, x, y: x.fill(1)), "ValueError: assignment destination is read-only"),
]


@pytest.mark.parametrize("layer, text", WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_with_a_layer_is_said(layer, text, batches):
    try:
        with pytest.raises(neap.Error, match=text):
            with neap.Session(net_with(layer), device="cpu") as session:
                session.step(*batches[0])
    finally:
        KEPT.clear()


def test_only_layers_are_added():
    with pytest.raises(TypeError, match="a layer is a neap.Layer or a neap.CustomLayer"):
        neap.Graph().add("x", "relu", "input")


def test_threads_with_a_session_each_may_share_a_layer(batches):
    layer = Gelu()
    results = [None] * 3

    def train(index):
        results[index] = losses_of(net_with(layer, channels=4), batches)[0]

    threads = [threading.Thread(target=train, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] is not None and all(result == results[0] for result in results)


def test_a_layer_is_freed_with_its_networks(batches):
    layer = Gelu()
    dies = weakref.ref(layer)
    net = net_with(layer)
    session = neap.Session(net, device="cpu")
    del layer, net
    session.step(*batches[0])
    assert dies() is not None
    session.close()
    gc.collect()
    assert dies() is None


def test_a_layer_that_refers_to_its_graph_is_garbage_with_it(batches):
    layer = Gelu()
    dies = weakref.ref(layer)
    layer.net = net_with(layer)
    layer.session = neap.Session(layer.net, device="cpu")
    layer.session.step(*batches[0])
    del layer
    gc.collect()
    assert dies() is None


def test_a_layer_is_kept_by_what_is_made_of_its_graph(batches):
    changed_net = net_with(Gelu()).with_options(batch=8)
    other = neap.Graph("other", batch=8)
    x = other.add("gelu", changed_net.layers[2][1], other.input((1, 8, 8)))
    other.loss(other.add("fc", neap.FullyConnected(10), x))
    left = net_with(Gelu()).layers[2][1]  # of a graph that is freed here
    images, labels = batches[0][0][:8], batches[0][1][:8]
    with neap.Session(changed_net, device="cpu") as session:
        changed_net = None
        assert session.step(images, labels) > 0
    with neap.Session(other, device="cpu") as session:
        assert session.step(images, labels) > 0
    with pytest.raises(ValueError, match="the Gelu no longer exists"):
        other.add("left", left, "input")


OPEN_AT_EXIT = f"""
import numpy
import neap

{inspect.getsource(Double)}
net = neap.Graph(batch=4)
x = net.add("double", Double(), net.input((1, 8, 8)))
net.loss(net.add("fc", neap.FullyConnected(10), x))
session = neap.Session(net, device="cpu")
print(session.step(numpy.ones((4, 1, 8, 8)), [1, 2, 3, 4]) > 0)
"""


def test_a_session_may_be_open_when_python_ends():
    run = subprocess.run([sys.executable, "-B", "-c", OPEN_AT_EXIT], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "True\n", "")
