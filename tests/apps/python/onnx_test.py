"""Networks from ONNX files and from PyTorch, and weights from arrays."""
import pickle
import subprocess

import numpy
import pytest

import neap
from conftest import COMMAND


@pytest.fixture
def trained(small_net, batches):
    with neap.Session(small_net, device="cpu", lr=0.05) as session:
        session.fit(batches)
        yield session


def test_a_file_comes_with_its_weights(tmp_path, digits):
    weights, model = tmp_path / "lenet.safetensors", tmp_path / "model.onnx"
    net = neap.nets.lenet(batch=16, image=28)
    with neap.Session(net, device="cpu", seed=5) as source:
        source.save_weights(weights)
        state = source.state_dict()
    subprocess.run([COMMAND, "export", "lenet", "--weights", weights, "--onnx", model], check=True, capture_output=True)
    read = neap.from_onnx(model, batch=8)
    assert (read.name, read.batch, read.parameter_count()) == ("model", 8, net.parameter_count())
    assert read.weights.keys() == state.keys()
    for again in (read, read.with_options(batch=4)):
        with neap.Session(again, device="cpu") as session:
            assert session.batch == again.batch
            for name, values in session.state_dict().items():
                assert numpy.array_equal(values, state[name])
    with pytest.raises(neap.Error, match="missing.onnx"):
        neap.from_onnx(tmp_path / "missing.onnx")


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_what_is_written_predicts_the_same(layout, small_net, batches, tmp_path):
    path = tmp_path / "written.onnx"
    with neap.Session(small_net.with_options(layout=layout), device="cpu", lr=0.05) as session:
        session.fit(batches)
        session.save_onnx(path)
        wanted = session.predict(batches[0][0])
        with pytest.raises(neap.Error, match="no_folder") as refused:
            session.save_onnx(tmp_path / "no_folder" / "written.onnx")
        assert refused.value.code == "NOT_FOUND"
    with neap.Session(neap.from_onnx(path, batch=16, layout=layout), device="cpu", inference_only=True) as session:
        assert numpy.array_equal(session.predict(batches[0][0]), wanted)


def test_a_state_dict_is_loaded(trained, small_net):
    state = trained.state_dict()
    with neap.Session(small_net, device="cpu", seed=9) as session:
        session.load_state_dict(state)
        assert all(numpy.array_equal(values, state[name]) for name, values in session.state_dict().items()
                   if not name.endswith("num_batches_tracked"))
        session.load_state_dict({**state, "fc.weight": state["fc.weight"][..., None, None]})
        assert numpy.array_equal(session.state_dict()["fc.weight"], state["fc.weight"])
        with pytest.raises(neap.Error, match="'fc.weight' has the shape"):
            session.load_state_dict({**state, "fc.weight": state["fc.weight"].T}, strict=False)


def test_a_state_that_does_not_fit_is_refused_naming_all_its_faults(trained, small_net):
    state = trained.state_dict()
    odd = {**state, "fc.weight": state["fc.weight"].T, "other": state["fc.bias"], "another": state["fc.bias"]}
    del odd["fc.bias"], odd["conv2.bias"]
    with neap.Session(small_net, device="cpu", seed=9) as session:
        before = session.state_dict()
        with pytest.raises(neap.Error) as refused:
            session.load_state_dict(odd)
        for text in (r"'fc.weight' has the shape (8, 10), but the network has (10, 8)", "'fc.bias' is missing",
                     "'conv2.bias' is missing", "'other' does not belong", "'another' does not belong"):
            assert text in str(refused.value)
        assert all(numpy.array_equal(values, before[name]) for name, values in session.state_dict().items())
        odd["fc.weight"] = state["fc.weight"]
        loaded = session.load_state_dict(odd, strict=False)
        assert loaded.missing_keys == ["conv2.bias", "fc.bias"]
        assert loaded.unexpected_keys == ["other", "another"]
        after = session.state_dict()
        assert numpy.array_equal(after["fc.bias"], before["fc.bias"])
        assert numpy.array_equal(after["fc.weight"], state["fc.weight"])


