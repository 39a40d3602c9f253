"""Networks of ids."""
import numpy
import pytest

import neap

VOCABULARY = 11


def word_net(head):
    net = neap.Graph("words", batch=4, layout="nhwc")
    net.input((6,), "ids", "int32")
    net.input((6,), "next", "int32")
    x = net.add("wte", neap.Embedding(VOCABULARY, 8, deviation=0.1), "ids")
    x = net.add("wpe", neap.PositionEmbedding(), x)
    y = net.add("up", neap.Convolution(16), net.add("norm", neap.LayerNorm(), x))
    x = net.add("add", neap.Add(), x, net.add("down", neap.Convolution(8), net.add("gelu", neap.Gelu(), y)))
    if head == "linear_cross_entropy":
        net.add_loss("loss", neap.LinearCrossEntropy(VOCABULARY), x, "next")
        net.share("loss.weight", "wte.weight")
    else:
        net.add_loss("loss", neap.SoftmaxCrossEntropy(), net.add("head", neap.Convolution(VOCABULARY, bias=False), x), "next")
        net.share("head.weight", "wte.weight")
    return net


def words(step):
    ids = (numpy.arange(4)[:, None] * 3 + numpy.arange(7) * 2 + step) % VOCABULARY
    return {"ids": ids[:, :-1], "next": ids[:, 1:]}


def test_the_next_id_is_learned_alike_with_the_last_layer_apart():
    losses = {}
    for head in ("linear_cross_entropy", "convolution"):
        with neap.Session(word_net(head), device="cpu") as session:
            losses[head] = [session.step_feeds(words(0)).loss for _ in range(30)]
    assert losses["linear_cross_entropy"] == pytest.approx(losses["convolution"], rel=1e-3)
    assert losses["convolution"][-1] < losses["convolution"][0]


def test_ids_outside_the_vocabulary_are_refused():
    with neap.Session(word_net("linear_cross_entropy"), device="cpu") as session:
        given = words(0)
        given["ids"] = given["ids"].copy()
        given["ids"][2, 3] = VOCABULARY
        with pytest.raises(neap.Error, match="feed 'ids' has 11 for position 3 of sequence 2"):
            session.step_feeds(given)
