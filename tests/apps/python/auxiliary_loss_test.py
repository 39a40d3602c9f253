"""Auxiliary losses, and the networks that have them."""
import numpy
import pytest

import neap

WEIGHT = 0.5


def two_headed_net(auxiliary):
    net = neap.Graph("heads", batch=8)
    x = net.input((3, 4, 4))
    net.loss(net.add("fc", neap.FullyConnected(4), x))
    if auxiliary:
        y = net.add("aux", neap.FullyConnected(4), net.add("relu", neap.Relu(), x))
        assert net.auxiliary_loss(y, neap.SoftmaxCrossEntropy(weight=WEIGHT)) == "aux.loss"
    return net


def test_training_adds_an_auxiliary_loss_and_evaluation_leaves_it_out():
    images = numpy.random.default_rng(1).uniform(-1, 1, (8, 3, 4, 4)).astype(numpy.float32)
    labels = numpy.arange(8) % 4
    with neap.Session(two_headed_net(False), device="cpu") as plain, neap.Session(two_headed_net(True), device="cpu") as both:
        loss = plain.evaluate(images, labels).loss
        assert both.evaluate(images, labels).loss == loss
        assert abs(plain.step(images, labels) - loss) < 1e-6
        assert both.step(images, labels) > loss + WEIGHT / 2


def test_networks_have_auxiliary_classifiers_on_request():
    assert neap.nets.googlenet(aux_logits=True).parameter_count() == 13_004_888
    assert neap.nets.inception_v3(aux_logits=True).parameter_count() == 27_161_264
    assert neap.nets.inception_v3().parameter_count() == 23_834_568
    with pytest.raises(neap.Error, match="takes no aux-logits"):
        neap.nets.resnet50(aux_logits=True)


@pytest.mark.parametrize("pool", [neap.MaxPool, neap.AveragePool])
def test_pooling_rounds_up_on_request(pool):
    assert pool(3, 2, ceil_mode=True) != pool(3, 2)
    assert pool(3, 2, dilation=(1, 2)) != pool(3, 2, dilation=(2, 1)) != pool(3, 2) == pool(3, 2, dilation=1)
