"""neap.profile(), and sessions and plans by measured times."""
import json
import os
import signal
import subprocess

import numpy
import pytest

import neap
from conftest import COMMAND
from doubling import Double

QUICK = {"device": "cpu", "divisions": "undivided", "samples": 1}


def command(*arguments):
    run = subprocess.run([COMMAND, *arguments, "--json"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def test_a_profile_is_that_of_the_command(tmp_path):
    net = neap.nets.lenet(batch=2)
    profile = neap.profile(net, database=tmp_path / "python.db", **QUICK)
    wanted = command("profile", "lenet", "--batch", "2", "--device", "cpu", "--divisions", "undivided", "--samples", "1",
                     "--database", str(tmp_path / "command.db"))
    for name in ("steps", "steps_done", "measured", "known", "failed", "left_out", "device", "versions"):
        assert getattr(profile, name) == wanted[name], name
    assert profile.measured > 0 and profile.seconds > 0
    assert profile.wide_spreads is None  # of one sample each
    assert profile.database == str(tmp_path / "python.db")
    assert f"{profile.measured} engines measured, 0 known, 0 failed" in repr(profile)
    again = neap.profile(net, database=tmp_path / "python.db", **QUICK)
    assert (again.measured, again.known) == (0, profile.measured)
    both = neap.profile(net, database=tmp_path / "python.db", **{**QUICK, "samples": 2}, again=True)
    assert (both.measured, both.known) == (profile.measured, 0)
    assert 0 <= both.wide_spreads <= both.measured


@pytest.mark.parametrize("devices", [["cpu", "cpu"], "cpu,cpu"])
def test_several_devices_share_the_work(tmp_path, devices):
    net = neap.nets.lenet(batch=2)
    alone = neap.profile(net, database=tmp_path / "alone.db", **QUICK)
    shared = neap.profile(net, database=tmp_path / "shared.db", **{**QUICK, "device": devices})
    assert (shared.steps_done, shared.measured) == (alone.steps_done, alone.measured)


def test_plans_and_sessions_are_made_by_what_was_measured(tmp_path, small_net, batches):
    database = tmp_path / "profile.db"
    profile = neap.profile(small_net, "cpu", database=database, divisions="all", samples=1)
    assert profile.steps_done == profile.steps
    plan = neap.plan(small_net, device="cpu", database=database)
    assert plan.measured_runs == plan.runs > 0
    assert neap.plan(small_net, device="cpu", database="none").measured_runs == 0
    with neap.Session(small_net, "cpu", database=str(database), measure=0) as session:
        assert session.plan.measured_runs == session.plan.runs
        assert session.plan.predicted_ms == plan.predicted_ms
        losses = [session.step(x, y) for x, y in batches]
    with neap.Session(small_net, "cpu", database="none") as session:
        assert session.plan.measured_runs == 0
        assert [session.step(x, y) for x, y in batches] == losses  # strict plans, on the CPU


def test_tables_are_made_by_the_times_that_the_command_uses(tmp_path):
    database = tmp_path / "profile.db"
    net = neap.nets.lenet(batch=16)
    neap.profile(net, "cpu", database=database, divisions="power-of-two", samples=1)
    flags = ["--device", "cpu", "--database", str(database), "--divisions", "power-of-two", "--workspace-rule", "gain"]
    arguments = {"device": "cpu", "database": database, "divisions": "power-of-two", "workspace_rule": "gain"}
    plan = neap.plan(net, **arguments)
    wanted = command("plan", "lenet", "--batch", "16", *flags)
    assert (plan.runs, plan.measured_runs) == (wanted["runs"], wanted["measured_runs"])
    assert plan.predicted_ms == pytest.approx(wanted["predicted_ms"])
    largest = neap.peak_batch(net, "8MiB", **arguments)
    found = command("peak-batch", "lenet", "--budget", "8MiB", *flags)["results"][0]
    assert largest["batch"][0] == found["batch"]
    curve = neap.curve(net, policies=["liveness"], **arguments)
    assert curve["predicted_ms"][-1] == pytest.approx(neap.plan(net, policy="liveness", **arguments).predicted_ms)
    unmeasured = neap.curve(net, "cpu", ["liveness"], database="none")
    assert curve["predicted_ms"][-1] != unmeasured["predicted_ms"][-1]


def test_a_network_from_a_file_is_measured(tmp_path, small_net):
    with neap.Session(small_net, "cpu") as session:
        session.save_onnx(tmp_path / "small.onnx")
    net = neap.from_onnx(tmp_path / "small.onnx", batch=4)
    profile = neap.profile(net, database=tmp_path / "profile.db", **QUICK)
    assert profile.measured > 0 and profile.failed == 0
    plan = neap.plan(net, device="cpu", database=tmp_path / "profile.db")
    assert plan.measured_runs == plan.runs


def test_kernels_in_python_are_measured(tmp_path):
    net = neap.Graph("doubled", batch=4)
    x = net.add("double", Double(), net.input((1, 8, 8)))
    net.loss(net.add("fc", neap.FullyConnected(10), x))
    profile = neap.profile(net, database=tmp_path / "profile.db", **QUICK)
    assert profile.failed == 0
    plan = neap.plan(net, device="cpu", database=tmp_path / "profile.db")
    assert plan.measured_runs == plan.runs


def test_an_interrupted_profile_continues_where_it_stopped(tmp_path, small_net):
    seen = []

    def interrupt(done, total):
        seen.append((done, total))
        if done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        neap.profile(small_net, database=tmp_path / "profile.db", **QUICK, progress=interrupt)
    assert [done for done, _ in seen] == [0, 1, 2, 3]
    calls = []
    rest = neap.profile(small_net, database=tmp_path / "profile.db", **QUICK, progress=lambda *call: calls.append(call))
    assert rest.known > 0 and rest.steps_done == rest.steps
    assert calls == [(done, rest.steps) for done in range(rest.steps + 1)]


def test_what_progress_raises_ends_the_profile(tmp_path, small_net):
    def fail(done, total):
        raise ValueError(f"enough of {total}")

    with pytest.raises(ValueError, match="enough of"):
        neap.profile(small_net, database=tmp_path / "profile.db", **QUICK, progress=fail)


def test_a_session_on_the_cpu_measures_nothing(tmp_path, small_net, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with neap.Session(small_net, "cpu", measure=600) as session:
        assert session.plan.measured_runs == 0
    assert not (tmp_path / "neap" / "profile.db").exists()


@pytest.mark.parametrize("arguments, text", [
    ({"divisions": "halves"}, "divisions: .*halves"),
    ({"workspace_rule": "worst"}, "workspace_rule: .*left-over, gain, best"),
    ({"database": "missing.db"}, "missing.db"),
])
def test_wrong_arguments_of_times_are_refused(small_net, arguments, text):
    for make in (lambda: neap.plan(small_net, device="cpu", **arguments),
                 lambda: neap.Session(small_net, "cpu", **arguments),
                 lambda: neap.peak_batch(small_net, "1MiB", "cpu", **arguments),
                 lambda: neap.curve(small_net, "cpu", **arguments)):
        with pytest.raises(neap.Error, match=text):
            make()


@pytest.mark.parametrize("arguments, text", [
    ({"measure": -1}, "measure: "),
    ({"measure": numpy.nan}, "measure: "),
    ({"peer": "cuda:1"}, "peer and peer_budget"),
    ({"peer_budget": "1MiB"}, "peer and peer_budget"),
    ({"peer": "cuda:1", "peer_budget": "1MiB"}, "two different GPUs"),
    ({"peer": "cuda:1", "peer_budget": 0}, "peer_budget: "),
])
def test_wrong_arguments_of_a_session_are_refused(small_net, arguments, text):
    with pytest.raises(neap.Error, match=text):
        neap.Session(small_net, "cpu", **arguments)


@pytest.mark.parametrize("arguments, text", [
    ({"device": []}, "device: the list is empty"),
    ({"device": "h200"}, "only a description"),
    ({"device": ["cuda:0", "cuda:0"]}, "names cuda:0 twice"),
    ({"samples": 0}, "samples: "),
    ({"engines": 0}, "engines: "),
    ({"sub_batches": 0}, "sub_batches: "),
    ({"divisions": "halves"}, "divisions: .*halves"),
    ({"workspace_limit": "much"}, "workspace_limit: "),
])
def test_wrong_arguments_of_a_profile_are_refused(tmp_path, small_net, arguments, text):
    with pytest.raises(neap.Error, match=text):
        neap.profile(small_net, database=tmp_path / "profile.db", **{**QUICK, **arguments})
