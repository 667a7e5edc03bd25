"""The W&B engine with the real client, real agents and real signals, against a stand-in for W&B's server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import wandb
from filelock import lock_descriptor
from loopback import ENTITY, KEY, Loopback

from study import records
from study.__main__ import main
from study.sweep import lease, local
from study.sweep.engines import wandb as agents
from study.sweep.spec import load

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE = 240
"""Seconds after which something that should have happened has not: a machine may be busy."""
CLIENT = """
from wandb.cli.cli import cli
from wandb.wandb_agent import Agent
Agent.POLL_INTERVAL = 0.2
cli()
"""
"""The `wandb` command, whose agent asks more often."""


@pytest.fixture
def server():
    with Loopback() as running:
        yield running
        running.shutdown()


@pytest.fixture
def world(server, tmp_path):
    """The environment of processes that take the stand-in for W&B."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    told = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE)]),
        "STUDY_RUNS": str(tmp_path / "runs"),
        "WANDB_DIR": str(tmp_path),
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
def launch(world):
    """Starts launchers; what seed n does at first is `_n`."""
    started = []

    def start(path, slots, **fates):
        told = world | {"FATES": json.dumps({name[1:]: fate for name, fate in fates.items()})}
        command = [sys.executable, HERE / "agents_launch.py", path, world["STUDY_RUNS"], str(slots)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(command, env=told, **options))
        return started[-1]

    yield start
    for process in started:  # its agents and trials go with it
        process.kill()


def waiting(launcher, out):
    """The process of the trial that waits to be stopped, and of its agent."""
    deadline = time.monotonic() + PATIENCE
    while not (out / "waiting").exists():
        assert launcher.poll() is None, launcher.stdout.read()
        assert time.monotonic() < deadline, "no trial waits"
        time.sleep(0.05)
    pids = (out / "waiting").read_text().split()
    (out / "waiting").unlink()
    return map(int, pids)


def free(folder):
    """Until nobody has the run's lease: whoever trained there is gone."""
    with (folder / lease.FILE).open("r+") as held:
        lock_descriptor(held.fileno())


def alive(pid):
    """Return True if the process runs. A zombie, which nobody has waited for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def journal(out):
    return Counter((out / "journal").read_text().splitlines())


def attempts(server, cell):
    """Return the server's runs of one experiment, in the order of their beginning."""
    return [run for run in server.runs.values() if run["config"]["experiment_id"]["value"] == cell.id]


def test_a_trial_that_fails_and_an_agent_that_is_killed_leave_no_hole(file, server, launch, tmp_path):
    """Seed 1 runs first and is replayed, 2 fails under its agent, the agent of 3 is killed: all end in one sweep."""
    out, path = tmp_path / "runs", file([1, 2, 3])
    spec = load(path)
    launcher = launch(path, 2, _2="fail", _3="wait")
    _, agent = waiting(launcher, out)
    os.kill(agent, signal.SIGKILL)
    printed = launcher.communicate(timeout=PATIENCE)[0]
    assert launcher.returncode == 0, printed
    assert [records.state(out / cell.id) for cell in spec.cells] == ["finished"] * 3
    assert journal(out) == dict.fromkeys(["1 new", "2 new", "2 resumed", "3 new", "3 resumed"], 1)
    assert f"{server.url}/{ENTITY}/attention-ablation/sweeps/sweep0" in printed
    assert "ended with status -9, so another one is started" in printed
    assert "1 of 3 runs are not there after the agents" in printed
    assert "tiny: 3 of 3 runs there, by identity" in printed
    assert len(server.sweeps) == 1
    where = {tuple(run[name] for name in ("sweep", "groupName", "jobType", "project")) for run in server.runs.values()}
    assert where == {("sweep0", "tiny: base", "train", "attention-ablation")}
    (first,), (failed, mended), (resumed,) = (attempts(server, cell) for cell in spec.cells)
    assert (first["state"], first["summary"]["status"]) == ("finished", "finished")
    assert (failed["state"], failed["exit"], mended["state"]) == ("failed", 1, "finished")
    assert (resumed["state"], resumed["attempts"]) == ("finished", 2)
    assert (first["tags"], first["displayName"]) == (["tiny"], "base · seed 1")


def test_a_server_that_dies_fails_no_run(file, server, launch, world, tmp_path):
    """Its agent dies in the outage, too. What it leaves runs offline, and `wandb sync` sends it to the sweep later."""
    out, path = tmp_path / "runs", file([1, 2])
    launcher = launch(path, 1, _2="wait")
    _, agent = waiting(launcher, out)
    server.die()
    os.kill(agent, signal.SIGKILL)
    (out / "impatient").touch()
    printed = launcher.communicate(timeout=PATIENCE)[0]
    assert launcher.returncode == 0, printed
    assert f"{server.url} does not answer, so what is missing runs offline" in printed
    cell = load(path).cells[1]
    assert [records.state(out / cell.id) for cell in load(path).cells] == ["finished"] * 2
    with Loopback() as back:
        back.sweeps |= server.sweeps
        folders = list((out / cell.id / "wandb").glob("offline-run-*"))
        sent = subprocess.run(
            [sys.executable, "-m", "wandb", "sync", *folders], env=world | back.environment(), capture_output=True
        )
        assert sent.returncode == 0, sent.stderr
        assert [(run["sweep"], run["project"]) for run in back.runs.values()] == [("sweep0", "attention-ablation")]
        back.shutdown()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_launcher_that_is_stopped_or_killed_takes_everything_along(number, file, server, launch, tmp_path):
    out, path = tmp_path / "runs", file([1, 2])
    cell = load(path).cells[1]
    launcher = launch(path, 1, _2="wait")
    trial, agent = waiting(launcher, out)
    launcher.send_signal(number)
    printed = launcher.communicate()[0]
    assert number == signal.SIGKILL or (
        launcher.returncode == local.INTERRUPTED and "the same command again continues this sweep" in printed
    )
    began = time.monotonic()
    free(out / cell.id)
    while any(alive(pid) for pid in (trial, agent)):
        assert time.monotonic() - began < PATIENCE, "a process is left"
        time.sleep(0.05)
    assert attempts(server, cell)[0]["state"] == "preempted"
    assert attempts(server, cell)[0]["exit"] == 128 + signal.SIGTERM
    if number == signal.SIGTERM:
        return  # the folder is the same, and so is what continues it
    launcher = launch(path, 1)
    printed = launcher.communicate(timeout=PATIENCE)[0]
    assert launcher.returncode == 0, printed
    assert f"continuing the sweep {server.url}/{ENTITY}/attention-ablation/sweeps/sweep0" in printed
    assert len(server.sweeps) == 1
    assert journal(out) == dict.fromkeys(["1 new", "2 new", "2 resumed"], 1)
    assert attempts(server, cell)[0]["state"] == "finished"


