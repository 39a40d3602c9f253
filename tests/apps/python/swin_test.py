"""Swin-T computes what torchvision's does, and has its weights; skipped without torchvision."""
import numpy
import pytest

import neap

INDICES = ".attn.relative_position_index"  # buffers that are no weights


@pytest.fixture(scope="module")
def module():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    torch.manual_seed(1)
    module = models.swin_t(num_classes=7)
    for part in module.modules():
        if type(part).__name__ == "StochasticDepth":
            part.p = 0.0
    for name, parameter in module.named_parameters():
        if name.endswith("relative_position_bias_table"):  # so that the tables matter
            torch.nn.init.normal_(parameter)
    return module


@pytest.mark.parametrize("image", [224, 100])  # 100 is padded to whole windows
def test_swin_predicts_what_torchvision_does_with_the_same_state(module, image):
    import torch
    images = torch.randn(2, 3, image, image)
    state = module.state_dict()
    with neap.Session(neap.nets.swin_t(batch=2, image=image, classes=7), device="cpu", inference_only=True) as session:
        loaded = session.load_state_dict(state)
        assert not loaded.missing_keys and not loaded.unexpected_keys
        with torch.no_grad():
            wanted = module.eval()(images).numpy()
        assert numpy.allclose(session.predict(images.numpy()), wanted, atol=1e-4 * numpy.abs(wanted).max())
        own = session.state_dict()
        assert set(state) - set(own) == {name for name in state if name.endswith(INDICES)}
        for name, values in own.items():
            assert numpy.array_equal(values, state[name].numpy()), name


def without_stochastic_depth(net, image):
    """The same layers, except those."""
    plain = neap.Graph("plain", batch=2)
    outputs = {"input": plain.input((3, image, image))}
    for name, layer, inputs in net.layers:
        if layer.type == "stochastic_depth":
            outputs[name] = outputs[inputs[0]]
        elif layer.type not in ("feed", "softmax_cross_entropy"):
            outputs[name] = plain.add(name, layer, *[outputs[x] for x in inputs])
    plain.loss(outputs["head"])
    return plain


def test_swin_trains_as_in_torchvision(module):
    import torch
    image, generator = 100, torch.Generator().manual_seed(2)
    net = without_stochastic_depth(neap.nets.swin_t(batch=2, image=image, classes=7), image)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.02)
    with neap.Session(net, device="cpu", lr=0.02, momentum=0) as session:
        session.load_state_dict({name: values for name, values in module.state_dict().items() if not name.endswith(INDICES)})
        for _ in range(3):
            images, labels = torch.randn(2, 3, image, image, generator=generator), torch.tensor([1, 5])
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module.train()(images), labels)
            loss.backward()
            optimizer.step()
            assert session.step(images, labels) == pytest.approx(loss.item(), rel=1e-3)
        state = session.state_dict()
        for name, parameter in module.named_parameters():
            values = parameter.detach().numpy()
            assert numpy.allclose(state[name].reshape(values.shape), values, atol=1e-3), name
