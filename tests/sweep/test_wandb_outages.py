"""W&B that is away, that refuses, or that is misconfigured: the run is made, and `study wandb push` sends it later."""

import json
import os
import signal
import time

import pytest
import wandb
from loopback import ENTITY, KEY
from processes import parents, until
from sweep_trials import PATIENCE, finish
from tiny_sweep import GRAPH as SMALL
from tiny_sweep import MAP

from study import files
from study.__main__ import main
from study.config import experiment_from, experiment_id
from study.pruning.run import run as prune
from study.store import records
from study.tracking import tracker
from study.training.run import run as train
from study.training.task import Task

pytestmark = pytest.mark.slow

HOSTS = ("WANDB_BASE_URL", "WANDB_API_KEY", "WANDB_ENTITY")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user who has never called W&B."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith("WANDB_") or name == "NETRC"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "0")
    monkeypatch.chdir(tmp_path)  # `wandb` leaves a folder where it is called
    wandb.teardown()
    yield tmp_path
    tracker.forget()  # in bounded time, also where the server is dead


def kill_the_clients_process(_):
    for pid, (parent, command) in parents().items():
        if parent == os.getpid() and "wandb-core" in command:
            os.kill(pid, signal.SIGKILL)
    until(the_client_is_gone)


def the_client_is_gone():
    try:
        wandb.run.log({})
    except Exception:
        return True
    return False


def nothing(_):
    pass


AWAY = {
    "no key": ({"WANDB_MODE": "online"}, (), nothing, "no key"),
    "address": ({"WANDB_BASE_URL": "nowhere"}, (), nothing, "base_url"),
    "no network": ({"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": KEY}, (), nothing, "deadline exceeded"),
    "wrong key": ({"WANDB_API_KEY": KEY[::-1]}, HOSTS, nothing, "401"),
    "no such sweep": ({"WANDB_SWEEP_ID": "unknown"}, HOSTS, nothing, "sweep unknown not found"),
    "client killed": ({}, HOSTS, kill_the_clients_process, "onnection"),
}


def add(folder, step):
    """Add a point to the files of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    files.append(folder / "training.jsonl", json.dumps({"step": step, "value": float(step)}) + "\n")


def finished(experiment, folder):
    """Return the record of a finished run, which is made without training."""
    finish(experiment, folder)
    return records.read(folder / "record.json")


def test_whatever_wandb_refuses_the_run_goes_on_and_is_sent_whole_later(home, server, monkeypatch):
    monkeypatch.setattr(tracker, "START", 1.0)
    for seed, (case, (given, of_server, happens, expected)) in enumerate(AWAY.items()):
        with monkeypatch.context() as here:
            for name, value in {**{n: server.environment()[n] for n in of_server}, **given}.items():
                here.setenv(name, value)
            experiment, lines = experiment_from({"seed": seed}), []
            folder = home / "runs" / experiment_id(experiment)
            run = tracker.Tracker(experiment, folder, lines.append)
            add(folder, 1)
            run.send({})
            happens(run)
            add(folder, 2)
            run.send({})
            assert run.facts().url is None, case
            run.finish(finished(experiment, folder))
            (home / "runs" / tracker.AWAY).unlink(missing_ok=True)
            *addresses, line = lines
            assert all(address.startswith(f"W&B: {server.url}/") for address in addresses)
            assert expected in line, case
            assert line.endswith(f"; the run goes on without it, and {tracker.LATER}")
    server.runs.clear()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    assert main(["wandb", "push", str(home / "runs")]) == 0
    assert len(server.runs) == len(AWAY)
    for run in server.runs.values():
        assert [point["_step"] for point in run["points"]] == [1, 2, 3]
        assert (run["entity"], run["project"]) == (ENTITY, "attention-ablation")


def test_a_sweep_learns_once_that_wandb_is_away(home, server, monkeypatch):
    """The second run of the folder waits for nothing; later runs try again."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tracker, "START", 1.0)
    server.die()
    lines = []
    for seed in (1, 2):
        began = time.monotonic()
        tracker.Tracker(experiment_from({"seed": seed}), home / "runs" / str(seed), lines.append)
    assert time.monotonic() - began < 1
    assert all(line.endswith(tracker.LATER) for line in lines)
    assert lines[1].startswith("W&B: it failed 0 min ago")
    for at in (0, time.time() + 7200):  # long ago, and before the clock was set back
        os.utime(home / "runs" / tracker.AWAY, (at, at))
        tracker.Tracker(experiment_from({}), home / "runs" / "3", lines.append)
        assert "it failed" not in lines[-1]


OWN = {"project": ({"WANDB_PROJECT": "a/b"}, "Invalid project"), "sweep": ({"WANDB_SWEEP_ID": "unknown"}, "not found")}


@pytest.mark.parametrize("case", OWN)
def test_an_error_of_one_run_does_not_keep_the_others_from_wandb(case, home, server, monkeypatch):
    own, expected = OWN[case]
    for name, value in (server.environment() | own).items():
        monkeypatch.setenv(name, value)
    lines = []
    tracker.Tracker(experiment_from({}), home / "run", lines.append)
    assert expected in lines[0]
    assert not (home / tracker.AWAY).exists()


def test_a_map_that_cannot_be_drawn_costs_itself_alone(home, server, monkeypatch, capsys):
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    experiment, lines = experiment_from({}), []
    run = tracker.Tracker(experiment, home / "run", lines.append)
    for step in (1, 2):
        files.append(home / "run" / "history.jsonl", json.dumps({"step": step, "valid_loss": 1.0}) + "\n")
        files.append(home / "run" / "maps.jsonl", json.dumps({"step": step, **MAP, "weights": step}) + "\n")
    run.send({})
    run.finish(None)
    assert len(lines) == 1, "the address, and nothing is lost"
    assert "W&B: no attention/map at step 2: " in capsys.readouterr().err
    assert [point["valid/loss"] for point in server.runs[experiment_id(experiment)]["points"]] == [1.0, 1.0]
    assert not (home / tracker.AWAY).exists()


