"""Resources of a process, with fakes of NVML, cgroups, SLURM and Ray; and the part of them that runs get."""

import json
import os
import sys
import types
from collections import Counter
from types import SimpleNamespace

import pytest
import sweep_trials
from launching import run_sweep
from published_lab import TOOK

from study import files, processes
from study.config import experiment_from
from study.engine import local, ray, resources
from study.engine.estimate import estimated, in_words
from study.engine.resources import Resources, Slot
from study.errors import InputError
from study.store import records
from study.sweep.spec import load

PLENTY = 2**40
GPUS = {str(number): 2**34 for number in range(5)}


class Nvml(types.ModuleType):
    """A fake of the library of NVIDIA's driver: two GPUs with 40 and 6 GiB free, and a part of the first with 4.

    No real GPU is tested here.
    """

    NVMLError = type("NVMLError", (Exception,), {})

    def __init__(self):
        super().__init__("pynvml")
        self.free = {"GPU-0abc": 40 * 2**30, "GPU-1abc": 6 * 2**30}
        self.nvmlInit = self.nvmlShutdown = lambda: None
        self.nvmlDeviceGetCount = lambda: len(self.free)
        self.nvmlDeviceGetMemoryInfo = lambda uuid: SimpleNamespace(free=(self.free | {"MIG-a": 2**32})[uuid])

    def nvmlDeviceGetHandleByIndex(self, number):  # noqa: N802
        return self.nvmlDeviceGetHandleByUUID(f"GPU-{number}abc")

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid not in self.free and uuid != "MIG-a":
            raise self.NVMLError
        return uuid


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of 12 cores with two GPUs, in no job and no cgroup with limits."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml := Nvml())
    monkeypatch.setattr(processes.os, "sched_getaffinity", lambda _: set(range(12)))
    monkeypatch.setattr(processes, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(processes, "OWN", tmp_path / "own")
    for name in [name for name in resources.os.environ if name.startswith(("SLURM", "CUDA"))]:
        monkeypatch.delenv(name)
    return nvml


def experiments(*fields):
    return [experiment_from(each) for each in fields]


SMALL = {"trainer.device": "auto"}


def test_a_slurm_job_of_one_core_makes_one_run_at_a_time_on_one_thread(machine, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "1")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "2048")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    here, wide = resources.here(), experiments(SMALL | {"model.width": 1024})
    assert (here.cores, here.memory, here.gpus) == (1, 2**31, {})
    assert here.slots(wide) == [Slot(None, 1)]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "", "a job without GPUs sees none of the node's"
    assert here.describe(here.slots(wide)) == "1 at a time (1 core of SLURM)"
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert (resources.here().cores, list(resources.here().gpus)) == (4, ["1"])
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "1024")
    monkeypatch.setenv("SLURM_MEM_PER_NODE", "0")  # of --mem=0, which asks for all memory of a node
    assert resources.here().memory == 2**32
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "0")
    assert resources.here().memory >= 2**32


def test_the_quota_of_a_container_counts(machine, tmp_path):
    """8 of 12 cores, set above the own group, and 2 GiB, in which four runs fit."""
    found = {
        "own": "0::/pod/mine",
        "cgroup/pod/cpu.max": "800000 100000",
        "cgroup/pod/mine/cpu.max": "max 100000",
        "cgroup/pod/mine/memory.max": "2147483648",
    }
    for name, content in found.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    here = resources.here()
    assert (here.cores, here.memory, here.limit) == (8, 2**31, "its cgroup")
    assert here.describe(here.slots(experiments({"trainer.device": "cpu"}))) == "4 at a time (8 cores of its cgroup)"


