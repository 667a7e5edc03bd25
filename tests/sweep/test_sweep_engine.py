"""The local engine with real processes, killed for real. Only the training is a stand-in."""

import json
import os
import resource
import select
import shlex
import signal
import subprocess
import sys
import time
import types
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import sweep_trials
import yaml
from filelock import lock_descriptor
from published_lab import PROVENANCE, TOOK
from sweep_launch import launch
from sweep_trials import PATIENCE, journal

from study import files, records
from study.__main__ import main
from study.config import experiment_from
from study.errors import InputError
from study.store import Store
from study.sweep import lease, local, slots
from study.sweep.display import Progress, Running
from study.sweep.estimate import estimate
from study.sweep.local import run_sweep
from study.sweep.outcome import error_line
from study.sweep.spec import load
from study.tracking.view import Place, place_of


def statuses(spec, out):
    return {cell.experiment.seed: records.read(out / cell.id / "record.json") for cell in spec.cells}


def test_whatever_a_trial_does_the_sweep_goes_on_and_says_so(file, out, capsys):
    spec = load(file(1, 2, 3, 4, 5, 6))
    assert run_sweep(spec, out, 2, trial=sweep_trials.fated) == 1
    found = statuses(spec, out)
    told = {seed: record.status for seed, record in found.items()}
    assert told == {1: "finished", 2: "failed", 3: "failed", 4: "diverged", 5: "failed", 6: "failed"}
    assert found[2].error == "OSError: cannot read secret.txt"
    assert found[3].error == "killed by signal 9 (SIGKILL)"
    assert found[5].error == "ended with exit status 7 and no record"
    assert str(out) not in (out / found[2].id / "record.json").read_text()
    assert "Traceback" in (out / found[2].id / "log.txt").read_text()
    printed = capsys.readouterr().out
    assert "2 of 6 runs done, 4 failed" in printed
    assert "  diverged  seed=4: " in printed
    assert all(str(out / found[seed].id / "log.txt") in printed for seed in (2, 3, 5, 6))

    kept = {seed: (out / found[seed].id / "record.json").stat().st_mtime_ns for seed in (1, 4)}
    assert run_sweep(spec, out, 2, trial=sweep_trials.mended) == 0
    assert {record.status for record in statuses(spec, out).values()} == {"finished", "diverged"}
    assert {seed: (out / found[seed].id / "record.json").stat().st_mtime_ns for seed in kept} == kept
    assert all(journal(out)[f"again {seed}"] == 1 for seed in (2, 3, 5, 6))


def test_what_a_killed_process_has_left_beside_a_record_is_removed_by_the_next_call(file, out, capsys):
    spec = load(file(1, 2))
    assert run_sweep(spec, out, 2, trial=sweep_trials.quick) == 0
    done, other = (out / cell.id for cell in spec.cells)
    kept = sorted(os.listdir(done))
    with lease.holding(out / "other"):
        of_here = (out / "other" / "claim.1").read_text()
    for name in (".record.json.0a1b2c3d.tmp", ".record.json.4711", "checkpoint.ckpt", "model.tmp", "claim.3"):
        (done / name).write_text(of_here)
    (other / "checkpoint.ckpt").touch()
    with lease.holding(other):  # somebody is finishing it just now
        assert run_sweep(spec, out, 2, trial=sweep_trials.quick) == 0
        assert (other / "checkpoint.ckpt").exists()
    assert sorted(os.listdir(done)) == kept
    assert "nothing to do" in capsys.readouterr().out


def test_a_notebooks_backend_and_a_long_folder_for_temporary_files_stop_no_sweep(file, out, tmp_path, monkeypatch):
    """The first is no module here; in the second the name of a socket would be too long."""
    monkeypatch.setenv("MPLBACKEND", "module://backend_of_a_notebook")
    (tmp_path / ("t" * 100)).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("t" * 100)))
    launcher = launch(file(1, 2), out, "plotting")
    printed = launcher.communicate(timeout=PATIENCE)[0]
    assert launcher.returncode == 0, printed


