"""Sessions: what they compute, save and refuse."""
import inspect
import json
import pickle
import subprocess

import numpy
import pytest

import neap
from conftest import COMMAND, DIGITS, same


class Foreign:
    """An array that offers nothing but DLPack."""

    def __init__(self, values):
        self._values = values

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()


def test_losses_are_those_of_the_command(digits):
    run = subprocess.run(
        [COMMAND, "train", "resnet20", "--image", "8", "--channels", "1", "--batch", "16", "--data", DIGITS, "--device", "cpu",
         "--steps", "4", "--lr", "0.05", "--seed", "3", "--log-every", "1", "--json"], capture_output=True, text=True, check=True)
    wanted = [line["loss"] for line in map(json.loads, run.stdout.splitlines()) if "step" in line and "loss" in line][:4]
    net = neap.nets.resnet20(batch=16, image=8, channels=1)
    loader = iter(neap.Loader(digits, batch=16, seed=3))
    with neap.Session(net, device="cpu", lr=0.05, seed=3) as session:
        losses = [session.step(*next(loader)) for _ in range(4)]
    assert numpy.float32(losses).tolist() == numpy.float32(wanted).tolist()


def test_every_budget_gives_the_same_bits(small_net, batches):
    with neap.Session(small_net, device="cpu") as plain:
        losses = [plain.step(x, y) for x, y in batches]
        state = plain.state_dict()
        minimum = plain.plan.minimum_bytes
    with neap.Session(small_net, device="cpu", budget=minimum) as tight:
        assert [tight.step(x, y) for x, y in batches] == losses
        assert same(tight.state_dict(), state)
        assert tight.memory.measured_peak_bytes == tight.memory.predicted_peak_bytes <= minimum
        assert tight.memory.arena_bytes <= minimum
        assert tight.plan.budget_bytes == minimum


def test_fit_trains_as_steps_do(small_net, batches):
    with neap.Session(small_net, device="cpu") as stepped, neap.Session(small_net, device="cpu") as fitted:
        losses = [stepped.step(x, y) for _ in range(2) for x, y in batches]
        seen = []
        means = fitted.fit(batches, epochs=2, on_step=lambda result: seen.append(result.loss))
        assert seen == losses
        assert means == pytest.approx([numpy.mean(losses[:5]), numpy.mean(losses[5:])])
        assert fitted.steps == stepped.steps == 10
        assert same(fitted.state_dict(), stepped.state_dict())


def test_a_timed_step_trains_as_a_step_does(small_net, batches):
    """scripts/python_overhead.py uses it."""
    with neap.Session(small_net, device="cpu") as stepped, neap.Session(small_net, device="cpu") as timed:
        for images, labels in batches:
            stepped.step(images, labels)
            assert 0 < timed._time_step(images, labels) < 60
        assert same(timed.state_dict(), stepped.state_dict())


def test_types_of_arrays_do_not_matter(small_net, batches):
    x, y = batches[0]
    forms = [(x, y), (x.astype("f8"), y.astype("i8")), (Foreign(x), Foreign(y)), (x.tolist(), y.tolist()),
             (numpy.asfortranarray(x), y.astype("u1"))]
    losses = set()
    for images, labels in forms:
        with neap.Session(small_net, device="cpu") as session:
            losses.add(session.step(images, labels))
    assert len(losses) == 1


def test_batches_that_do_not_fit_are_refused_and_change_nothing(session, batches):
    x, y = batches[0]
    state = session.state_dict()
    for images, labels, text in [(x[:, :, :7], y, r"images have the shape \(16, 1, 7, 8\), expected \(n, 1, 8, 8\)"),
                                 (x, y.reshape(4, 4), r"labels have the shape \(4, 4\), expected \(n\)"),
                                 (x, y[:3], "16 images have 3 labels"), (x[:3], y[:3], "16"),
                                 (x, numpy.full(16, 10), "10")]:
        with pytest.raises(neap.Error, match=text) as refused:
            session.step(images, labels)
        assert refused.value.code == "INVALID_ARGUMENT"
    with pytest.raises(TypeError, match="labels are integers"):
        session.step(x, y.astype("f4"))
    with pytest.raises(OverflowError):
        session.step(x, y.astype("i8") + (1 << 32))
    with pytest.raises(neap.Error, match="no step is in flight"):
        session.finish()
    assert same(session.state_dict(), state)
    assert session.step(x, y) > 0