class Tensor:
    """As much of a tensor of PyTorch as neap knows."""

    def __init__(self, values, dtype="torch.float32", requires_grad=False):
        self.values, self.dtype, self.requires_grad = values, dtype, requires_grad

    def detach(self):
        return Tensor(self.values, self.dtype)

    def float(self):
        return Tensor(self.values, requires_grad=self.requires_grad)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def __dlpack__(self, **options):
        if self.requires_grad or self.dtype == "torch.bfloat16":
            raise BufferError("as PyTorch does")
        return self.values.__dlpack__(**options)


def test_tensors_that_train_or_have_16_bits_are_taken(small_net, batches):
    x, y = batches[0]
    with neap.Session(small_net, device="cpu") as session:
        state = session.state_dict()
        loss = session.step(x, y)
        session.load_state_dict({name: Tensor(values, "torch.bfloat16", True) for name, values in state.items()})
        assert session.step(Tensor(x, requires_grad=True), y) == loss


def test_a_file_for_one_batch_has_that_batch(tmp_path):
    onnx = pytest.importorskip("onnx")
    value, values = onnx.helper.make_tensor_value_info, onnx.helper.make_tensor

    def written(batch):
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], "net", [value("x", 1, [batch, 4])],
            [value("y", 1, [batch, 3])], [values("w", 1, [3, 4], numpy.arange(12.0))])
        path = tmp_path / "model.onnx"
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    assert neap.from_onnx(written(2)).batch == 2
    assert neap.from_onnx(written(2), batch=5).batch == 5
    assert neap.from_onnx(written("n")).batch == 32
    with pytest.raises(neap.Error, match="batch 9000000000"):
        neap.from_onnx(written(9000000000))


def test_a_network_from_a_file_trains_with_any_loss(tmp_path):
    onnx = pytest.importorskip("onnx")
    value, values = onnx.helper.make_tensor_value_info, onnx.helper.make_tensor
    weight = numpy.random.default_rng(2).normal(size=(3, 4)).astype("f4")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gemm", ["x", "fc.weight"], ["y"], transB=1)], "net", [value("x", 1, [6, 4])],
        [value("y", 1, [6, 3])], [values("fc.weight", 1, [3, 4], weight.ravel())])
    path = tmp_path / "model.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    random = numpy.random.default_rng(3)
    x, targets = random.normal(size=(6, 4)).astype("f4"), random.random((6, 3)).astype("f4")
    scores = x.astype("f8") @ weight.T
    wanted = {"mse": ((scores - targets) ** 2).mean(),
              "bce": (numpy.logaddexp(0, scores) - scores * targets).mean()}
    for loss, expected in wanted.items():
        net = neap.from_onnx(path, batch=6, loss=loss)
        for again in (net, pickle.loads(pickle.dumps(net))):
            with neap.Session(again, device="cpu", lr=0.1) as session:
                assert session.step(x, targets) == pytest.approx(expected, rel=1e-5)
                assert session.step(x, targets) < expected
        with pytest.raises(neap.Error, match="from_onnx"):
            net.with_loss("mse")


def test_activations_have_their_fields():
    assert neap.Clip() == neap.Clip(low=0, high=6) != neap.Clip(high=1)
    assert neap.LeakyRelu(0.2) != neap.LeakyRelu()
    assert neap.Gelu() == neap.Gelu(approximation="none") != neap.Gelu("tanh")
    assert neap.Elu() == neap.Elu(alpha=1) != neap.Elu(0.5)
    assert neap.Softplus() == neap.Softplus(beta=1, threshold=20) != neap.Softplus(2)
    assert neap.Prelu() == neap.Prelu(slopes=1) != neap.Prelu(4)
    with pytest.raises(neap.Error, match="approximation 'erf' is neither 'none' nor 'tanh'"):
        neap.Gelu("erf")
    names = [layer().type for layer in (neap.HardSigmoid, neap.HardSwish, neap.Silu, neap.Mish, neap.Multiply)]
    assert names == ["hard_sigmoid", "hard_swish", "silu", "mish", "multiply"]