def test_an_interrupt_while_agents_are_ended_trains_nothing_more(file, tmp_path, monkeypatch, capsys):
    for name in ("_check_account", "_start", "_watch"):
        monkeypatch.setattr(agents, name, lambda *_: "")
    monkeypatch.setattr(agents, "_sweep", lambda *_: ("a/b/c", True))
    monkeypatch.setattr(local, "run_sweep", lambda *_, **__: 0)
    monkeypatch.setattr(agents, "_repair", lambda *_: pytest.fail("it went on"))
    monkeypatch.setattr(agents, "_end", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    assert agents.run_sweep(load(file([1, 2])), tmp_path / "runs", 1) == local.INTERRUPTED
    assert "interrupted: the same command again continues this sweep" in capsys.readouterr().out


def test_plain_wandb_sweep_and_agent(file, server, world, tmp_path):
    """The client's own commands, two cells, one of which the configuration rejects."""
    path = file([1], "  model.attention.heads: {values: [1, 5]}\n  model.attention.maps: {value: separate}\n")
    world |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    client = [sys.executable, "-c", CLIENT]
    options = {"env": world, "capture_output": True, "text": True, "timeout": PATIENCE}
    created = subprocess.run([*client, "sweep", path], **options)
    assert created.returncode == 0, created.stderr
    ran = subprocess.run([*client, "agent", f"{ENTITY}/attention-ablation/sweep0"], **options)
    assert ran.returncode == 0, ran.stderr
    done, rejected = server.runs.values()
    assert {run["project"] for run in server.runs.values()} == {"attention-ablation"}, "by the file, not by the folder"
    assert (done["state"], done["summary"]["status"]) == ("finished", "finished")
    assert done["config"]["experiment_id"]["value"] == load(path).runnable[0].id
    assert (rejected["state"], rejected["exit"], rejected["tags"]) == ("finished", 0, ["inapplicable"])
    assert "heads: expected a divisor of the width 64" in rejected["summary"]["reason"]


def test_offline_runs_are_sent_to_one_project_and_group(file, server, world, tmp_path):
    """Check the local engine, then `wandb sync`. The server has no sweep, so that naming one would be a 404."""
    path, out = file([1, 2]), tmp_path / "runs"
    spec = load(path)
    code = (
        "import sys, agent_trial\nfrom pathlib import Path\nfrom study.sweep import local, spec\n"
        "if __name__ == '__main__':\n    file, out = map(Path, sys.argv[1:])\n"
        "    sys.exit(local.run_sweep(spec.load(file), out, 2, trial=agent_trial.local, preload=('agent_trial',)))\n"
    )
    (tmp_path / "launch.py").write_text(code)
    options = {"env": world, "capture_output": True, "text": True, "timeout": PATIENCE}
    ran = subprocess.run([sys.executable, tmp_path / "launch.py", path, out], **options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert server.calls == []
    folders = list(out.glob("*/wandb/offline-run-*"))
    sent = subprocess.run([sys.executable, "-m", "wandb", "sync", *folders], **options)
    assert sent.returncode == 0, sent.stderr
    assert set(server.runs) == {cell.id for cell in spec.cells}
    for run in server.runs.values():
        assert (run["sweep"], run["groupName"], run["jobType"]) == (None, "tiny: base", "train")
        assert (run["entity"], run["project"]) == (ENTITY, "attention-ablation")
        assert run["tags"] == ["tiny"]
        assert not run["config"].keys() & {"out", "data.folder"}, "a path of this machine"
        assert run["summary"]["status"] == "finished"


BAD = {
    "no key": ({"WANDB_API_KEY": None}, (), "no key for http"),
    "no network": ({"WANDB_BASE_URL": "http://127.0.0.1:9"}, (), "does not answer"),
    "no such address": ({"WANDB_BASE_URL": "nowhere"}, (), "nowhere refuses"),
    "wrong key": ({"WANDB_API_KEY": KEY[::-1]}, (), "refuses"),
    "offline": ({"WANDB_MODE": "offline"}, (), "WANDB_MODE is offline"),
    "narrowed": ({}, ("--seeds", "1"), "--seeds: expected --engine local, got wandb"),
    "limited": ({}, ("--time-limit", "9s"), "--time-limit: expected --engine local"),
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
    assert main(["sweep", str(file([1, 2])), "--out", str(tmp_path / "runs"), "--engine", "wandb", *options]) == 2
    assert time.monotonic() - began < agents.ANSWER + 15
    printed = capsys.readouterr().err
    assert expected in printed
    assert printed.count("\n") == 1
    assert not list((tmp_path / "runs").iterdir() if (tmp_path / "runs").exists() else ())  # before the first run
