"""The W&B engine with the real client, real agents and real signals, against a stand-in for W&B's server."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import wandb
from agents_launch import CLIENT
from loopback import ENTITY, KEY
from processes import parents
from processes import until as happens
from sweep_trials import PATIENCE, journal, quick

from study.__main__ import main
from study.config import recorded
from study.engine import local, places, resources, wandb_agents
from study.store import records
from study.sweep.spec import load
from study.tracking import tracker, view

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture
def world(server, tmp_path):
    """The environment of processes that take the stand-in for W&B."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    told = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
        "STUDY_RUNS": str(tmp_path / "runs"),
        "WANDB_DIR": str(tmp_path),
        "WANDB_HTTP_TIMEOUT": str(PATIENCE),
    }
    return inherited | server.environment() | told


@pytest.fixture
def file(tmp_path):
    def write(seeds, more=""):
        path = tmp_path / "tiny.yaml"
        path.write_text(
            "name: tiny\nproject: attention-ablation\nmethod: grid\nmetric: {name: test/exact}\n"
            f'command: ["${{env}}", "${{interpreter}}", "{HERE}/agent_trial.py", "train",'
            ' "--overrides-json", "${args_json}"]\n'
            f"parameters:\n  seed: {{values: {seeds}}}\n  trainer.device: {{value: cpu}}\n{more}"
        )
        return path

    return write


@pytest.fixture
def launch(world, tmp_path):
    """Starts launchers; what seed n does at first is `_n`. What they print is in the file `log`."""
    started = []

    def start(path, slots, **fates):
        told = world | {"FATES": json.dumps({name[1:]: fate for name, fate in fates.items()})}
        command = [sys.executable, HERE / "agents_launch.py", path, world["STUDY_RUNS"], str(slots)]
        log = tmp_path / f"launcher-{len(started)}.log"
        with log.open("w") as file:
            started.append(subprocess.Popen(command, env=told, stdout=file, stderr=subprocess.STDOUT))
        started[-1].log = log
        return started[-1]

    yield start
    for process in started:  # its agents and trials go with it
        process.kill()
        process.wait()