def check_trains_as_in_pytorch(torch, *layers):
    """A convolution to 4 channels, the layers, and a classifier."""
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1, bias=False), *layers, torch.nn.Flatten(),
                                 torch.nn.Linear(4 * 64, 10))
    images, labels = torch.rand(8, 1, 8, 8), torch.arange(8)
    net = neap.from_torch(module, images)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    with neap.Session(net, device="cpu", lr=0.1) as session:
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(images), labels)
            loss.backward()
            optimizer.step()
            assert session.step(images, labels) == pytest.approx(loss.item(), rel=1e-5)
        for name, values in (*module.named_parameters(), *module.named_buffers()):
            assert numpy.allclose(session.state_dict()[name], values.detach().numpy(), atol=1e-5), name


def test_a_module_of_pytorch_trains_as_it_would_there():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    check_trains_as_in_pytorch(torch, torch.nn.BatchNorm2d(4), torch.nn.ReLU())


@pytest.mark.parametrize("name, fields, kind", [("GELU", {}, "gelu"), ("GELU", {"approximate": "tanh"}, "gelu"),
                                                ("ELU", {"alpha": 0.7}, "elu"), ("Softplus", {"beta": 2.5}, "softplus"),
                                                ("Mish", {}, "mish"), ("PReLU", {}, "prelu"),
                                                ("PReLU", {"num_parameters": 4}, "prelu")])
def test_an_activation_of_pytorch_is_one_layer_and_trains_as_it_would_there(name, fields, kind):
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    activation = getattr(torch.nn, name)(**fields)
    net = neap.from_torch(torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), activation, torch.nn.AdaptiveAvgPool2d(1)),
                          torch.rand(2, 1, 8, 8))
    assert [layer.type for _, layer, _ in net.layers][2:4] == [kind, "global_average_pool"]
    check_trains_as_in_pytorch(torch, activation)


@pytest.mark.parametrize("name, arguments, fields, kind", [
    ("GroupNorm", (2, 4), {"eps": 1e-3}, "group_norm"), ("GroupNorm", (1, 4), {"affine": False}, "group_norm"),
    ("InstanceNorm2d", (4,), {"affine": True}, "instance_norm"), ("InstanceNorm2d", (4,), {}, "instance_norm"),
    ("LayerNorm", (4,), {}, "layer_norm"), ("LayerNorm", (4,), {"bias": False}, "layer_norm"),
    ("LayerNorm", (4,), {"eps": 1e-3, "elementwise_affine": False}, "layer_norm")])
def test_a_norm_of_pytorch_is_one_layer_and_trains_as_it_would_there(name, arguments, fields, kind):
    torch = pytest.importorskip("torch")

    class Permute(torch.nn.Module):
        def __init__(self, *order):
            super().__init__()
            self.order = order

        def forward(self, x):
            return x.permute(self.order)

    torch.manual_seed(1)
    layers = [getattr(torch.nn, name)(*arguments, **fields)]
    for parameter in layers[0].parameters():
        torch.nn.init.uniform_(parameter, 0.5, 1.5)
    if name == "LayerNorm":
        layers = [Permute(0, 2, 3, 1), *layers, Permute(0, 3, 1, 2)]
    net = neap.from_torch(torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), *layers, torch.nn.AdaptiveAvgPool2d(1)),
                          torch.rand(2, 1, 8, 8))
    assert [layer.type for _, layer, _ in net.layers][2:4] == [kind, "global_average_pool"]
    check_trains_as_in_pytorch(torch, *layers)


def test_a_prelu_of_pytorch_that_is_applied_twice_has_one_parameter():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    activation = torch.nn.PReLU()
    check_trains_as_in_pytorch(torch, activation, torch.nn.Conv2d(4, 4, 1), activation)