def test_a_trial_finds_what_an_agent_would_have_set(file, out, monkeypatch):
    monkeypatch.setenv("WANDB_SWEEP_ID", "of-the-caller")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    spec = load(file(1, 2))
    assert run_sweep(spec, out, 1, trial=sweep_trials.telling) == 0
    cell = spec.cells[1]
    told = json.loads((out / cell.id / "told.json").read_text())
    assert (
        told["env"].items()
        >= {
            "WANDB_MODE": "offline",
            "WANDB_RUN_ID": cell.id,
            "WANDB_DIR": str(out / cell.id),
        }.items()
    )
    assert not told["env"].keys() & {"WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH"}, "a sweep that no server has"
    assert told["threads"] == 1  # of a small model
    assert place_of(out, cell.id) == Place(sweep=("tiny",), arm="base", baseline=True, arms={"tiny": "base"})
    sweep = {"WANDB_SWEEP_ID": "abc", "WANDB_PROJECT": "p", "WANDB_ENTITY": "e", "WANDB_MODE": "online"}
    spec = load(file(3, 4))
    assert run_sweep(spec, out, 1, trial=sweep_trials.telling, sweep=sweep) == 0
    cell = spec.cells[0]
    told = json.loads((out / cell.id / "told.json").read_text())
    assert told["env"].items() >= sweep.items()
    expected = {"wandb_version": 1, "seed": {"value": 3}, "trainer.device": {"value": "cpu"}}
    assert yaml.safe_load(Path(told["env"]["WANDB_SWEEP_PARAM_PATH"]).read_text()) == expected


def test_two_launchers_share_a_folder_without_running_anything_twice(file, out):
    out.mkdir()
    path = file(*range(1, 7))
    launchers = [launch(path, out, "together", 1) for _ in range(2)]
    printed = [launcher.communicate(timeout=PATIENCE)[0] for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], printed
    runs = [line.split() for line in journal(out).elements()]
    assert Counter(name for name, _ in runs) == dict.fromkeys((cell.id for cell in load(path).cells), 1)
    assert len({launcher for _, launcher in runs}) == 2
    assert all("6 of 6 runs done, 0 failed" in text for text in printed)


def wait_started(out, times):
    """Until as many trials have said that they wait to be stopped."""
    pipe = os.open(out / "started", os.O_RDWR | os.O_NONBLOCK)
    seen = 0
    while seen < times:
        assert select.select([pipe], [], [], PATIENCE)[0], "no trial started"
        seen += len(os.read(pipe, times))
    os.close(pipe)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_launcher_that_is_stopped_or_killed_is_continued(number, file, out):
    out.mkdir()
    os.mkfifo(out / "started")
    spec = load(path := file(1, 2, 3))
    launcher = launch(path, out, "interruptible")
    wait_started(out, 2)
    began = time.monotonic()
    launcher.send_signal(number)
    printed = launcher.communicate(timeout=PATIENCE)[0]
    for cell in spec.cells[1:]:  # a blocking lock: released when the trial has ended
        descriptor = os.open(out / cell.id / lease.FILE, os.O_RDWR)
        lock_descriptor(descriptor)
        os.close(descriptor)
    assert time.monotonic() - began < PATIENCE  # they would wait for ten minutes
    if number == signal.SIGINT:
        assert launcher.returncode == 130
        assert "the same command again continues" in printed
        assert "Traceback" not in printed
    states = [records.state(out / cell.id) for cell in spec.cells]
    assert states == ["finished", "started", "started"]
    assert launch(path, out, "interruptible").wait(timeout=PATIENCE) == 0
    assert journal(out) == dict.fromkeys(["1 new", "2 new", "2 resumed", "3 new", "3 resumed"], 1)


