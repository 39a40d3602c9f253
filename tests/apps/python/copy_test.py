"""Graphs and layers that are copied and pickled."""
import copy
import pickle

import numpy
import pytest

import neap
from doubling import Double


def copies(thing):
    return pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing), copy.copy(thing)


def test_layers_are_copied_with_their_fields():
    layers = [neap.Convolution(8, kernel=(1, 7), stride=2, padding=(0, 3), dilation=2, groups=2, bias=False),
              neap.TransposedConvolution(3, kernel=2, stride=2, bilinear=True), neap.FullyConnected(7, bias=False),
              neap.BatchNorm(epsilon=1e-3, momentum=0.3), neap.GroupNorm(4, epsilon=1e-3, affine=False, bias=False),
              neap.InstanceNorm(epsilon=1e-3, affine=True), neap.LayerNorm(epsilon=1e-3, affine=False),
              neap.Softmax(axis=3, logarithm=True),
              neap.LocalResponseNorm(3, alpha=0.1), neap.Dropout(0.1), neap.StochasticDepth(0.2),
              neap.MaxPool(3, ceil_mode=True, dilation=(2, 3)), neap.AveragePool(3, count_padding=False, dilation=2),
              neap.GlobalAveragePool(), neap.AdaptiveAveragePool((3, 7)),
              neap.Resize((3, 4), mode="linear", coordinates="align_corners"), neap.PixelShuffle(3),
              neap.PixelUnshuffle(blocks_first=True), neap.Reshape([0, -1]), neap.Permute([2, 1]),
              neap.WindowPartition((2, 3)), neap.WindowMerge(2, size=(4, 6)), neap.Roll((-1, 2)),
              neap.Tile((2, 3), channels=4),
              neap.Crop((3, 4), offset=1), neap.ChannelSlice(2, 3), neap.ChannelSplit([2, 3]), neap.ChannelShuffle(3),
              neap.ScaleShift(2, shift=0.1),
              neap.ZeroPad(top=1, right=2), neap.Relu(), neap.LeakyRelu(0.3), neap.Clip(-1, 1),
              neap.Sigmoid(), neap.Tanh(), neap.HardSigmoid(), neap.HardSwish(), neap.Silu(), neap.Gelu("tanh"),
              neap.Elu(0.5), neap.Softplus(2, threshold=10), neap.Mish(), neap.Prelu(3), neap.Add(), neap.Concat(),
              neap.Embedding(5, 3, padding=1, deviation=0.02), neap.PositionEmbedding(0.01), neap.PrependToken(deviation=0.5),
              neap.Multiply(), neap.Attention(4, kv_heads=2, causal=True, scale=0.3, rotary_dims=6, rotary_base=100, axes=1),
              neap.SoftmaxCrossEntropy(0.1), neap.LinearCrossEntropy(7, bias=True, weight=0.5),
              neap.MeanSquaredError(0.5), neap.BinaryCrossEntropy(), neap.FocalLoss(0.5, gamma=1.5),
              neap.DiceLoss(background=False, cross_entropy=1)]
    assert len({layer.type for layer in layers}) == len(layers)
    more = [neap.GroupNorm(2, bias=False), neap.InstanceNorm(affine=True, bias=False), neap.LayerNorm(bias=False),
            neap.Resize(scales=(1, 1.5), mode="cubic", cubic_coefficient=-0.5), neap.Resize(scales=0.7, rounding="floor"),
            neap.Dropout(0.1, per_channel=True), neap.ScaleShift(1e-6, learns_scale=True), neap.ScaleShift(learns_shift=True),
            neap.SoftmaxCrossEntropy(class_weights=[1, 0.5]), neap.BinaryCrossEntropy(positive_weight=3),
            neap.DiceLoss(batch=True, smooth=1, weight=0.25), neap.Attention(2, axes=1, window=(2, 3), size=(4, 6), shift=1)]
    for layer in layers + more:
        assert all(other == layer for other in copies(layer)), layer


@pytest.mark.parametrize("name", [name for name in dir(neap.nets) if not name.startswith("_") and name != "nnunet"])
def test_every_network_is_copied(name):
    net = getattr(neap.nets, name)(batch=2)
    for other in copies(net):
        assert other.layers == net.layers and repr(other) == repr(net)


