"""Plans and tables, which need no device."""
import json
import subprocess

import numpy
import pytest

import neap
from conftest import COMMAND


def command_plan(*arguments):
    run = subprocess.run([COMMAND, "plan", *arguments, "--json", "--database", "none"], capture_output=True, text=True,
                         check=True)
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def tight():
    return neap.plan(neap.nets.resnet_cifar(depth=8, batch=64), budget="14MiB", device="h200", database="none")


def test_a_plan_is_that_of_the_command(tight):
    wanted = command_plan("resnet-cifar", "--depth", "8", "--batch", "64", "--budget", "14MiB", "--device", "h200")
    assert tight.peak_bytes == wanted["peak_bytes"]
    assert tight.predicted_ms == pytest.approx(wanted["predicted_ms"])
    assert tight.minimum_bytes == wanted["minimum_budget_bytes"]
    assert tight.budget_bytes == 14 << 20
    assert (tight.net, tight.batch, tight.policy) == ("resnet8", 64, "auto")


def test_steps_and_tensors_are_structured_arrays(tight):
    steps, tensors = tight.steps, tight.tensors
    assert steps.dtype["layer"].kind == "U" and steps.dtype["live_bytes"] == numpy.int64
    assert steps["live_bytes"].max() + 0 <= tight.peak_bytes <= tight.budget_bytes
    assert (steps["live_bytes"] + steps["free_bytes"] == tight.budget_bytes).all()
    assert (steps["end_us"] >= steps["begin_us"]).all()
    assert steps["end_us"].max() <= 1000 * tight.predicted_ms + 1e-6
    forward = steps[(steps["phase"] == "forward") & ~steps["recompute"]]
    assert "fc" in set(forward["layer"])
    weight = tensors[tensors["name"] == "fc.weight"][0]
    assert weight["role"] == "param" and weight["bytes"] == 4 * 10 * 64
    moved = (tensors["offloads"] > 0) | (tensors["reruns"] > 0)
    assert moved.any()  # 14 MiB are too few to keep all tensors
    assert all(tensors["fate"][moved] != "")


def test_a_plan_is_shown_as_text_and_in_a_notebook(tight):
    assert "resnet8" in repr(tight)
    assert str(tight) == tight.summary() != ""
    frame = tight._repr_html_()
    assert frame.startswith("<iframe") and frame.count('"') == 4
    assert tight.report().lower().startswith("<!doctype html>")
    assert json.loads(tight.to_json())["peak_bytes"] == tight.peak_bytes
    assert json.loads(tight.trace())


def test_a_budget_error_has_the_smallest_budget():
    net = neap.nets.resnet_cifar(depth=8, batch=64)
    for policy in (None, "tensor-cache"):
        with pytest.raises(neap.BudgetError, match="smallest feasible budget") as refused:
            neap.plan(net, budget=100_000, device="h200", policy=policy)
        smallest = refused.value.minimum_bytes
        assert neap.plan(net, budget=smallest, device="h200", policy=policy).peak_bytes <= smallest
        with pytest.raises(neap.BudgetError):
            neap.plan(net, budget=smallest - 1, device="h200", policy=policy)


def test_a_plan_is_for_a_card_or_a_file(tmp_path):
    net = neap.nets.lenet(batch=64)
    card = neap.plan(net, device="rtx4090")
    assert card.device == "NVIDIA GeForce RTX 4090"
    description = subprocess.run([COMMAND, "devices", "--describe", "rtx4090"], capture_output=True, text=True, check=True).stdout
    path = tmp_path / "card.json"
    path.write_text(description)
    for device in (str(path), path):
        assert neap.plan(net, device=device).to_json() == card.to_json()
    path.write_text(description.replace('"memory_bytes"', '"memory"'))
    with pytest.raises(neap.Error, match="card.json: device: has no field \"memory_bytes\""):
        neap.plan(net, device=path)
    with pytest.raises(neap.Error, match="only a description"):
        neap.Session(net, device="rtx4090")


@pytest.mark.parametrize("arguments, text", [
    ({"device": "h2000"}, "unknown device 'h2000'"),
    ({"device": "h200", "policy": "best"}, "best"),
    ({"device": "h200", "budget": "12 apples"}, "budget: "),
    ({"device": "h200", "budget": 0}, "budget: "),
    ({"device": "h200", "sub_batches": 0}, "sub"),
])
def test_wrong_arguments_are_refused(small_net, arguments, text):
    with pytest.raises(neap.Error, match=text):
        neap.plan(small_net, **arguments)


