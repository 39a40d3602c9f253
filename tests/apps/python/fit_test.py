"""fit(), arrays as batches, and losses that are no numbers."""
import pickle

import numpy
import pytest

import neap


def points(count):
    """Vectors of four classes that a line separates."""
    random = numpy.random.default_rng(3)
    labels = numpy.arange(count) % 4
    return random.normal(size=(count, 4)).astype("f4") + 3 * numpy.eye(4, dtype="f4")[labels], labels


def classifier(batch=8):
    net = neap.Graph("points", batch=batch)
    net.loss(net.add("fc", neap.FullyConnected(4), net.input(4)))
    return net


def test_each_epoch_is_validated():
    x, y = points(64)
    with neap.Session(classifier(), device="cpu") as session:
        before = session.evaluate(x, y)
        history = session.fit((x, y), epochs=3, val=(x, y))
        assert len(history) == len(history.val) == 3
        assert history[0] > history[1] > history[2]
        assert before.loss > history.val[0].loss > history.val[2].loss
        assert history.val[-1] == session.evaluate((x, y)) == session.evaluate(x, y)
        assert history.val[-1].accuracy > 0.9
        assert session.fit(neap.Loader((x, y), batch=8), val=[(x[:5], y[:5])]).val[0].labels == 5
        assert session.fit(neap.Loader((x, y), batch=8)).val == []


def test_a_dataset_is_fitted_as_its_loader_is(small_net, digits):
    with neap.Session(small_net, device="cpu") as one, neap.Session(small_net, device="cpu") as other:
        assert one.fit(digits) == other.fit(neap.Loader(digits, batch=16))


def test_a_loader_of_arrays_has_every_image_once_in_each_pass():
    x, y = points(22)
    loader = neap.Loader((x, y), batch=4)
    assert len(loader) == 5
    batches = [pair for _ in range(11) for pair in [next(iter(loader))]]  # two passes
    images = numpy.concatenate([images for images, _ in batches])
    labels = numpy.concatenate([labels for _, labels in batches])
    for part in (slice(0, 22), slice(22, 44)):
        assert {image.tobytes() for image in images[part]} == {image.tobytes() for image in x}
    number = {image.tobytes(): i for i, image in enumerate(x)}
    order = [number[image.tobytes()] for image in images]
    assert labels.tolist() == y[order].tolist()
    assert order[:22] != order[22:] and order[:22] != list(range(22))


def test_batches_of_arrays_depend_on_the_arguments_alone():
    x, y = points(20)

    def take(count, **options):
        loader = neap.Loader((x, y), batch=8, **options)
        return [next(iter(loader))[0].tolist() for _ in range(count)]

    assert take(6, seed=5) == take(6, seed=5) != take(6, seed=6)
    assert take(6, seed=5)[4:] == take(2, seed=5, first_step=4)
    assert take(1, shuffle=False)[0] == x[:8].tolist()
    with pytest.raises(ValueError, match="20 images have 3 labels"):
        neap.Loader((x, y[:3]), batch=4)
    with pytest.raises(TypeError, match="Dataset"):
        neap.Loader((x, y), batch=4, flip=True)
    for batch, images in ((0, x), (4, x[:0])):
        with pytest.raises(ValueError, match="a loader needs"):
            neap.Loader((images, y[:len(images)]), batch=batch)


def test_an_incomplete_batch_is_refused_with_what_helps():
    x, y = points(20)
    with neap.Session(classifier(), device="cpu") as session:
        with pytest.raises(neap.Error, match="a batch of 4 images, but the network trains 8; DataLoader\\(drop_last=True\\)"):
            session.fit([(x[:8], y[:8]), (x[8:16], y[8:16]), (x[16:], y[16:])])
        assert session.steps == 2


def test_no_batches_are_an_error():
    with neap.Session(classifier(), device="cpu") as session, pytest.raises(ValueError, match="no batches"):
        session.fit(iter([points(8)]), epochs=2)


def test_a_loss_that_is_no_number_raises():
    x, y = points(64)
    x[0] = numpy.nan
    with neap.Session(classifier(), device="cpu") as session:
        with pytest.raises(neap.NonFiniteLossError, match="the loss of step 0 is nan") as raised:
            session.fit(neap.Loader((x, y), batch=8, shuffle=False))
        assert raised.value.step == 0 and raised.value.code == "OUT_OF_RANGE"
        with pytest.raises(neap.Error, match="no step is in flight"):
            session.finish()  # those that had begun are finished
        with pytest.raises(neap.NonFiniteLossError):
            session.step(x[:8], y[:8])
    again = pickle.loads(pickle.dumps(raised.value))
    assert (again.step, str(again)) == (0, str(raised.value))


def test_a_step_of_fp16_that_is_skipped_is_no_error():
    x, y = points(8)
    with neap.Session(classifier(), device="cpu", dtype="fp16") as session:
        assert not numpy.isfinite(session.step(x * 1e6, y))
        assert numpy.isfinite(session.step(x, y))
        assert numpy.isnan(session.fit([(x * 1e6, y)])[0])
        losses = []
        assert session.fit([(x * 1e6, y), (x, y)], on_step=lambda result: losses.append(result.loss)) == [losses[1]]
        assert not numpy.isfinite(losses[0]) and numpy.isfinite(losses[1])


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_loss_that_stays_no_number_raises(dtype):
    x, y = points(8)
    first = 0 if dtype == "bf16" else 16  # the scales of the steps before are 65536, 32768, ..., 2
    for train in (lambda session: session.fit([(x * numpy.nan, y)] * 40),
                  lambda session: [session.step(x * numpy.nan, y) for _ in range(40)]):
        with neap.Session(classifier(), device="cpu", dtype=dtype) as session:
            with pytest.raises(neap.NonFiniteLossError) as raised:
                train(session)
            assert raised.value.step == first