def children_seconds():
    """Processor time: how long it takes depends on what else this machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_nothing_to_do_is_said_at_once_and_without_torch(file, out):
    path = file(1, 2)
    for cell in load(path).cells:
        sweep_trials.finish(cell.experiment, out / cell.id)
    before = children_seconds()
    launcher = launch(path, out, "quick")
    printed = launcher.communicate()[0]
    assert children_seconds() - before < 2
    assert launcher.returncode == 0
    assert "nothing to do, all 2 runs are there" in printed
    assert "heavy:\n" in printed
    assert not (out / "journal").exists()


def test_counts_include_what_another_launcher_has_made(file, out, monkeypatch, capsys):
    """While the runs wait for a slot, and when the call is interrupted."""
    first, second, _ = (spec := load(file(1, 2, 3))).cells
    progress = Progress(3, 1)
    launcher = local.Launcher(spec, out, [], sweep_trials.quick, progress, local.POLICY, {})
    launcher.pending.extend(local.tasks(spec, spec.cells, out))
    sweep_trials.finish(first.experiment, out / first.id)
    monkeypatch.setattr(local, "LOOK", 0.0)
    launcher.look()
    assert progress.line().startswith("1 of 3 done")
    assert [task.cell for task in launcher.pending] == list(spec.cells[1:])
    assert "by another launcher" in capsys.readouterr().out

    def interrupted(*_):
        sweep_trials.finish(second.experiment, out / second.id)
        raise KeyboardInterrupt

    monkeypatch.setattr(local.server, "start", lambda *_: None)
    monkeypatch.setattr(local.Launcher, "run", interrupted)
    assert run_sweep(spec, out) == local.INTERRUPTED
    assert "interrupted: 2 of 3 runs done" in capsys.readouterr().out


def test_a_folder_that_another_process_runs_is_left_to_it(file, out, capsys):
    path = file(1, 2)
    spec = load(path)
    held = lease.acquire(out / spec.cells[0].id)
    assert lease.held(out / spec.cells[0].id)
    assert not lease.held(out / spec.cells[1].id)
    assert main(["sweep", str(path), "--runs", str(out), "--status"]) == 0
    printed = capsys.readouterr().out
    assert "running      1" in printed
    assert "not started  1" in printed
    held.release()
    assert main(["sweep", str(path), "--runs", str(out), "--status"]) == 0
    assert "interrupted  1" in capsys.readouterr().out


def test_the_command_lists_narrows_and_refuses(file, out, capsys, tmp_path):
    path = str(file(1, 2, 3))
    assert main(["sweep", path, "--runs", str(out), "--dry-run", "--seeds", "2,3", "--limit", "1"]) == 0
    printed = capsys.readouterr().out
    assert "seed=2" in printed
    assert "seed=3" not in printed
    assert "time: about " in printed  # from published runs
    assert main(["sweep", path, "--runs", str(out), "--dry-run", "--only", "seed=[12]*", "--only", "*=2*"]) == 0
    printed = capsys.readouterr().out
    assert ("seed=1" in printed, "seed=2" in printed, "seed=3" in printed) == (False, True, False)
    given = ["sweep", "sweeps/recipe_hard.yaml", "--runs", str(out), "--seeds", "101", "--unpublished"]
    assert main([*given, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("recipe_hard: 0 of 12 declared would run")
    assert main(given) == 0
    assert capsys.readouterr().out == "recipe_hard: every run is published or made\n"
    assert not out.exists()
    (tmp_path / "taken").write_text("")
    bad = {
        ("sweep", path, "--runs", str(tmp_path / "taken")): "expected a folder of runs",
        ("sweep", path, "--status", "--runs", str(tmp_path / "taken")): "expected a folder of runs",
        (
            "sweep",
            path,
            "--dry-run",
            "--runs",
            str(tmp_path / "taken" / "runs"),
        ): "expected a folder of runs",
        ("sweep", path, "--slots", "0"): "--slots",
        ("sweep", path, "--seeds", "9"): "--seeds: expected some of 1, 2, 3, got 9.",
        ("sweep", path, "--only", "zebra"): "no run of",
        ("sweep", path, "--only", "seed=1", "--only", "seed=2"): "'seed=1' and 'seed=2'",
        ("sweep", path, "--bogus"): "--bogus",
        ("sweep", str(tmp_path / "absent.yaml")): "no such sweep file",
        ("swoop",): "expected a verb",
    }
    for arguments, expected in bad.items():
        assert main(arguments) == 2
        message = capsys.readouterr().err
        assert expected in message
        assert message.startswith("study: ")
        assert message.count("\n") == 1


def test_the_commands_of_the_runs_to_do_work_in_a_shell_and_once(tmp_path, capfd, monkeypatch):
    """Quotes and blanks are kept by xargs, by sh and by the JSON inside."""
    monkeypatch.delenv("WANDB_MODE", raising=False)
    path, out = tmp_path / "it's small.yaml", tmp_path / "it's mine"
    fixed = {"data.train_pairs": 200, "data.test_pairs": 20, "model.width": 16, "decoding.beam": 1, "training.steps": 2}
    fixed |= {"trainer.device": "cpu", "trainer.threads": 1}
    arms = {"values": ["score=dot tracking.group='a b'", "score=additive"]}
    tree = {"name": "its own", "method": "grid", "metric": {"name": "test/exact"}}
    tree["parameters"] = {"arm": arms, **{name: {"value": value} for name, value in fixed.items()}}
    path.write_text(yaml.safe_dump(tree))
    cells = load(path).cells
    order = ["sweep", str(path), "--runs", str(out), "--print", "commands"]
    assert main(order) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert not out.exists()
    subprocess.run(["xargs", "-d", "\\n", "-n", "1", "sh", "-c"], input=f"{first}\n", text=True, check=True)
    assert records.read(out / cells[0].id / "record.json").status == "finished"
    capfd.readouterr()
    assert main(order) == 0
    assert capfd.readouterr().out.splitlines() == [second]
    words = shlex.split(first)
    (name, told), place = words[1].split("=", 1), place_of(out, cells[0].id)
    assert (words[0], place) == ("env", Place())
    monkeypatch.setenv(name, told)
    assert place_of(out, cells[0].id).sweep == ("its own",)
    assert main(words[words.index("train") :]) == 0  # nothing is trained again
    assert "this run has a record" in capfd.readouterr().out


def test_a_record_of_another_schema_stops_the_call(file, out, capsys):
    path = file(1, 2)
    folder = out / load(path).cells[0].id
    folder.mkdir(parents=True)
    (folder / "record.json").write_text('{"schema_version": 99}')
    assert main(["sweep", str(path), "--runs", str(out)]) == 2
    assert "schema_version 99, and this program reads" in capsys.readouterr().err


def test_a_file_where_a_run_belongs_stops_the_call(file, out, capsys):
    path = file(1, 2)
    out.mkdir()
    (out / load(path).cells[1].id).touch()
    for option in ("--status", "--dry-run", "--limit=1"):
        assert main(["sweep", str(path), "--runs", str(out), option]) == 2
        assert "expected a folder, got a file" in capsys.readouterr().err
    with pytest.raises(InputError, match="cannot be written"):
        lease.acquire(out / load(path).cells[1].id)


def test_a_run_that_has_made_its_steps_is_being_tested(tmp_path):
    progress = Progress(3, 1, done=1, durations=[0.0], running={"a": Running("a", tmp_path)})
    (tmp_path / "progress.json").write_text('{"step": 40, "steps": 50}')
    assert "1 running, " in progress.line()
    progress.durations = []
    assert progress.line().endswith(" left")
    assert ", at least " in progress.line()  # the test that follows the steps is not known yet
    progress.durations = [0.0]
    (tmp_path / "progress.json").write_text('{"step": 50, "steps": 50}')
    assert progress.line() == "1 of 3 done, 1 running (1 of them testing), 0 failed"


def test_the_time_of_runs_comes_from_records_of_their_kind(file, out):
    cells = load(file(1, 2, 3, 4)).cells
    assert estimate(cells, out, 2).startswith("time: not known")
    sweep_trials.finish(cells[0].experiment, folder := out / cells[0].id)
    record = records.read(folder / "record.json")
    took = TOOK.model_copy(update={"train_seconds": 30.0, "wall_seconds": 40.0})
    files.write(folder / "record.json", records.dumps(record.model_copy(update={"resources": took})))
    told = estimate(cells[1:], out, 2)
    assert told.startswith("time: about 1 min 00 s with 2 at a time, from 1 finished run of the same")
    longer = experiment_from({"training.steps": 3000})  # twice the steps: 60 s of training and 10 s of the rest
    assert estimate([replace(cells[0], experiment=longer)], out, 2).startswith("time: about 1 min 10 s with 1 at")
    wider = replace(cells[0], experiment=experiment_from({"model.width": 32}))
    assert estimate([wider], out, 2).startswith("time: not known")
    assert "; 1 of other corpora, families or sizes" in estimate([cells[1], wider], out, 1)
    out.rename(out.with_name("others"))
    told = estimate(cells[1:2], out, 1, Store(out.with_name("others")))
    assert told.startswith("time: about 40 s with 1 at a time, from 1 finished run")
    assert told.endswith("in results (made on another machine)")
    assert estimate([], out, 2) == "time: none, nothing is to run"


GPUS = [slots.Gpu("Model", f"GPU-{number}", 2**34) for number in range(5)]


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
        self.nvmlDeviceGetHandleByIndex = lambda number: f"GPU-{number}abc"
        self.nvmlDeviceGetName = lambda uuid: "NVIDIA Fake"
        self.nvmlDeviceGetUUID = lambda uuid: uuid
        self.nvmlDeviceGetMemoryInfo = lambda uuid: SimpleNamespace(free=(self.free | {"MIG-a": 2**32})[uuid])

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid != "MIG-a":
            raise self.NVMLError
        return uuid


def test_as_many_runs_share_a_gpu_as_fit_into_its_free_memory(file, out, monkeypatch, capsys):
    """With a fake of NVML. A run needs 1.3 × 1 GiB + 0.5 GiB = 1.8 GiB, so 3 fit into 6 GiB, 2 into 4 and 8 into 40."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml := Nvml())
    monkeypatch.setattr(slots, "cpu_cores", lambda: 64)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    spec = load(path := file(1, 2, device="auto"))
    sweep_trials.finish(spec.cells[0].experiment, folder := out / spec.cells[0].id)

    def told():
        assert main(["sweep", str(path), "--runs", str(out), "--dry-run"]) == 0
        return capsys.readouterr().out.splitlines()[-1].removeprefix("runs per GPU: ")

    none = "a run needs at least 0.5 GiB; none of this kind was measured on such a GPU yet"
    assert told() == f"8, the most, as 6.0 GiB are free on each GPU and {none}"
    nvml.free["GPU-1abc"] = 2**30
    assert told() == f"2, as 1.0 GiB are free on each GPU and {none}"
    nvml.free["GPU-1abc"] = 6 * 2**30
    record = records.read(folder / "record.json")
    took = TOOK.model_copy(update={"peak_memory_bytes": 2**30})
    made = PROVENANCE.model_copy(update={"device": "NVIDIA Fake"})
    files.write(
        folder / "record.json", records.dumps(record.model_copy(update={"resources": took, "provenance": made}))
    )
    need = "a run needs about 1.8 GiB: 1.3 × 1.0 GiB (measured) + 0.5 GiB"
    assert told() == f"3, as 6.0 GiB are free on each GPU and {need}"
    assert Counter(slot.gpu for slot in local.layout_for(spec.cells, out, None)[0]) == {"0": 3, "1": 3}
    monkeypatch.setattr(slots, "cpu_cores", lambda: 3)
    assert told() == f"2, one per core (3 cores, 2 GPUs), as 6.0 GiB are free on each GPU and {need}"
    assert Counter(slot.gpu for slot in local.layout_for(spec.cells, out, None)[0]) == {"0": 2, "1": 1}
    monkeypatch.setattr(slots, "cpu_cores", lambda: 64)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-0abc")
    assert told() == f"8, the most, as 40.0 GiB are free and {need}"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a")
    assert told() == f"2, as 4.0 GiB are free and {need}"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    nvml.free["GPU-1abc"] = 2**29
    assert told() == f"1, though only 0.5 GiB are free and {need}"
    trainers = [cell.experiment.trainer for cell in spec.cells]
    assert local.layout_for(spec.cells, out, 5) == (slots.layout(5, trainers), None)