def until(happened, launcher):
    """Wait for something that the launcher's processes do."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert launcher.poll() is None, launcher.log.read_text()
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


def ended(launcher):
    """Wait for a launcher, and return what it has printed."""
    launcher.wait(PATIENCE)
    return launcher.log.read_text()


def waiting(launcher, folder):
    """Return the process of the trial that waits there to be stopped, and of its agent."""
    until((folder / "waiting").exists, launcher)
    return tuple(map(int, (folder / "waiting").read_text().split()))


def attempts(server, cell):
    """Return the server's runs of one experiment, in the order of their beginning.

    A run that an agent was told to start has no config yet.
    """
    begun = [run for run in list(server.runs.values()) if "experiment_id" in run.get("config", {})]
    return [run for run in begun if run["config"]["experiment_id"]["value"] == cell.id]


def gone(*pids):
    """Wait until processes have ended."""
    happens(lambda: not set(pids) & parents().keys(), 60)


def test_a_failed_trial_a_killed_agent_and_an_interrupt_leave_no_hole(file, server, launch, tmp_path):
    """Seed 1 fails under its agent, the agent of 2 is killed, 3 meets the interrupt.

    The same command again continues the sweep, and makes what is missing.
    """
    out, path = tmp_path / "runs", file([1, 2, 3])
    spec = load(path)
    folders = [out / cell.id for cell in spec.cells]
    launcher = launch(path, 2, _1="fail", _2="wait", _3="wait")
    _, agent = waiting(launcher, folders[1])
    process, other = waiting(launcher, folders[2])
    os.kill(agent, signal.SIGKILL)
    launcher.send_signal(signal.SIGTERM)
    printed = ended(launcher)
    assert launcher.returncode == 143, printed
    assert "the same command again continues this sweep" in printed
    gone(process, agent, other)
    assert [records.state(folder) for folder in folders] == ["started"] * 3

    launcher = launch(path, 1)
    again = ended(launcher)
    assert launcher.returncode == 0, again
    address = f"{server.url}/{ENTITY}/attention-ablation/sweeps/sweep0"
    assert address in printed
    assert f"continuing the W&B sweep {ENTITY}/attention-ablation/sweep0" in again
    assert len(server.sweeps) == 1
    assert [records.state(folder) for folder in folders] == ["finished"] * 3
    lines = [f"{seed} {how}" for seed in (1, 2, 3) for how in ("new", "resumed")]
    assert journal(out) == dict.fromkeys(lines, 1)
    where = {tuple(run[name] for name in ("sweep", "groupName", "jobType", "project")) for run in server.runs.values()}
    assert where == {("sweep0", "tiny: base", "train", "attention-ablation")}
    assert all(attempts(server, cell)[-1]["state"] == "finished" for cell in spec.cells)


def test_a_run_that_is_stopped_in_wandb_is_not_run_again_unless_a_user_asks(file, server, launch, tmp_path):
    """The button *Stop run*, and hyperband, are a command to the agent, which ends the run by SIGTERM."""
    out, path = tmp_path / "runs", file([1, 2])
    cells = (spec := load(path)).cells
    launcher = launch(path, 1, _2="wait")
    processes = waiting(launcher, out / cells[1].id)
    server.stops.append(next(name for name, run in server.runs.items() if run in attempts(server, cells[1])))
    printed = ended(launcher)
    gone(processes[0])
    assert launcher.returncode == 1, printed
    assert "1 runs were stopped in W&B; the same command again continues them" in printed
    (stopped,) = attempts(server, cells[1])
    assert (stopped["summary"]["status"], stopped["exit"], stopped["attempts"]) == ("stopped", 143, 1)
    assert records.state(out / cells[1].id) == "started", "no failure"
    job = local.job_of(spec, cells, out, slots=1, trial=quick)  # the server is not asked
    assert wandb_agents.run(spec, job, resources.here()) == 0
    assert journal(out) == dict.fromkeys(["1 new", "2 new", cells[1].id], 1)
    assert records.state(out / cells[1].id) == "finished"


def test_a_killed_launcher_takes_everything_along(file, server, launch, tmp_path):
    out, path = tmp_path / "runs", file([1, 2])
    launcher = launch(path, 1, _1="wait")
    processes = waiting(launcher, out / load(path).cells[0].id)
    launcher.kill()
    gone(*processes)


def test_plain_wandb_sweep_and_agent(file, server, client, world):
    """The client's own commands, two cells, one of which the configuration rejects."""
    path = file([1], "  model.attention.heads: {values: [1, 5]}\n  model.attention.maps: {value: separate}\n")
    world |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    client(server, "sweep", path)
    command = [sys.executable, "-c", CLIENT, "agent", f"{ENTITY}/attention-ablation/sweep0"]
    ran = subprocess.run(command, env=world, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    done, rejected = server.runs.values()
    assert {run["project"] for run in server.runs.values()} == {"attention-ablation"}, "by the file, not by the folder"
    assert (done["state"], done["summary"]["status"]) == ("finished", "finished")
    assert done["config"]["experiment_id"]["value"] == load(path).runnable[0].id
    assert (rejected["state"], rejected["exit"], rejected["tags"]) == ("finished", 0, ["inapplicable"])
    assert "heads: expected a divisor of the width 64" in rejected["summary"]["reason"]


ARMS = "  model.attention.score: {values: [dot, additive]}\n  model.attention.heads: {value: 1}\n"


@pytest.fixture
def by_agent(server, client, world, tmp_path):
    """Function that makes a sweep by the client's own commands, and returns its runs by identity as W&B has them."""
    world |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def call(path, without_file=False):
        client(server, "sweep", path)
        if without_file:
            path.unlink()
        command = [sys.executable, "-c", CLIENT, "agent", f"{ENTITY}/attention-ablation/sweep0"]
        ran = subprocess.run(command, env=world, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
        assert ran.returncode == 0, ran.stderr
        assert {run["state"] for run in server.runs.values()} == {"finished"}
        return {run["config"]["experiment_id"]["value"]: run for run in server.runs.values()}

    return call


def shown(run):
    """Return what names and groups a run in W&B."""
    names = ("sweep", "question", "facet", "arm", "baseline", "arm_id")
    config = {name: run["config"].get(name, {}).get("value") for name in names}
    return {
        "name": run["displayName"],
        "group": run["groupName"],
        "tags": run["tags"],
        "type": run["jobType"],
        **config,
    }


def declared(path):
    """Return the same of every run of a sweep file, as `study sweep FILE` names them."""
    spec, found = load(path), {}
    for cell in spec.runnable:
        label = view.label(cell.id, recorded(cell.experiment), places.places([spec])[cell.id])
        own = {name: label[name] for name in ("name", "group", "tags")} | {"type": label["job_type"]}
        names = ("sweep", "question", "facet", "arm", "baseline", "arm_id")
        found[cell.id] = own | {name: label["config"][name] for name in names}
    return found


def test_an_agents_runs_are_named_and_grouped_as_those_of_study_sweep(file, by_agent, monkeypatch, world):
    """Names tell the arm whose value is a default, too; WANDB_NAME is not given to all."""
    world["WANDB_NAME"] = "of-one-run"
    path = file([1], ARMS)
    path.write_text(f"# tags: smoke\ndescription: Which score?\n{path.read_text()}")
    expected = declared(path)
    assert [one["name"] for one in expected.values()] == ["dot · seed 1", "additive · seed 1"]
    assert {identity: shown(run) for identity, run in by_agent(path).items()} == expected


def test_an_agent_without_the_sweep_file_asks_the_server(file, by_agent):
    """The tags are a comment of the file, which the server does not keep."""
    path = file([1], ARMS)
    path.write_text(f"# tags: smoke\n{path.read_text()}")
    expected = {identity: own | {"tags": ["tiny"]} for identity, own in declared(path).items()}
    assert {identity: shown(run) for identity, run in by_agent(path, without_file=True).items()} == expected


def test_runs_that_the_server_draws_are_named_by_what_varies(file, by_agent):
    path = file([1], ARMS)
    path.write_text(path.read_text().replace("method: grid", "method: bayes"))
    runs = [shown(run) for run in by_agent(path).values()]
    assert [(run["name"], run["group"], run["tags"], run["arm"]) for run in runs] == [
        (f"{score} · seed 1", f"tiny: {score}", ["tiny"], score) for score in ("dot", "additive")
    ]


def test_a_server_that_does_not_name_the_sweep_costs_the_names_alone(file, by_agent, server, monkeypatch):
    monkeypatch.setattr(server, "on_GetSweep", lambda told: {"project": None}, raising=False)
    runs = by_agent(file([1], ARMS)).values()
    assert {run["displayName"] for run in runs} == {
        "grammar · recurrent · seed 1",
        "grammar · recurrent · additive width 64 · unscaled · seed 1",
    }


BAD = {
    "no key": ({"WANDB_API_KEY": None}, (), "W&B: expected an account, got mode offline."),
    "no network": ({"WANDB_BASE_URL": "http://127.0.0.1:9"}, (), "Check the network and the key."),
    "no such address": ({"WANDB_BASE_URL": "nowhere"}, (), "base_url"),
    "wrong key": ({"WANDB_API_KEY": KEY[::-1]}, (), "Check the network and the key."),
    "narrowed": ({}, ("--seeds", "1"), "--seeds: expected with --engine local or slurm or ray, got wandb"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_missing_is_said_in_one_line_and_at_once(case, file, server, tmp_path, monkeypatch, capsys):
    told, options, expected = BAD[case]
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name, value in {**server.environment(), "WANDB_MODE": None, **told}.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    wandb.teardown()  # the client keeps the environment of its first use
    began = time.monotonic()
    assert main(["sweep", str(file([1, 2])), "--runs", str(tmp_path / "runs"), "--engine", "wandb", *options]) == 2
    assert time.monotonic() - began < tracker.ANSWER + 60
    printed = capsys.readouterr().err
    assert expected in printed
    assert printed.count("\n") == 1
    assert not list((tmp_path / "runs").glob("*/record.json"))