def test_predict_returns_logits_of_any_number_of_images(session, batches, digits):
    session.fit(batches)
    images, labels = digits.read(0, 37)
    logits = session.predict(images)
    assert logits.shape == (37, 10) and logits.dtype == numpy.float32
    probabilities = session.predict(images, probabilities=True)
    shifted = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    assert numpy.allclose(probabilities, shifted / shifted.sum(axis=1, keepdims=True), atol=1e-6)
    result = session.evaluate(images, labels)
    assert result.correct == (logits.argmax(axis=1) == labels).sum()
    assert result.accuracy == result.correct / 37
    assert result.loss == pytest.approx(-numpy.log(probabilities[numpy.arange(37), labels]).mean(), rel=1e-4)
    assert session.evaluate(batches).labels == 80
    assert session.evaluate(digits).labels == len(digits)
    for nothing in (images[:0], []):
        assert session.predict(nothing).shape == (0, 10)


def test_a_network_that_labels_pixels():
    net = neap.nets.unet(batch=2, image=32, classes=3)
    with neap.Session(net, device="cpu", inference_only=True) as session:
        images = numpy.zeros((3, 1, 32, 32))
        assert session.predict(images).shape == (3, 3, 32, 32)
        assert session.evaluate(images, numpy.zeros((3, 32, 32), int)).labels == 3 * 32 * 32
        with pytest.raises(neap.Error, match="inference"):
            session.step(images[:2], numpy.zeros((2, 32, 32), int))


def test_the_state_has_the_names_and_shapes_of_pytorch(session, batches):
    session.fit(batches)
    state = session.state_dict()
    shapes = {name: values.shape for name, values in state.items()}
    assert shapes == {"conv1.weight": (8, 1, 3, 3), "bn1.weight": (8,), "bn1.bias": (8,), "bn1.running_mean": (8,),
                      "bn1.running_var": (8,), "bn1.num_batches_tracked": (), "conv2.weight": (8, 8, 3, 3),
                      "conv2.bias": (8,), "fc.weight": (10, 8), "fc.bias": (10,)}
    assert state["bn1.num_batches_tracked"] == 5 and state["bn1.num_batches_tracked"].dtype == numpy.int64
    state["fc.bias"][:] = 7  # a copy
    assert session.state_dict()["fc.bias"].max() < 7


def test_what_is_saved_can_be_loaded(small_net, batches, tmp_path):
    with neap.Session(small_net, device="cpu", seed=4) as session:
        session.fit(batches)
        session.save(tmp_path / "all.safetensors")
        session.save_weights(str(tmp_path / "weights.safetensors"), dtype="bf16")
        state, after = session.state_dict(), session.fit(batches)
    with neap.Session(small_net, device="cpu") as again:
        again.load(tmp_path / "all.safetensors")
        assert (again.steps, again.seed) == (5, 4)
        assert same(again.state_dict(), state)
        assert again.fit(batches) == after
        again.load(tmp_path / "weights.safetensors")
        assert again.steps == 0
        assert numpy.allclose(again.state_dict()["fc.weight"], state["fc.weight"], rtol=0.01)
        with pytest.raises(neap.Error, match="missing.safetensors") as refused:
            again.load(tmp_path / "missing.safetensors")
        assert refused.value.code == "NOT_FOUND"