def test_a_run_that_was_deleted_on_the_server_loses_wandb_alone(home, server, monkeypatch):
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tracker, "START", 1.0)
    experiment, lines = experiment_from({}), []
    server.deleted.add(experiment_id(experiment))
    tracker.Tracker(experiment, home / "run", lines.append)
    assert "HTTP 409" in lines[0]
    assert not (home / tracker.AWAY).exists(), "W&B is there"


def test_a_server_that_dies_during_a_run_holds_its_end_up_for_a_bounded_time(home, server, monkeypatch):
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tracker, "END", 1.0)
    experiment, lines = experiment_from({}), []
    run = tracker.Tracker(experiment, home, lines.append)
    address = f"{server.url}/{ENTITY}/attention-ablation/runs/{experiment_id(experiment)}"
    assert lines == [f"W&B: {address}"], "the address comes first"
    server.die()
    add(home, 1)
    run.send({})
    began = time.monotonic()
    run.finish(None)
    assert time.monotonic() - began < PATIENCE
    assert lines[1].endswith(f"; the run goes on without it, and {tracker.LATER}")


PREEMPTED = {
    "by hand": ({}, False),
    "in a job": ({"SLURM_JOB_ID": "1"}, True),
    "by an agent in a job": ({"SLURM_JOB_ID": "1", "WANDB_SWEEP_ID": "s"}, False),
    "by an agent that is preempted": ({"WANDB_SWEEP_ID": "s", "STUDY_PREEMPTIBLE": "1"}, True),
}


@pytest.mark.parametrize("case", PREEMPTED)
def test_only_a_preempted_run_is_queued_again(case, monkeypatch):
    for name in (*tracker.CLUSTERS, "WANDB_SWEEP_ID", tracker.PREEMPTIBLE):
        monkeypatch.delenv(name, raising=False)
    given, expected = PREEMPTED[case]
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert tracker.preemptible() is expected


def test_a_run_that_was_killed_and_resumed_is_sent_whole(home, server, monkeypatch):
    """Online: what W&B has lost of the first call is in the files."""
    experiment, folder = experiment_from(SMALL), home / "run"
    with monkeypatch.context() as here:
        start = Task.on_train_batch_start

        def killed(task, batch, index):
            if task.global_step == 3:
                raise MemoryError
            start(task, batch, index)

        here.setattr(Task, "on_train_batch_start", killed)
        with pytest.raises(MemoryError):
            train(experiment, folder, lambda line: None)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    train(experiment, folder, lambda line: None)
    (run,) = server.runs.values()
    points = run["points"]
    assert [point["_step"] for point in points] == [1, 2, 4, 5]
    assert all(point["train/loss"] > 0 for point in points[:3])
    assert all(point["attention/cross/entropy"] > 0 for point in points[1:3])
    assert (run["summary"]["status"], run["state"]) == ("finished", "finished")


def test_wandb_has_a_run_from_its_first_step_on(home, server, monkeypatch):
    """A point is sent at the first step; a run that is stopped before its first validation ends with what it logged."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    experiment, start = experiment_from(SMALL, {"training.validate_every": 4}), Task.on_train_batch_start

    def stopped(task, batch, index):
        if task.global_step == 2:
            until(lambda: any(run.get("points") for run in server.runs.values()), 60)
            files.append(home / "run" / "training.jsonl", json.dumps({"step": 2, "train/loss": 1.5}) + "\n")
            raise SystemExit(143)
        start(task, batch, index)

    monkeypatch.setattr(Task, "on_train_batch_start", stopped)
    with pytest.raises(SystemExit):
        train(experiment, home / "run", lambda line: None)
    (run,) = server.runs.values()
    assert [point["_step"] for point in run["points"]] == [1, 2]
    assert run["points"][0]["train/loss"] > 0
    assert run["exit"] == 143


def test_a_step_that_is_trained_and_validated_is_one_point_with_both(home, server, monkeypatch):
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    train(experiment_from(SMALL, {"training.validate_every": 1}), home / "run", lambda line: None)
    (run,) = server.runs.values()
    assert [point["_step"] for point in run["points"]] == [1, 2, 3, 4, 5]
    assert {"train/lr", "train/loss", "valid/loss", "attention/map"} <= run["points"][0].keys()


def test_a_pruned_run_is_of_the_sweep_and_the_run_that_it_prunes_is_not(home, server, monkeypatch):
    """Both are made in one process, and the client keeps the environment of its first use."""
    server.sweeps["known"] = {"id": "known", "name": "known", "state": "RUNNING"}
    of_the_sweep = {"WANDB_SWEEP_ID": "known", "WANDB_RUN_ID": "given", "WANDB_PROJECT": "p", "WANDB_RUN_GROUP": "g"}
    for name, value in (server.environment() | of_the_sweep | {"WANDB_TAGS": "t"}).items():
        monkeypatch.setenv(name, value)
    pruned = experiment_from(SMALL, {"pruning.question": "best_head"})
    base = experiment_id(pruned.model_copy(update={"pruning": None}))
    assert prune(pruned, home / experiment_id(pruned), lambda line: None).status == "finished"
    assert server.runs.keys() == {base, "given"}
    names = ("sweep", "groupName", "jobType", "project", "tags")
    assert [server.runs[base][name] for name in names] == [None, None, "train", "p", None]
    assert [server.runs["given"][name] for name in names] == ["known", "g", "prune", "p", ["t"]]
