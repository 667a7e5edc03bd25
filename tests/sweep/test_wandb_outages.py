"""W&B that is away, that refuses, or that is misconfigured: the run is made, and `wandb sync` sends all of it later."""

import os
import signal
import time
from pathlib import Path

import pytest
import wandb
from loopback import ENTITY, KEY
from sweep_trials import PATIENCE
from tiny_sweep import GRAPH as SMALL

from study.config import account, experiment_from, experiment_id
from study.pruning.run import run as prune
from study.tracking import run as tracking
from study.training.run import run as train
from study.training.task import Task

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
    tracking.forget()  # in bounded time, also where the server is dead


def kill_the_clients_process(_):
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, parent = path.read_text().split()[1:4:2]
        except OSError:
            continue
        if name == "(wandb-core)" and int(parent) == os.getpid():
            os.kill(int(path.parent.name), signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            wandb.run.log({})
        except Exception:
            return
        time.sleep(0.05)
    pytest.fail("it is not gone")


def nothing(_):
    pass


AWAY = {
    "unknown mode": ({"WANDB_MODE": "nonsense"}, (), nothing, "mode: Input should be"),
    "no key": ({"WANDB_MODE": "online"}, (), nothing, "no key"),
    "short key": ({"WANDB_API_KEY": "short"}, (), nothing, "must have 40"),
    "project": ({"WANDB_MODE": "offline", "WANDB_PROJECT": "a/b"}, (), nothing, "Invalid project name 'a/b'"),
    "address": ({"WANDB_BASE_URL": "nowhere"}, (), nothing, "base_url"),
    "no network": ({"WANDB_BASE_URL": "http://127.0.0.1:9", "WANDB_API_KEY": KEY}, (), nothing, "deadline exceeded"),
    "wrong key": ({"WANDB_API_KEY": KEY[::-1]}, HOSTS, nothing, "401"),
    "no such sweep": ({"WANDB_SWEEP_ID": "unknown"}, HOSTS, nothing, "sweep unknown not found"),
    "client killed": ({}, HOSTS, kill_the_clients_process, "onnection"),
}


def test_whatever_wandb_refuses_the_run_goes_on_and_is_sent_whole_later(home, server, client, monkeypatch):
    monkeypatch.setattr(tracking, "START", 1.0)
    for seed, (case, (told, of_server, happens, expected)) in enumerate(AWAY.items()):
        with monkeypatch.context() as here:
            for name, value in {**{n: server.environment()[n] for n in of_server}, **told}.items():
                here.setenv(name, value)
            experiment, lines = experiment_from({"seed": seed}), []
            run = tracking.Run(experiment, home / "runs" / case, lines.append)
            run.log({"value": 1.0}, step=1)
            happens(run)
            run.log({"value": 2.0}, step=2)
            assert run.facts().url is None, case
            run.finish(None)
            *addresses, line = lines
            assert all(address.startswith(f"W&B: {server.url}/") for address in addresses)
            assert expected in line, case
            assert line.endswith("; the run goes on offline, and `wandb sync` sends it later")
    server.runs.clear()
    folders = list((home / "runs").glob("*/wandb/*run-*"))
    assert len(folders) == len(AWAY), "one folder a run, without what the failed start left"
    client(server, "sync", *folders)
    assert len(server.runs) == len(AWAY)
    for run in server.runs.values():
        assert [(point["_step"], point["value"]) for point in run["points"]] == [(1, 1), (2, 2)]
        assert (run["entity"], run["project"]) == (ENTITY, "attention-ablation")


def test_a_run_that_was_deleted_on_the_server_is_made_again_offline(home, server, monkeypatch):
    """The server never takes its name again (409); the client retries that until its time to start is over."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tracking, "START", 1.0)
    experiment, lines = experiment_from({}), []
    server.deleted.add(experiment_id(experiment))
    run = tracking.Run(experiment, home, lines.append)
    run.finish(None)
    (line,) = lines
    assert "HTTP 409" in line
    assert line.endswith("the run goes on offline, and `study wandb push` sends it later under another id")


def test_a_server_that_dies_during_a_run_holds_its_end_up_for_a_bounded_time(home, server, monkeypatch):
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tracking, "END", 1.0)
    experiment, lines = experiment_from({}), []
    run = tracking.Run(experiment, home, lines.append)
    address = f"{server.url}/{ENTITY}/attention-ablation/runs/{experiment_id(experiment)}"
    assert lines == [f"W&B: {address}"], "the address comes first"
    server.die()
    run.log({"value": 1.0}, step=1)
    began = time.monotonic()
    run.finish(None)
    assert time.monotonic() - began < PATIENCE
    assert lines[1].startswith("W&B: not all was sent within 1 s; `wandb sync ")


def test_a_key_that_wandb_login_stored_is_found_without_asking_anybody(home, server, client, monkeypatch):
    """The client's own command, for a host of one's own; it stores the key in a place of its own choice."""
    client(None, "login", "--host", server.url, "--relogin", KEY)
    calls = len(server.calls)
    assert tracking.mode() == "online"
    monkeypatch.setenv("WANDB_BASE_URL", "https://elsewhere.example")
    tracking.forget()
    assert tracking.mode() == "offline"
    assert len(server.calls) == calls, "nobody is asked"


def test_the_address_of_the_project_is_known_before_the_first_run(home, server, monkeypatch):
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    assert account.project_address() is None, "runs of a sweep are offline unless they are asked to be online"
    monkeypatch.setenv("WANDB_MODE", "online")
    assert account.project_address() == f"{server.url}/{ENTITY}/attention-ablation"
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    tracking.forget()
    assert account.project_address() is None


def test_without_a_key_runs_are_offline(home, monkeypatch):
    assert not account.signed_in()
    assert tracking.mode() == "offline"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert tracking.mode() == "disabled"


def named(point):
    """Names of what was logged; W&B adds its own."""
    return {name for name in point if not name.startswith("_")}


def test_a_run_that_was_killed_and_resumed_is_sent_whole_and_a_replay_says_the_same(home, server, client, monkeypatch):
    """Killed before W&B had written more than a head of seven bytes, at which `wandb sync` stops, with status 0."""
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
    (torn,) = folder.glob("wandb/offline-run-*/*.wandb")
    torn.write_bytes(torn.read_bytes()[:7])
    # The client names folders by the second, and both calls may fall into one.
    torn.parent.rename(torn.parent.with_name(f"offline-run-20200101_000000-{torn.parent.name.split('-', 3)[3]}"))
    record = train(experiment, folder, lambda line: None)
    folders = list(folder.glob("wandb/*run-*"))
    client(server, "sync", *folders)
    (run,) = server.runs.values()
    points = run["points"]
    assert [point["_step"] for point in points] == [1, 2, 4, 5]
    assert all(point["train/loss"] > 0 for point in points[:3])
    assert all(point["attention/cross/entropy"] > 0 for point in points[1:3])
    assert run["summary"]["status"] == "finished"

    server.runs.clear()
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    tracking.replay(experiment, record, folder)
    (again,) = server.runs.values()
    assert [named(point) for point in again["points"]] == [named(point) for point in points]
    assert named(again["summary"]) == named(run["summary"])


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
