"""Engines beside the local one: packs, submitit's own executors, a real SLURM of one node, and a real Ray of two."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import ray_nodes
import slurm_node
import sweep_trials
import yaml
from sweep_trials import PATIENCE, journal

from study import records
from study.__main__ import main
from study.commands import sweep
from study.errors import InputError
from study.sweep import display, engines, lease
from study.sweep.engines import ray, slurm
from study.sweep.spec import load

HERE = Path(__file__).parent


@pytest.fixture
def use(monkeypatch):
    """Let the command give its packs a stand-in for training, in processes of their own too."""
    template = engines.template
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setattr(sweep, "_report", lambda *_: None)  # the stand-ins have no scores

    def patch(trial):
        monkeypatch.setattr(engines, "template", lambda *given: replace(template(*given), trial=trial))

    return patch


class Started:
    """Waits for trials that say that they have begun, and go on only once they are stopped."""

    def __init__(self, out):
        out.mkdir(exist_ok=True)
        os.mkfifo(out / "started")
        self.pipe = os.open(out / "started", os.O_RDWR | os.O_NONBLOCK)

    def wait(self, count):
        while count:
            assert select.select([self.pipe], [], [], PATIENCE)[0], "no trial started"
            count -= len(os.read(self.pipe, count))


def test_packs_are_of_even_length(file, out):
    """8 + 1 and 5 + 4; the run of unknown length counts as the mean, 4.5."""
    spec = load(file(1, 2, 3, 4))
    empty = engines.template(spec, out)
    names = {cell.experiment.seed: cell.id for cell in spec.cells}
    found = engines.packs_of(empty, spec.cells, [8.0, 1.0, 5.0, 4.0], 2)
    assert [set(pack.ids) for pack in found] == [{names[1], names[2]}, {names[3], names[4]}]
    found = engines.packs_of(empty, spec.cells, [8.0, 1.0, None, 4.5], 2)
    assert [set(pack.ids) for pack in found] == [{names[1], names[2]}, {names[3], names[4]}]
    assert len(engines.packs_of(empty, spec.cells, [None] * 4, 9)) == 4
    resources = slurm.options("time=10m,parallel=2,gpus=1,mem=8G")
    assert (resources.minutes, resources.gpus, resources.others) == (10, 1, {"mem": "8G"})
    assert resources.jobs([480.0] * 3, at_once=1) == 3  # four fifths of ten minutes each
    assert resources.jobs([480.0] * 3, at_once=2) == resources.jobs([None] * 3, 1) == 2


def test_wrong_resources_are_one_line(file, out, capsys):
    path = str(file(1, 2))
    bad = {
        ("--engine", "slurm", "--slurm", "time=soon"): "--slurm: time: expected a time from 3m",
        ("--engine", "slurm", "--slurm", "gpu"): "--slurm: expected name=value, got 'gpu'",
        ("--engine", "slurm", "--slurm", "gpus=1,gpus=2"): "gpus: expected once",
        ("--engine", "slurm", "--slurm", "mem=8G time=4h"): "--slurm: expected name=value, got 'mem=8G time=4h'",
        ("--engine", "slurm", "--slurm", "parallel=0"): "parallel: expected a whole number",
        ("--engine", "slurm", "--slurm", "cluster=moon"): "cluster: expected slurm, local, debug",
        ("--slurm", "gpus=1"): "--slurm: expected with --engine slurm, got local",
        ("--engine", "ray", "--ray", "gpus=many"): "--ray: expected cpus or gpus with a number",
        ("--engine", "ray", "--slots", "2"): "--slots: expected another engine",
        ("--engine", "ray", "--address", "10.0.0.1"): "--address: expected HOST:PORT or auto, got 10.0.0.1.",
    }
    for words, expected in bad.items():
        assert main(["sweep", path, "--runs", str(out), *words]) == 2
        message = capsys.readouterr().err
        assert expected in message
        assert message.count("\n") == 1
    assert not list(out.glob("*/record.json"))


@pytest.mark.parametrize("cluster", ["local", "debug"])
def test_submitits_own_executors_make_the_packs(cluster, file, out, use, capfd):
    """The trial of seed 2 fails once more than it is tried, so its job leaves a hole, which the next call fills."""
    pytest.importorskip("submitit")
    use(sweep_trials.second_call)
    spec = load(path := file(1, 2, 3, 4))
    command = ["sweep", str(path), "--runs", str(out), "--engine", "slurm", "--retries", "0"]
    command += ["--slurm", f"cluster={cluster},parallel=2"]
    assert main(command) == 1
    printed = capfd.readouterr().out
    assert "4 runs in 2 jobs" in printed
    assert "3 of 4 runs there, by identity" in printed
    assert f"missing  {spec.cells[1].id}" in printed
    assert main(command) == 0
    assert "1 runs in 1 jobs" in capfd.readouterr().out
    assert journal(out) == {"seed 1": 1, "seed 2": 2, "seed 3": 1, "seed 4": 1}
    jobs = [json.loads(line) for line in (out / "slurm" / "jobs.jsonl").read_text().splitlines()]
    assert [len(job["runs"]) for job in jobs] == [2, 2, 1]


def test_without_a_controller_nothing_is_written(file, out, tmp_path, monkeypatch, capfd):
    """SLURM is not installed, or its controller does not answer. The words are those of a real `sinfo`."""
    pytest.importorskip("submitit")
    (tools := tmp_path / "tools").mkdir()
    monkeypatch.setenv("PATH", str(tools))
    command = ["sweep", str(file(1, 2)), "--runs", str(out), "--engine", "slurm"]
    said = "slurm_load_partitions: Unable to contact slurm controller (connect failure)"
    for reason in ("sinfo is not installed", said):
        assert main(command) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert f"--engine slurm: expected a SLURM controller, got none ({reason})" in line
        (tools / "sinfo").write_text(f"#!/bin/sh\necho '{said}' >&2; exit 1\n")
        (tools / "sinfo").chmod(0o755)
    assert not out.exists()


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


def interrupted(_):
    raise KeyboardInterrupt


def test_a_real_slurm_makes_every_run_once_whatever_happens_to_its_jobs(node, file, out, use, monkeypatch, capfd):
    """One job is warned of its time limit and queues again; another one is killed with all its processes."""
    pytest.importorskip("submitit")
    use(sweep_trials.stoppable)
    started = Started(out)
    spec = load(path := file(1, 2, 3, 4))
    runs = {cell.experiment.seed: cell.id for cell in spec.cells}
    folder = ["sweep", str(path), "--runs", str(out)]
    command = [*folder, "--engine", "slurm", "--slots", "1", "--slurm", "time=30m,parallel=2,cpus=1"]
    assert main([*command[:-1], "partition=nowhere"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "sbatch refuses (Batch job submission failed: Invalid partition name specified)" in line
    assert not (out / "slurm").exists()
    assert main(command) == 0
    assert "4 runs in 2 jobs" in capfd.readouterr().out
    started.wait(2)  # seed 1 in the first job and seed 2 in the second
    jobs = {seed: slurm.jobs(out)[run] for seed, run in runs.items()}
    assert jobs[1] == jobs[3] != jobs[2] == jobs[4]
    assert jobs[1][1] == jobs[2][1] == "RUNNING"
    assert main([*folder, "--status"]) == 0
    assert f"running: {runs[1]}  seed=1  [job {jobs[1][0]} RUNNING]" in capfd.readouterr().out
    assert main([*folder, "--status", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)[3]["job_state"] == "RUNNING"
    assert main(command) == 0  # nothing is submitted twice
    printed = capfd.readouterr().out
    assert "4 runs are in jobs that wait or run" in printed
    assert "jobs, logs in" not in printed

    with monkeypatch.context() as here:
        here.setattr(display.Plain, "tick", interrupted)
        assert main([*command, "--wait"]) == 130
    printed = capfd.readouterr().out
    assert "jobs: 2 RUNNING" in printed
    assert "the jobs go on" in printed

    def ended(seed):
        job, state = slurm.jobs(out)[runs[seed]]
        if state == "PENDING":  # SLURM lets a job that was queued again wait for two minutes
            node.call("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
        return state == "ended"

    node.call("scancel", "--signal=USR2", jobs[1][0])  # as SLURM does before the time limit
    node.call("scancel", "--signal=KILL", "--full", jobs[2][0])
    node.until(lambda: ended(1) and ended(2))
    states = {seed: records.state(out / run) for seed, run in runs.items()}
    assert states == {1: "finished", 2: "started", 3: "finished", 4: "missing"}
    monkeypatch.setattr(slurm, "LOOK", 0.2)
    assert main([*command, "--wait"]) == 0
    printed = capfd.readouterr().out
    assert "2 runs in 2 jobs" in printed
    assert all(f"done    {runs[seed]}  seed={seed}" in printed for seed in runs)
    assert "4 of 4 runs there, by identity" in printed
    assert {records.state(out / run) for run in runs.values()} == {"finished"}
    assert journal(out) == dict.fromkeys(["1 new", "1 resumed", "2 new", "2 resumed", "3 new", "4 new"], 1)


@pytest.fixture
def nodes(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("PYTHONPATH", str(HERE))
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
    assert "4 of 4 runs there, by identity" in capfd.readouterr().out
    assert journal(out) == dict.fromkeys(["1 new", "1 resumed", "2 new", "2 resumed", "3 new", "4 new"], 1)
    assert main([*command, "--ray", "gpus=0.5", "--only", "seed=1"]) == 0  # nothing is due, so nothing is asked of Ray
    shutil.rmtree(out / spec.cells[0].id)
    capfd.readouterr()
    assert main([*command, "--ray", "gpus=0.5"]) == 2
    assert "no node has 1 CPU and 0.5 GPU; there is 1 CPU, 0 GPU." in capfd.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_without_ray_is_refused_before_ray_waits_for_it(address, out, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray, "drive", lambda *_: pytest.fail("Ray was started"))
    with pytest.raises(InputError, match=f"--address: no Ray cluster answers at {address} "):
        ray.Ray(ray.options(None, address), out).run([])
    said = "gcs_client.cc:210: Failed to get cluster ID: InvalidAuthToken: Authentication token is missing or incorrect"
    assert "set RAY_AUTH_MODE=token" in str(ray._unreached(address, ConnectionError("Failed to connect"), said))


def test_a_lost_cluster_is_one_line_and_its_runs_are_due(file, out, use, monkeypatch, capfd):
    """Ray itself ends the process that talks to it, here after the first of three tasks."""
    pytest.importorskip("ray")
    use(sweep_trials.stoppable)
    monkeypatch.setattr(ray, "drive", sweep_trials.lose_ray)
    command = ["sweep", str(file(3, 4, 5)), "--runs", str(out), "--engine", "ray"]
    assert main(command) == 1
    printed = capfd.readouterr()
    assert "1 of 3 tasks ended, 0 failed" in printed.out
    assert "the engine says: the cluster is lost (Failed to connect to GCS)" in printed.out
    assert "1 of 3 runs there, by identity" in printed.out
    assert not printed.err
    assert not list(out.glob(".shared-*"))


def test_runs_come_back_where_the_folder_is_not_shared(file, out, tmp_path):
    pytest.importorskip("ray")
    spec = load(file(1, 2))
    whole = replace(engines.template(spec, out), trial=sweep_trials.with_files)
    pack = replace(whole, ids=tuple(cell.id for cell in spec.cells))
    content = ray.make(pack, "no such file")
    assert not out.exists()
    out.mkdir()
    first, second = (out / cell.id for cell in spec.cells)
    sweep_trials.finish(spec.cells[1].experiment, second)  # by somebody else meanwhile
    ray.store(content, out)
    assert records.read(first / "record.json").status == "finished"
    assert (first / "inner" / "file").read_text() == "content"
    assert not (second / "inner").exists()
    assert {path.name for path in out.iterdir()} == {first.name, second.name}
    assert not lease.held(first)


FORM = {
    "apiVersion": {"const": "batch/v1"},
    "kind": {"const": "Job"},
    "metadata": {"name": {"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}},
    "spec": {
        "completionMode": {"const": "Indexed"},
        "completions": {"type": "integer", "minimum": 1},
        "parallelism": {"type": "integer", "minimum": 1},
        "backoffLimitPerIndex": {"type": "integer", "minimum": 0},
        "podFailurePolicy": {
            "rules": {
                "type": "array",
                "items": {
                    "required": ["action"],
                    "properties": {
                        "action": {"enum": ["Ignore", "FailJob", "FailIndex", "Count"]},
                        "onPodConditions": {"type": "array", "items": {"required": ["type", "status"]}},
                    },
                },
            }
        },
        "template": {
            "spec": {
                "restartPolicy": {"const": "Never"},
                "terminationGracePeriodSeconds": {"type": "integer"},
                "containers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "required": ["name", "image", "command", "resources", "volumeMounts"],
                        "properties": {
                            "command": {"type": "array", "items": {"type": "string"}},
                            "volumeMounts": {"type": "array", "items": {"required": ["name", "mountPath"]}},
                        },
                        "additionalProperties": {"type": ["string", "object"]},
                    },
                },
                "volumes": {"type": "array", "items": {"required": ["name", "persistentVolumeClaim"]}},
            }
        },
    },
}
"""Fields of an Indexed Job. The whole schema of Kubernetes (1.29, 1.31, 1.33) accepts the manifest too."""


def schema(form):
    """Every field of a form is required, and there are no others; a value with a keyword of JSON schema is one."""
    if form.keys() & {"const", "type", "pattern", "enum"}:
        return form
    inner = {name: schema(field) for name, field in form.items()}
    return {"type": "object", "properties": inner, "required": list(inner), "additionalProperties": False}


def test_the_manifest_of_kubernetes_is_an_indexed_job_over_all_parts(file, tmp_path, capsys):
    page = (HERE.parents[1] / "docs" / "sweeps.md").read_text(encoding="utf-8")
    tree = yaml.safe_load(re.search(r"```yaml\n(apiVersion.*?)```", page, re.DOTALL)[1])
    jsonschema.validate(tree, schema(FORM))
    pod = tree["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["volumeMounts"][0]["name"] == pod["volumes"][0]["name"]
    script = container["command"][2].replace("exec study", "echo").replace("sweeps/scaling.yaml", str(file(*range(20))))
    parts = []
    for index in range(tree["spec"]["completions"]):
        words = subprocess.run(
            ["sh", "-c", script], env={"JOB_COMPLETION_INDEX": str(index)}, capture_output=True, text=True, check=True
        ).stdout.split()
        words[words.index("--runs") + 1] = str(tmp_path / "runs")
        assert main([*words, "--print", "commands"]) == 0
        parts += capsys.readouterr().out.splitlines()
    assert len(parts) == len(set(parts)) == 20