def test_slots_share_cores_and_gpus_as_the_environment_restricts_them(monkeypatch):
    monkeypatch.setattr(slots, "cpu_cores", lambda: 12)
    monkeypatch.setattr(slots, "_devices", lambda *_: GPUS[:4])
    auto, cpu = ([experiment_from({"trainer.device": device}).trainer] for device in ("auto", "cpu"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 3,-1,1")
    assert [slot.gpu for slot in slots.layout(None, auto)] == ["2", "3"] * 6
    assert slots.layout(3, auto)[2] == slots.Slot("2", 4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert slots.layout(None, auto) == [slots.Slot(None, 1)] * 12
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert len({slot.gpu for slot in slots.layout(None, auto)}) == 4
    assert slots.layout(24, cpu) == [slots.Slot(None, 1)] * 24


def test_a_run_on_several_devices_has_a_slot_of_so_many(monkeypatch, file, out, capsys):
    """GPUs are shared out in pairs and none is in two; on the CPU, processes share the cores."""
    monkeypatch.setattr(slots, "cpu_cores", lambda: 12)
    monkeypatch.setattr(slots, "_devices", lambda *_: GPUS)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    one, pair, cpu = (
        experiment_from({"trainer.devices": count, "trainer.device": device}).trainer
        for count, device in ((1, "auto"), (2, "cuda"), (3, "cpu"))
    )
    assert slots.layout(None, [one, pair]) == [slots.Slot("0,1", 3, 2), slots.Slot("2,3", 3, 2)]
    assert [slot.gpu for slot in slots.layout(3, [pair])] == ["0,1", "2,3", "0,1"]
    told = slots.describe(slots.layout(None, [pair]))
    assert told == "2 at a time, 2 processes each with 3 threads (4 GPUs, 12 cores)"
    assert slots.layout(None, [cpu]) == [slots.Slot(None, 1, 3)] * 4
    assert slots.layout(2, [cpu]) == [slots.Slot(None, 2, 3)] * 2
    assert slots.layout(None, [one, cpu])[0] == slots.Slot("0", 1)  # of the runs on GPUs none takes several
    path = file(1, 2)
    path.write_text(path.read_text().replace("{value: cpu}", "{value: auto}\n  trainer.devices: {value: 2}"))
    for gpus in (0, 1):
        monkeypatch.setattr(slots, "_devices", lambda *_, gpus=gpus: GPUS[:gpus])
        assert main(["sweep", str(path), "--runs", str(out)]) == 2
        message = capsys.readouterr().err
        assert f"trainer.devices: expected at most {gpus} GPUs, which this machine has, got 2. Set 1," in message
        assert message.count("\n") == 1
    assert not list(out.iterdir())


def test_an_error_line_holds_no_folder():
    assert error_line(RuntimeError("in /home/me/x/y.py: 3 tokens/s")) == "RuntimeError: in y.py: 3 tokens/s"
    assert error_line(KeyError()) == "KeyError"


def test_a_part_of_a_sweep_says_how_many_of_all_are_its_own(file, out, capsys):
    path = str(file(1, 2, 3, 4, 5))
    assert main(["sweep", path, "--runs", str(out), "--dry-run", "--shard", "1/2"]) == 0
    assert capsys.readouterr().out.startswith("tiny: 3 of 5 declared would run, part 1 of 2\n")


def test_the_time_left_of_a_continued_run_is_that_of_the_steps_it_has_to_make(tmp_path):
    """Steps 600 to 700 of 1000 in 10 s: 0.1 s a step, so 30 s are left, and a run from its start would take 100 s."""
    run = Running("a", tmp_path, began=time.monotonic() - 10)
    progress = Progress(2, 1, running={"a": run})
    (tmp_path / "progress.json").write_text('{"step": 610, "steps": 1000, "from": 600}')
    assert progress.time_left() is None
    (tmp_path / "progress.json").write_text('{"step": 700, "steps": 1000, "from": 600}')
    assert progress.time_left() == pytest.approx(100 + 30, abs=0.5)
    progress.ended(run)  # after 10 s
    assert progress.durations == [pytest.approx(25, abs=0.1)]
