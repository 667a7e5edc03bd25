"""Faults of the machine: each is real, and each command is a process of its own in an empty folder."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import sweep_trials
import yaml
from launching import PATIENCE, Started, launch, run_sweep
from processes import parents
from sweep_trials import finish
from tiny_sweep import GRAPH

from study.config import experiment_from, experiment_id
from study.sweep.spec import load

pytestmark = pytest.mark.slow

SUPPORT = Path(__file__).parents[1] / "support"
WIDE = GRAPH | {"model.width": 128}
"""A run whose checkpoint has 4 MB."""


def study(*words, **environment):
    """Run a verb as a user would; return the ended process."""
    command = [sys.executable, "-P", "-m", "study", *map(str, words)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=PATIENCE)


def one_line(done, says, status=2):
    """Check that a verb ends with this status and one line of error."""
    (line,) = done.stderr.splitlines()
    assert (done.returncode, says in line) == (status, True), f"{done.returncode}: {line}"


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """An empty folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def wide(empty):
    """A sweep of two runs with large checkpoints."""
    parameters = {"seed": {"values": [1, 2]}} | {name: {"value": value} for name, value in WIDE.items()}
    tree = {"method": "grid", "metric": {"name": "test/exact"}, "parameters": parameters}
    (empty / "wide.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    return empty / "wide.yaml"


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory):
    """Environment of a process that has one of the faults of `faults.c`."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SUPPORT / "faults.c", "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}


def servers(launcher):
    """Return the fork servers of a launcher that are alive."""
    known = parents()
    return {pid for pid, (parent, command) in known.items() if parent == launcher.pid and "forkserver" in command}


def records_of(runs):
    return {path.parent.name: path.read_bytes() for path in runs.glob("*/record.json")}


def kill(pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_fork_server_that_is_killed_costs_nothing(file, out, tmp_path):
    """Three while the first runs start, and three while runs make their steps."""
    spec, steps, killed = load(path := file(1, 2, 3, 4)), Started(out), set()
    assert run_sweep(spec, tmp_path / "calm", 2, sweep_trials.stepping) == 0
    launcher = launch(path, out, "stepping")
    while len(killed) < 3:
        kill(new := servers(launcher) - killed)
        killed |= new
        time.sleep(0.01)
    for _ in range(3):
        steps.wait(3)
        kill(servers(launcher))
    printed = launcher.communicate(timeout=PATIENCE)[0]
    assert launcher.returncode == 0, printed
    assert "report it" not in printed
    assert records_of(out) == records_of(tmp_path / "calm")


def test_a_fork_server_that_never_lives_long_is_one_line(file, out):
    launcher = launch(file(1), out, "quick")
    while launcher.poll() is None:
        kill(servers(launcher))
        time.sleep(0.01)
    printed = launcher.communicate()[0]
    assert "the process that starts runs ended 11 times before a run began" in printed.splitlines()[-1]
    assert not list(out.glob("*/record.json"))


def test_a_disk_without_room_for_a_checkpoint_stops_a_sweep_in_one_line(wide):
    disk = wide.parent / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", disk]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    try:
        done = study("sweep", wide, "--runs", disk / "runs", "--slots", 1)
        assert shutil.disk_usage(disk).free > 2**20
        assert not list(disk.rglob("record.json"))
        assert not list(disk.rglob(".*.tmp"))
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    one_line(done, "checkpoint.ckpt: the disk is full (No space left on device). Make room; the same command")


def test_a_quota_stops_a_sweep_in_one_line(wide, preloaded):
    done = study("sweep", wide, "--runs", "runs", "--slots", 1, **preloaded, FAULT="quota")
    one_line(done, "checkpoint.ckpt: your quota of the disk is used up")
    assert not list(Path("runs").rglob("record.json"))


def test_a_limit_of_file_sizes_is_one_line(empty):
    words = [sys.executable, "-P", "-m", "study", "train", *(f"--{name}={value}" for name, value in WIDE.items())]
    done = subprocess.run(["sh", "-c", 'ulimit -f 1000; exec "$@"', "sh", *words], capture_output=True, text=True)
    one_line(done, "checkpoint.ckpt: a file would be larger than is allowed (File too large). Raise the limit")


@pytest.mark.parametrize("verb", ["sweep", "train", "prune", "tune"])
def test_a_file_system_without_locks_is_one_line(verb, empty, wide, preloaded):
    experiment = experiment_from(GRAPH)
    finish(experiment, trained := empty / "trained" / experiment_id(experiment))
    (trained / "model.pt").touch()
    text = wide.read_text().replace("test/exact", "valid/exact").replace("- 1\n    - 2", "- 1")
    Path("search.yaml").write_text(text + "  training.learning_rate: {values: [0.1, 0.2]}\n")
    fields = [f"--{name}={value}" for name, value in GRAPH.items()]
    words = {"sweep": [wide], "train": fields, "prune": [trained], "tune": ["search.yaml"]}[verb]
    done = study(verb, *words, "--runs", "runs", **preloaded, FAULT="locks")
    one_line(done, "the file system has no locks (No locks available). Choose another folder")
    assert not list(Path().glob("runs/*/record.json"))


def test_a_long_folder_of_temporary_files_has_room_for_no_socket_and_is_not_used(file, out, monkeypatch, tmp_path):
    long = tmp_path / ("x" * (98 - len(str(tmp_path))))
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    launcher = launch(file(1), out, "quick")
    printed = launcher.communicate(timeout=PATIENCE)[0]
    assert launcher.returncode == 0, printed


RAY = """
from types import SimpleNamespace
exceptions = SimpleNamespace(RayError=RuntimeError)
def init(**options):
    print("asked", flush=True)
    raise Exception("The current node timed out during startup.")
def shutdown():
    pass
"""
"""Ray on a machine that is so busy that no node is there after half a minute."""


def test_a_ray_that_is_slow_to_start_is_asked_again_and_then_one_line(wide):
    Path("packages").mkdir()
    Path("packages/ray.py").write_text(RAY)
    done = study("sweep", wide, "--runs", "runs", "--engine", "ray", PYTHONPATH="packages")
    one_line(done, "--engine ray: Ray does not start here (The current node timed out during startup.). Try again")
    assert done.stdout.count("asked") == 3
