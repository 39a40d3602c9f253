"""Learning rates, optimizers and averages of the weights."""
import numpy
import pytest

import neap
from conftest import same


def test_the_learning_rate_may_depend_on_the_step(small_net, batches):
    rate = neap.LearningRate(0.1, warmup_steps=2, decay="cosine", period_steps=8)
    assert rate.at(0) < rate.at(1)
    assert rate.at(8) == 0
    with pytest.raises(neap.Error, match="linear"):
        neap.LearningRate(0.1, decay="linear")
    with neap.Session(small_net, device="cpu", lr=rate, momentum=0, weight_decay=1e-4) as session:
        session.fit(batches)
    with pytest.raises(neap.Error, match="momentum"):
        neap.Session(small_net, device="cpu", momentum=2)
    slow = neap.LearningRate(0.1, warmup_steps=2, decay="exponential", period_steps=8, minimum=0, warmup_start=0.5)
    assert slow.at(0) == pytest.approx(0.075)
    assert slow.at(10) == pytest.approx(0.01)


def test_the_learning_rate_is_read_and_set(small_net, batches):
    with neap.Session(small_net, device="cpu", lr=0.0625) as session, \
            neap.Session(small_net, device="cpu",
                         lr=neap.LearningRate(0.0625, decay="step", period_steps=2, factor=0.5)) as scheduled:
        assert session.lr == 0.0625
        session.fit(batches[:2])
        session.lr = 0.03125
        assert session.lr == 0.03125
        session.fit(batches[2:4])
        scheduled.fit(batches[:4])
        assert same(session.state_dict(), scheduled.state_dict())
        assert scheduled.lr == 0.015625
        session.set_learning_rate(neap.LearningRate(0.5, warmup_steps=8))
        assert session.lr == 0.5 * 5 / 8
        for wrong, error in ((-1.0, neap.Error), (float("nan"), neap.Error), ("fast", TypeError), (None, TypeError)):
            with pytest.raises(error):
                session.lr = wrong
            assert session.lr == 0.5 * 5 / 8


def test_the_learning_rate_may_be_a_function(small_net, batches):
    with neap.Session(small_net, device="cpu", lr=lambda step: 0.0625 if step < 2 else 0.03125) as session, \
            neap.Session(small_net, device="cpu",
                         lr=neap.LearningRate(0.0625, decay="step", period_steps=2, factor=0.5)) as scheduled:
        session.fit(batches[:3])
        assert session.lr == 0.03125
        session.step(*batches[3])
        scheduled.fit(batches[:4])
        assert same(session.state_dict(), scheduled.state_dict())
        session.lr = 0.5  # replaces the function
        session.step(*batches[4])
        assert session.lr == 0.5
        state = session.state_dict()
        session.lr = lambda step: 0.01 / (6 - step)
        with pytest.raises(ZeroDivisionError):
            session.fit(batches)  # the second step
        assert session.steps == 6 and not same(session.state_dict(), state)
        session.lr = 0.5
        session.step(*batches[0])


def test_a_checkpoint_goes_on_with_the_rate_that_was_set(small_net, batches, tmp_path):
    with neap.Session(small_net, device="cpu", lr=0.05) as session:
        session.save(tmp_path / "before.safetensors")
        session.lr = 0.025
        session.save(tmp_path / "after.safetensors")
        session.load(tmp_path / "before.safetensors")
        assert session.lr == 0.05
    with neap.Session(small_net, device="cpu", lr=0.9) as session:
        session.load(tmp_path / "after.safetensors")
        assert session.lr == 0.025
    with neap.Session(small_net, device="cpu", lr=lambda step: 0.125) as session:
        session.load(tmp_path / "after.safetensors")
        assert session.lr == 0.125


def test_optimizers(small_net, batches):
    with pytest.raises(neap.Error, match="neither sgd nor adamw"):
        neap.Session(small_net, device="cpu", optimizer="adam")
    with pytest.raises(neap.Error, match="are those of optimizer 'sgd'"):
        neap.Session(small_net, device="cpu", optimizer="adamw", nesterov=True)
    first = _trained(small_net, batches)[0]
    for options in ({"nesterov": True}, {"clip_norm": 0.01}, {"optimizer": "adamw", "betas": (0.8, 0.9), "eps": 1e-6}):
        assert not numpy.array_equal(_trained(small_net, batches, **options)[0], first), options
    for options in ({"betas": (0.9, 0.99)}, {"eps": 1e-6}, {"optimizer": "adamw", "momentum": 0.5}):
        with pytest.raises(neap.Error, match="are those of optimizer"):
            neap.Session(small_net, device="cpu", **options)


def test_the_first_step_of_adamw_and_a_clipped_one(small_net, batches):
    def change(**options):
        with neap.Session(small_net, device="cpu", lr=0.01, **options) as session:
            before = session.state_dict()
            session.step(*batches[0])
            after = session.state_dict()
            return numpy.concatenate([(after[name] - before[name]).ravel() for name in before if "running" not in name
                                      and "batches" not in name])

    # m / (1 - beta1) is the gradient, the root of v / (1 - beta2) its size.
    gradient = -100 * change(momentum=0)
    expected = -0.01 * gradient / (abs(gradient) + 0.01)
    assert abs(change(optimizer="adamw", betas=(0.8, 0.95), eps=0.01) - expected).max() < 1e-5
    norm = numpy.linalg.norm(gradient)
    assert numpy.linalg.norm(change(momentum=0, clip_norm=norm / 4)) == pytest.approx(0.01 * norm / 4, rel=1e-3)


def _trained(net, batches, **options):
    with neap.Session(net, device="cpu", **options) as session:
        session.fit(batches)
        return list(session.state_dict().values())


def test_averages_take_the_place_of_the_parameters(small_net, batches):
    with neap.Session(small_net, device="cpu", ema=0.5) as session:
        session.fit(batches)
        trained = session.state_dict()
        session.exchange_averages()
        averages = session.state_dict()
        name = next(iter(trained))
        assert not numpy.array_equal(trained[name], averages[name])
        with pytest.raises(neap.Error, match="exchanged"):
            session.step(*batches[0])
        session.exchange_averages()
        assert numpy.array_equal(session.state_dict()[name], trained[name])
        session.step(*batches[0])
    with neap.Session(small_net, device="cpu") as session, pytest.raises(neap.Error, match="no averages"):
        session.exchange_averages()