def test_a_copy_trains_as_its_original_does(small_net, batches):
    small_net = small_net.with_options(layout="nhwc")
    with neap.Session(small_net, device="cpu") as session:
        losses = session.fit(batches)
    for other in copies(small_net):
        with neap.Session(other, device="cpu") as session:
            assert session.fit(batches) == losses


def test_copies_have_the_forms_of_weights_in_files(tmp_path):
    net = neap.Graph("forms", batch=1)
    net.loss(net.add("fc", neap.FullyConnected(2), net.input((3, 1, 1))))
    net.store_as("fc.weight", name="matrix", shape=(3, 2), transposed=True)
    file = tmp_path / "weights.safetensors"
    with neap.Session(net, device="cpu") as session:
        state = session.state_dict()
        assert state["matrix"].shape == (3, 2)
        session.save_weights(file)
    for other in copies(net):
        with neap.Session(other, device="cpu", seed=2) as session:
            session.load(file)
            assert all(numpy.array_equal(values, state[name]) for name, values in session.state_dict().items())
            session.load_state_dict({"matrix": 2 * state["matrix"], "fc.bias": state["fc.bias"]})
            assert numpy.array_equal(session.state_dict()["matrix"], 2 * state["matrix"])


def test_copies_train_with_the_sizes_of_their_original():
    net = neap.Graph("sizes", batch=4)
    x = net.add("conv", neap.Convolution(3, kernel=3, padding=1), net.input((1, 6, 6)))
    net.loss(net.add("fc", neap.FullyConnected(2), net.add("pool", neap.GlobalAveragePool(), x)))
    unsized = net.__getstate__()
    net.sizes([(6, 8), (4, 4, 2)])
    state = net.__getstate__()
    assert state[:-1] == unsized[:-1] and unsized[-1] == []
    assert state[-1] == [([6, 8], 0), ([4, 4], 2)]
    images, labels = numpy.ones((2, 1, 4, 4), numpy.float32), numpy.array([0, 1])
    with neap.Session(net, device="cpu") as session:
        sizes, loss = session.sizes, session.step(images, labels)
    for other in (*copies(net), copy.copy(net.with_options(batch=4))):
        assert other.__getstate__() == state
        with neap.Session(other, device="cpu") as session:
            assert session.sizes == sizes
            assert session.step(images, labels) == loss


def test_copies_have_the_batch_that_fills_the_budget():
    net = neap.Graph("sizes", batch=4)
    net.loss(net.add("pool", neap.GlobalAveragePool(), net.input((2, 6, 6))))
    net.sizes([(3, 5, "fill")])
    assert net.__getstate__()[-1] == [([3, 5], -1)]
    assert all(other.__getstate__() == net.__getstate__() for other in copies(net))


def test_copies_have_layers_of_their_own_in_python():
    net = neap.Graph("double", batch=2)
    x = net.add("double", Double(), net.input((1, 2, 2)))
    net.loss(net.add("fc", neap.FullyConnected(2), x))
    images, labels = numpy.ones((2, 1, 2, 2)), [0, 1]
    with neap.Session(net, device="cpu") as session:
        loss = session.step(images, labels)
    others = copies(net)
    del net, x
    for other in others:
        with neap.Session(other, device="cpu") as session:
            assert session.step(images, labels) == loss


def test_what_is_no_state_of_a_graph_is_refused(small_net):
    state = small_net.__getstate__()
    for wrong in ((), state[:-1], (*state[:-1], [("x", neap.Relu(), [], 77)]),
                  (*state[:5], [("x", neap.Relu(), [], 77)], *state[6:]), (*state[:-1], [([4], "fill")])):
        with pytest.raises((TypeError, RuntimeError)):
            neap.Graph.__new__(neap.Graph).__setstate__(wrong)
    for wrong in ((), ("convolution", 1), ("unknown",), ("relu", 1)):
        with pytest.raises(TypeError):
            neap.Layer.__new__(neap.Layer).__setstate__(wrong)