def test_the_file_is_a_safetensors_file(session, tmp_path):
    path = tmp_path / "weights.safetensors"
    session.save_weights(path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    for name, values in session.state_dict().items():
        begin, end = header[name]["data_offsets"]
        assert tuple(header[name]["shape"]) == values.shape
        assert data[8 + size + begin:8 + size + end] == values.tobytes()


def test_the_element_type_of_a_session_may_differ_from_the_networks(small_net, batches):
    with neap.Session(small_net, device="cpu", budget="12MiB", dtype="bf16") as session:
        assert session.plan.dtype == "bf16"
        assert session.fit(batches, epochs=3)[-1] < 3
        assert session.predict(batches[0][0]).dtype == numpy.float32
        session.set_training_graph(small_net)


def test_a_budget_that_is_too_small_says_what_suffices(small_net, batches):
    with pytest.raises(neap.BudgetError) as refused:
        neap.Session(small_net, device="cpu", budget="10KiB")
    smallest = refused.value.minimum_bytes
    with neap.Session(small_net, device="cpu", budget=smallest) as session:
        assert session.step(*batches[0]) > 0
        with pytest.raises(neap.BudgetError) as again:
            session.set_budget(smallest - 1024)
        assert again.value.minimum_bytes == smallest
        assert session.step(*batches[0]) > 0
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (copy.minimum_bytes, str(copy), copy.code) == (smallest, str(refused.value), "RESOURCE_EXHAUSTED")
    with pytest.raises(neap.BudgetError):
        neap.Session(small_net, device="cpu", budget=smallest - 1024)


def test_the_budget_can_change_while_it_trains(small_net, batches):
    with neap.Session(small_net, device="cpu") as plain, neap.Session(small_net, device="cpu") as changed:
        minimum = plain.plan.minimum_bytes
        losses = [plain.step(x, y) for x, y in batches]
        found = [changed.step(*batches[0])]
        changed.set_budget(minimum)
        assert changed.memory.arena_bytes <= minimum
        found.append(changed.step(*batches[1]))
        changed.set_budget("8MiB", wait=False)
        found.append(changed.step(*batches[2]))
        changed.await_budget()
        assert not changed.budget_pending
        found += [changed.step(x, y) for x, y in batches[3:]]
        assert found == losses
        changed.set_budget(1024, wait=False)
        with pytest.raises(neap.BudgetError):
            changed.await_budget()


def test_unknown_attributes_are_refused(session, small_net, digits):
    named = [session, small_net, neap.Relu(), neap.LearningRate(0.1), session.plan, digits, neap.Loader(digits, batch=4),
             session.evaluate(digits), session.memory]
    for thing in named:
        with pytest.raises(AttributeError):
            thing.learn_rate = 0.5
    for read_only in ("batch", "steps", "seed"):
        with pytest.raises(AttributeError):
            setattr(session, read_only, 7)


def test_a_session_says_what_it_is(session, batches):
    session.step(*batches[0])
    assert "'small' batch=16 fp32 on " in repr(session) and "1 steps" in repr(session)
    session.close()
    assert repr(session) == "<neap.Session, closed>"
    with pytest.raises(TypeError, match="from_torch"):
        neap.Session(object())


def test_a_session_states_its_arguments():
    parameters = inspect.signature(neap.Session).parameters
    assert list(parameters)[:4] == ["net", "device", "budget", "dtype"]
    assert {"lr", "optimizer", "momentum", "weight_decay", "label_smoothing"} <= parameters.keys()
    assert all(parameter.annotation is not parameter.empty for parameter in parameters.values())
    assert all(name in neap.Session.__doc__ for name in parameters)
    with pytest.raises(TypeError, match="learning_rate"):
        neap.Session(neap.nets.lenet(), learning_rate=0.1)


class Named:
    """What str() makes the name of a device or type, as torch.device and torch.dtype do."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


def test_devices_and_types_have_several_names(small_net):
    for dtype, name in (("float32", "fp32"), ("bfloat16", "bf16"), (numpy.float32, "fp32"), (numpy.dtype("float16"), "fp16"),
                        (Named("torch.bfloat16"), "bf16"), ("tf32", "tf32")):
        assert small_net.with_options(dtype=dtype).dtype == name
        assert neap.nets.lenet(dtype=dtype).dtype == name
    with neap.Session(small_net, Named("cpu"), dtype=Named("torch.bfloat16")) as session:
        assert session.plan.dtype == "bf16"
    assert neap.plan(small_net, device=Named("h200")).device == neap.plan(small_net, device="h200").device
    with pytest.raises(neap.Error, match="'float64'"):
        neap.Session(small_net, device="cpu", dtype=numpy.float64)
    for device in ("cuda", 0, Named("cuda:0")):
        try:
            neap.Session(small_net, device).close()
        except neap.Error as error:
            assert "is not" not in str(error)  # no name that is not known; there may be no GPU


def test_a_budget_may_be_a_share_of_the_natural_peak(small_net):
    run = subprocess.run([COMMAND, "plan", "lenet", "--batch", "8", "--device", "cpu", "--budget", "80%", "--json"],
                         capture_output=True, text=True, check=True)
    wanted = json.loads(run.stdout)["budget_bytes"]
    net = neap.nets.lenet(batch=8)
    assert neap.plan(net, "80%", "cpu").budget_bytes == wanted
    with neap.Session(net, device="cpu", budget="80%") as session:
        assert session.plan.budget_bytes == wanted
        with pytest.raises(neap.Error, match="'50%' is not a byte size"):
            session.set_budget("50%")
    for refused in ("0%", "%", "many"):
        with pytest.raises(neap.Error, match="budget: "):
            neap.Session(small_net, device="cpu", budget=refused)
    with pytest.raises(neap.Error, match="budget: .*only bytes"):
        neap.peak_batch(small_net, "50%", device="cpu")


def test_what_is_not_labelled_adds_nothing(small_net, batches):
    x, y = batches[0]
    losses = []
    for nothing in (-1, -100):
        labels = y.astype("i8")
        labels[3:] = nothing
        with neap.Session(small_net, device="cpu") as session:
            losses.append([session.step(x, labels), session.evaluate(x, labels)])
    assert losses[0] == losses[1]


def test_vectors_need_no_height_and_width():
    net = neap.Graph("vectors", batch=4)
    net.loss(net.add("fc", neap.FullyConnected(3), net.input(8)))
    other = neap.Graph("vectors", batch=4)
    other.loss(other.add("fc", neap.FullyConnected(3), other.input((8,))))
    x, y = numpy.random.default_rng(1).random((4, 8), numpy.float32), numpy.arange(4) % 3
    with neap.Session(net, device="cpu") as session, neap.Session(other, device="cpu") as again:
        assert session.step(x, y) == again.step(x.reshape(4, 8, 1, 1), y)
        assert session.predict(x).shape == (4, 3)
        assert session.evaluate(x, y) == again.evaluate(x, y)
        with pytest.raises(neap.Error, match=r"images have the shape \(4, 7\), expected \(n, 8, 1, 1\)"):
            session.step(x[:, :7], y)


def test_labels_are_smoothed_in_training_and_evaluation(small_net, batches):
    x, y = batches[0]
    with neap.Session(small_net, device="cpu", label_smoothing=0.2) as session:
        logits = session.predict(x)
        loss = session.evaluate(x, y).loss
        session.set_training_graph(small_net)
        assert numpy.isfinite(session.step(x, y))
    logs = logits - logits.max(1, keepdims=True)
    logs -= numpy.log(numpy.exp(logs).sum(1, keepdims=True))
    wanted = -(0.8 * logs[numpy.arange(len(y)), y] + 0.2 * logs.mean(1)).mean()
    assert abs(loss - wanted) < 1e-5 * wanted
    with pytest.raises(neap.Error, match="label smoothing"):
        neap.Session(small_net, device="cpu", label_smoothing=1.0)
