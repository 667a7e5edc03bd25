"""Engines beside the local one: a real SLURM of one node, and a real Ray of two."""

import os
import shutil
import signal
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
import ray_nodes
import slurm_node
import sweep_trials
from launching import Started, launch
from processes import descendants, parents, until
from sweep_trials import journal

from study.__main__ import main
from study.engine import local, ray, slurm
from study.errors import InputError
from study.store import records
from study.sweep.spec import load

pytestmark = pytest.mark.slow

BY_SLURM = ("--engine", "slurm", "--slurm")


@pytest.fixture
def importable(monkeypatch):
    """Let processes of engines import the stand-ins for training."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture
def use(monkeypatch, importable):
    """Let the command give its jobs a stand-in for training."""
    monkeypatch.setattr("study.commands.sweep._report", lambda *_: None)  # the stand-ins have no scores
    job_of = local.job_of
    return lambda trial: monkeypatch.setattr(
        local, "job_of", lambda *given, **more: job_of(*given, **more, trial=trial)
    )


def test_the_plan_of_slurm_counts_the_runs_of_a_job(file, out):
    spec = load(file(1, 2, 3, 4))
    job = local.job_of(spec, spec.cells, out)
    asked = slurm.Options.parse("--slurm", "time=10m,parallel=2,gpus=1,mem=8G")
    assert (asked.time, asked.gpus, asked.model_extra) == (10, 1, {"mem": "8G"})
    plans = [asked.plan(replace(job, slots=slots), ()) for slots in (None, 4)]
    assert [(plan.at_once, plan.gpus) for plan in plans] == [(16, 1 / 8), (8, 1 / 4)]


def test_every_engine_says_what_it_would_do(file, out, capsys, tmp_path):
    path = file(1, 2, 3)
    (tmp_path / "more.yaml").write_text(path.read_text().replace("tiny", "more"))
    for one in (path, tmp_path / "more.yaml"):
        one.write_text("# tags: own\n" + one.read_text())
    for seed in (1, 2, 3):
        sweep_trials.finish(load(path).cells[seed - 1].experiment, out / "other")  # no run of these sweeps

    def told(*words, tag=False):
        words = [str(tmp_path), "--tag", "own", *words] if tag else [str(path), *words]
        assert main(["sweep", *words, "--runs", str(out)]) == 0
        return capsys.readouterr()

    asked = [*BY_SLURM, "time=4h,gpus=2,cpus=8,parallel=2,partition=gpu"]
    plan = told(*asked, "--dry-run").out
    assert "SLURM: 2 jobs, each time=240, gpus-per-node=2, cpus-per-task=8, partition=gpu\n" in plan
    assert plan.splitlines()[-1].startswith("time: about ")
    assert "GPU-hours" in plan.splitlines()[-1]
    script = told(*asked, "--seeds", "1,2", "--print", "commands").out
    assert script.startswith("#!/bin/sh\n#SBATCH --time=240\n")
    assert "#SBATCH --array=1-2\n" in script
    assert script.endswith(f"{path} --runs {out} --seeds=1,2\n")
    assert (
        "Ray: 3 tasks, each 2 CPU and 0.5 GPU" in told("--engine", "ray", "--ray", "cpus=2,gpus=0.5", "--dry-run").out
    )
    lines = told("--engine", "ray", "--ray", "gpus=0.5", "--print", "commands").out.splitlines()
    assert [line.split(" -- ")[0] for line in lines] == [
        "ray job submit --no-wait --entrypoint-num-cpus=1 --entrypoint-num-gpus=0.5"
    ] * 3
    printed = told("--engine", "wandb", "--slots", "2", "--print", "commands").out
    assert printed.count('wandb agent "$sweep" &\n') == 2
    assert f"wandb sweep {path}" in printed
    both = told("--dry-run", tag=True).out
    assert "in all: 2 sweeps, 6 runs; time: about " in both
    assert "core-hours" in both.splitlines()[-1]


BAD = {
    ("--slurm", "time=soon"): "--slurm: time: expected a time from 3m, such as 45m, 2h or 2d, got 'soon'",
    ("--slurm", "gpu"): "--slurm: expected name=value,name=value, got 'gpu'",
    ("--slurm", "parallel=0"): "parallel: expected greater than or equal to 1, got '0'.",
    ("--ray", "gpus=many"): "--ray: gpus: expected a valid number, unable to parse string as a number, got 'many'.",
    ("--ray", "gpu=1"): "--ray: gpu: no such field. Remove it, or correct the name.",
}


@pytest.mark.parametrize("words", BAD)
def test_a_wrong_resource_is_refused_in_one_line_and_first(words, file, out, capsys, refused):
    path, engine = str(file(1, 2)), "slurm" if words[0] == "--slurm" else "ray"
    assert main(["sweep", path, "--runs", str(out), "--engine", engine, *words]) == 2
    printed = capsys.readouterr()
    assert BAD[words] in printed.err
    assert (printed.err.count("\n"), printed.out) == (1, "")
    assert "expected with --engine" in refused("sweep", path, words[0], "gpus=1")
    assert not list(out.glob("*"))


@pytest.fixture
def node(tmp_path, monkeypatch):
    if not slurm_node.installed() or shutil.which("srun") is None:
        pytest.skip("needs slurm-wlm and munge, and root")
    (tmp_path / "slurm").mkdir()
    found = slurm_node.Node(tmp_path / "slurm")
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    yield found
    found.stop()


def test_without_slurm_nothing_is_submitted(file, out, tmp_path, monkeypatch, capfd):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["sweep", str(file(1, 2)), "--runs", str(out), "--engine", "slurm"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "--engine slurm: SLURM refuses (" in line


def test_a_real_slurm_makes_every_run_once_whatever_happens_to_its_jobs(node, file, out, use, capfd):
    """One job is warned of its time limit and queues again; another one is killed with all its processes."""
    pytest.importorskip("submitit")
    use(sweep_trials.stoppable)
    started = Started(out)
    spec = load(path := file(1, 2, 3, 4))
    runs, job = {cell.experiment.seed: cell.id for cell in spec.cells}, local.job_of(spec, spec.cells, out)
    folder = ["sweep", str(path), "--runs", str(out)]
    command = [*folder, *BY_SLURM, "time=30m,parallel=2,cpus=1"]
    for asked, why in (
        ("partition=nowhere", "sbatch: error: invalid partition specified: nowhere"),
        ("prtition=debug", "sbatch: unrecognized option '--prtition=debug'"),
    ):
        assert main([*command[:-1], asked]) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert f"SLURM refuses ({why})" in line
    assert not slurm.waiting(job)
    assert main(command) == 0
    assert "4 runs in SLURM: 2 jobs" in capfd.readouterr().out
    started.wait(2)  # seed 1 in the first job and seed 2 in the second
    first, second = sorted(node.call("squeue", "--noheader", "--array", "--format=%i").split())
    assert slurm.waiting(job)
    logs = [log.read_text() for log in out.glob("slurm/*_log.out")]
    assert all("1 at a time (1 core" in log for log in logs), logs
    assert main([*folder, "--status"]) == 0
    assert f"running: {runs[1]}  seed=1\n" in capfd.readouterr().out
    assert main(command) == 0  # nothing is submitted twice
    printed = capfd.readouterr().out
    assert "jobs of this sweep wait or run" in printed
    assert "logs in" not in printed

    def idle():
        for again in node.call("squeue", "--noheader", "--states=PENDING", "--format=%i").split():
            # SLURM lets a job that was queued again wait for two minutes
            node.call("scontrol", "update", f"JobId={again}", "StartTime=now", check=False)
        return not slurm.waiting(job)

    node.call("scancel", "--signal=USR2", first)  # as SLURM does before the time limit
    node.call("scancel", "--signal=KILL", "--full", second)
    node.until(idle)
    states = {seed: records.state(out / run) for seed, run in runs.items()}
    # The launcher of the second job may have seen its first run die before it died, and have begun the next one, which
    # ends by itself or with its launcher.
    assert states | {4: ""} == {1: "finished", 2: "started", 3: "finished", 4: ""}
    left = [seed for seed, state in states.items() if state != "finished"]
    assert main(command) == 0
    again = "1 run in SLURM: 1 job," if left == [2] else "2 runs in SLURM: 2 jobs,"
    assert again in capfd.readouterr().out
    node.until(idle)
    assert main(command) == 0
    assert "nothing to do, all 4 runs are there" in capfd.readouterr().out
    assert {records.state(out / run) for run in runs.values()} == {"finished"}
    begun = ["1 new", "1 resumed", "2 new", "2 resumed", "3 new"]
    assert {line: count for line, count in journal(out).items() if line[0] != "4"} == dict.fromkeys(begun, 1)


@pytest.fixture
def nodes(monkeypatch, importable):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    found = ray_nodes.Nodes(2)
    yield found
    found.stop()


def test_a_real_ray_loses_a_node_and_a_worker_and_makes_every_run_once(nodes, file, out, use, capfd):
    use(sweep_trials.stoppable)
    started = Started(out)
    spec = load(path := file(1, 2, 3, 4))

    def kill():
        started.wait(2)  # one run on each node
        workers = [int((out / cell.id / "checkpoint").read_text()) for cell in spec.cells[:2]]
        nodes.kill(1)
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    command = ["sweep", str(path), "--runs", str(out), "--engine", "ray", "--address", nodes.address]
    assert main(command) == 0
    killer.join()
    assert "4 of 4 runs there" in capfd.readouterr().out
    begun = ["1 new", "1 resumed", "2 new", "2 resumed", "3 new"]
    assert {line: count for line, count in journal(out).items() if line[0] != "4"} == dict.fromkeys(begun, 1)


MONITORS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")


def test_everything_that_ray_has_started_ends_with_a_killed_launcher(file, out, importable, monkeypatch):
    """A cluster on this machine, its workers and the runs, within a minute. Two monitors of Ray itself take longer."""
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    started = Started(out)
    launcher = launch(file(1, 2), out, "stoppable", 2, "ray")
    started.wait(1)
    known = parents()
    below = {pid for pid in descendants(launcher.pid) if not known.get(pid, (0, ""))[1].startswith(MONITORS)}
    assert any(known[pid][1].startswith("ray::make") for pid in below & known.keys())
    launcher.kill()
    launcher.wait()
    until(lambda: not below & parents().keys(), 60)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_without_ray_is_refused_before_ray_waits_for_it(address, file, out):
    pytest.importorskip("ray")
    spec = load(file(1, 2))
    with pytest.raises(InputError, match=f"--address: no Ray cluster answers at {address} "):
        ray.run(local.job_of(spec, spec.cells, out), ray.Options(), address)