def test_batch_norms_have_the_statistics_of_parts_by_choice():
    net = neap.nets.resnet_cifar(depth=8, batch=9)
    with pytest.raises(neap.Error, match="batch-norm-in-parts"):
        neap.plan(net, device="h200", sub_batches=3)
    plan = neap.plan(net, device="h200", sub_batches=4, batch_norm_in_parts=True)  # 3 images in each: 3 parts suffice
    assert (plan.sub_batches, plan.batch_norm_in_parts) == (3, True)
    assert not neap.plan(net, device="h200").batch_norm_in_parts
    images, labels = numpy.zeros((9, 3, 32, 32), numpy.float32), numpy.arange(9)
    with neap.Session(net, "cpu", sub_batches=2, batch_norm_in_parts=True) as session:  # 5 + 4
        assert session.plan.batch_norm_in_parts
        assert numpy.isfinite(session.step(images, labels))
    whole = neap.peak_batch(net, "16MiB", device="h200")["batch"][0]
    assert neap.peak_batch(net, "16MiB", device="h200", batch_norm_in_parts=True)["batch"][0] > whole


def test_the_largest_batches_are_those_of_the_command():
    table = neap.peak_batch(neap.nets.lenet(), ["8MiB", 24 << 20], device="h200", policy="superneurons", database="none")
    assert list(table["budget_bytes"]) == [8 << 20, 24 << 20]
    for row in table:
        run = subprocess.run([COMMAND, "peak-batch", "lenet", "--budget", str(row["budget_bytes"]), "--policy", "superneurons",
                              "--device", "h200", "--database", "none", "--json"], capture_output=True, text=True, check=True)
        assert json.loads(run.stdout)["results"][0]["batch"] == row["batch"]
        assert row["peak_bytes"] <= row["budget_bytes"]
        assert row["images_per_second"] > 0


@pytest.mark.parametrize("arguments, flags", [
    ({"momentum": 0}, ["--momentum", "0"]),
    ({"optimizer": "adamw", "ema": 0.99}, ["--optimizer", "adamw", "--ema", "0.99"]),
    ({"clip_norm": 1}, ["--clip-norm", "1"]),
])
def test_the_optimizer_is_planned_as_by_the_command(arguments, flags):
    plan = neap.plan(neap.nets.lenet(batch=64), device="h200", database="none", **arguments)
    run = subprocess.run([COMMAND, "plan", "lenet", "--batch", "64", "--device", "h200", "--database", "none", "--json", *flags],
                         capture_output=True, text=True, check=True)
    assert plan.peak_bytes == json.loads(run.stdout)["peak_bytes"]
    momentum = neap.plan(neap.nets.lenet(batch=64), device="h200", database="none")
    assert (plan.peak_bytes, len(plan.steps)) != (momentum.peak_bytes, len(momentum.steps))
    largest = neap.peak_batch(neap.nets.lenet(), "16MiB", device="h200", database="none", **arguments)["batch"][0]
    run = subprocess.run([COMMAND, "peak-batch", "lenet", "--budget", "16MiB", "--device", "h200", "--database", "none", "--json",
                          *flags], capture_output=True, text=True, check=True)
    assert largest == json.loads(run.stdout)["results"][0]["batch"]
    assert len(neap.curve(neap.nets.lenet(batch=64), "h200", ["liveness"], **arguments)) > 1


def test_arguments_of_another_optimizer_are_refused(small_net):
    with pytest.raises(neap.Error, match="those of optimizer 'sgd'"):
        neap.plan(small_net, device="h200", optimizer="adamw", momentum=0.9)


def test_a_network_of_ones_own_has_a_largest_batch(small_net):
    table = neap.peak_batch(small_net, "1MiB", device="h200")
    batch = int(table["batch"][0])
    assert neap.plan(small_net.with_options(batch=batch), budget="1MiB", device="h200").batch == batch


def test_the_curve_rises_with_the_budget():
    table = neap.curve(neap.nets.lenet(batch=64), "h200", ["liveness", "auto"])
    assert set(table["policy"]) == {"liveness", "auto"}
    auto = table[table["policy"] == "auto"]
    assert len(auto) > 1
    assert (numpy.diff(auto["budget_bytes"]) > 0).all()
    assert (numpy.diff(auto["images_per_second"]) >= 0).all()