def test_a_task_of_ray_uses_what_ray_gave_it_and_no_gpu_unless_it_was_given_one(machine, file, out, monkeypatch):
    """A task without a GPU sees none, not GPU 0."""
    spec = load(file(1, 2, device="auto"))
    job = local.job_of(spec, spec.cells[:1], out, slots=1, trial=sweep_trials.telling)
    out.mkdir()
    (out / ray.PLACES).write_text("{}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert ray.make(job, ray.Options(cpus=2)) == 0
    found = json.loads((out / spec.cells[0].id / "told.json").read_text())
    assert (found["env"]["CUDA_VISIBLE_DEVICES"], found["threads"]) == ("", 1)
    node = {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 4.0}}
    ray._check_node(ray.Options(cpus=8, gpus=0.25), [node])
    with pytest.raises(InputError, match="no node has 9 CPU and 1 GPU"):
        ray._check_node(ray.Options(cpus=9, gpus=1), [node])
    (out / ray.PLACES).unlink()
    with pytest.raises(InputError, match="expected a folder that every node shares"):
        ray.make(job, ray.Options())


@pytest.mark.parametrize("listed", ["0,5", "0,0", "GPU-2abc", "2,3,-1,1"])
def test_a_gpu_that_is_not_there_is_refused_in_one_line(listed, machine, monkeypatch, file, out, refused):
    """CUDA itself would stop reading there, and train on the CPU without a word."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    line = refused("sweep", file(1, 2, device="auto"), "--runs", out, "--dry-run")
    assert "CUDA_VISIBLE_DEVICES: expected GPUs of 0 to 1, each once, or their UUIDs, got" in line


@pytest.mark.parametrize(
    ("listed", "found"),
    [(None, ["0", "1"]), ("1, 0", ["1", "0"]), ("GPU-1abc", ["GPU-1abc"]), ("MIG-a", ["MIG-a"]), ("", []), ("-1", [])],
)
def test_the_environment_chooses_gpus(listed, found, machine, monkeypatch):
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert list(resources.here().gpus) == found


@pytest.mark.parametrize(("cores", "free", "each"), [(64, 6, 3), (64, 64, 8), (64, 0.5, 1), (1, 6, 1)])
def test_as_many_runs_share_a_gpu_as_fit_into_its_free_memory(cores, free, each):
    """A run gets at least 2 GiB. No GPU is left idle for want of cores."""
    here = Resources(cores, "this machine", PLENTY, {"0": 40 * 2**30, "1": int(free * 2**30)})
    assert Counter(slot.gpu for slot in here.slots(experiments(SMALL))) == {"0": each, "1": each}


def test_slots_share_cores_and_gpus():
    """GPUs are shared out in pairs and none is in two; on the CPU, processes share the cores."""
    here = Resources(12, "this machine", PLENTY, GPUS)
    one, pair, cpu = experiments(
        SMALL, {"trainer.devices": 2, "trainer.device": "cuda"}, {"trainer.devices": 3, "trainer.device": "cpu"}
    )
    assert here.slots([one, pair]) == [Slot("0,1", 3), Slot("2,3", 3)]
    assert [slot.gpu for slot in here.slots([pair], 3)] == ["0,1", "2,3", "0,1"]
    assert here.describe(here.slots([pair])) == "2 at a time (4 GPUs, 12 cores of this machine)"
    assert here.slots([cpu]) == [Slot(None, 1)] * 4
    assert here.slots([cpu], 2) == [Slot(None, 2)] * 2
    assert here.slots([one, cpu])[0] == Slot("0", 1)  # of the runs on GPUs none takes several


def test_the_time_of_runs_comes_from_records_of_their_kind(file, out):
    cells = load(file(1, 2, 3, 4)).cells
    known = [cell.experiment for cell in cells]
    assert in_words(estimated(known, out), 2, 1).startswith("time: not known")
    assert run_sweep(load(file(1, 2)), out) == 0
    record = records.read(out / cells[0].id / "record.json")
    took = TOOK.model_copy(update={"wall_seconds": 40.0})
    files.write(out / cells[0].id / "record.json", records.dumps(record.model_copy(update={"resources": took})))
    longer, wider = experiments({"training.steps": 3000}, {"model.width": 32})
    assert estimated([known[1], longer, wider], out) == [40.0, 80.0, None]
    told = in_words([3600.0, None, 3600.0, 3600.0], 8, 4, 0.25)
    assert told == "time: about 1 h 00 min with 4 at a time, 1.0 GPU-hours, by similar runs"
