"""The local engine with real processes, killed for real. Only the training is a stand-in."""

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest
import sweep_trials
import yaml
from launching import PATIENCE, Started, launch, run_sweep
from processes import descendants, parents, until
from sweep_trials import journal
from tiny_sweep import GRAPH

from study import errors, files
from study.__main__ import main
from study.commands import sweep
from study.engine import lease, places
from study.errors import InputError
from study.store import records
from study.sweep.spec import load
from study.tracking.view import PLACES, Place, place_of


def by_seed(spec, out):
    return {cell.experiment.seed: records.read(out / cell.id / "record.json") for cell in spec.cells}


def test_whatever_a_trial_does_the_sweep_goes_on_and_says_so(file, out, capsys):
    """Only the last attempt leaves a record of its failure. What is given wrongly is not tried again."""
    spec = load(file(*range(1, 8)))
    assert run_sweep(spec, out, 3, sweep_trials.fated, retries=1) == 1
    found = by_seed(spec, out)
    told = {seed: record.status for seed, record in found.items()}
    assert told == {1: "finished", 4: "diverged"} | dict.fromkeys((2, 3, 5, 6, 7), "failed")
    assert found[2].error == "OSError: cannot read secret.txt"
    assert found[3].error == "killed by signal 9 (SIGKILL), as the kernel does when memory is short"
    assert found[5].error == "ended with exit status 7 and no record"
    assert found[7].error == "no such corpus"
    assert [journal(out)[f"seed {seed}"] for seed in range(1, 8)] == [2, 2, 2, 1, 2, 2, 1]
    assert str(out) not in (out / found[2].id / "record.json").read_text()
    assert "Traceback" in (out / found[2].id / "log.txt").read_text()
    printed = capsys.readouterr().out
    assert "2 of 7 runs done, 5 failed" in printed
    assert "  diverged  seed=4: " in printed
    assert f"again    {found[2].id}  seed=2: OSError: cannot read secret.txt" in printed
    assert printed.count("failed  ") == 10, "each of five runs once as an event and once in the list"
    assert all(str(out / found[seed].id / "log.txt") in printed for seed in (2, 3, 5, 6))
    assert int((out / found[3].id / "left").read_text()) not in parents()

    kept = {seed: (out / found[seed].id / "record.json").stat().st_mtime_ns for seed in (1, 4)}
    assert run_sweep(spec, out, 2, sweep_trials.quick) == 0
    assert {record.status for record in by_seed(spec, out).values()} == {"finished", "diverged"}
    assert {seed: (out / found[seed].id / "record.json").stat().st_mtime_ns for seed in kept} == kept
    assert all(journal(out)[found[seed].id] == 1 for seed in (2, 3, 5, 6, 7))


def test_a_full_disk_stops_the_sweep_in_one_line(file, out, monkeypatch):
    spec = load(file(1, 2))
    monkeypatch.setattr(errors.shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    with pytest.raises(InputError, match=r"the disk is full \(No space left on device\)\. Make room; the same command"):
        run_sweep(spec, out, 2, sweep_trials.no_room)
    assert records.state(out / spec.cells[0].id) == "started"
    assert records.state(out / spec.cells[1].id) in ("started", "missing")  # it may not have come so far
    assert not any(lease.held(out / cell.id) for cell in spec.cells)


def test_the_folder_of_a_run_may_be_removed_under_it(file, out):
    """It is due again, and the other runs go on."""
    spec = load(file(1, 2, 3))
    assert run_sweep(spec, out, 1, sweep_trials.removed) == 0
    assert set(by_seed(spec, out)) == {1, 2, 3}
    assert journal(out) == {"1": 2, "2": 1, "3": 1}


def test_a_trial_finds_what_an_agent_would_have_set_and_leaves_no_litter(file, out, monkeypatch):
    monkeypatch.setenv("WANDB_SWEEP_ID", "of-the-caller")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    spec = load(file(1, 2))
    cell = spec.cells[1]
    (out / cell.id).mkdir(parents=True)
    for name in (".checkpoint.ckpt.0a1b2c3d.study.tmp", "checkpoint.ckpt"):  # of attempts that were killed
        (out / cell.id / name).touch()
    assert run_sweep(spec, out, 1, sweep_trials.telling) == 0
    assert sorted(os.listdir(out / cell.id)) == ["lease", "log.txt", "record.json", "told.json"]
    told = json.loads((out / cell.id / "told.json").read_text())
    offline = {"WANDB_MODE": "offline", "WANDB_RUN_ID": cell.id, "WANDB_DIR": str(out / cell.id)}
    assert told["env"].items() >= offline.items()
    assert not told["env"].keys() & {"WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH"}, "a sweep that no server has"
    assert told["threads"] == 1  # of a small model
    assert place_of(out, cell.id) == Place(sweep=("tiny",), arm="base", baseline=True)


def test_two_launchers_share_a_folder_without_running_anything_twice(file, out, capsys):
    """They load no heavy libraries, and afterwards there is nothing to do."""
    out.mkdir()
    path = file(*range(1, 7))
    launchers = [launch(path, out, "together", 1) for _ in range(2)]
    printed = [launcher.communicate(timeout=PATIENCE)[0] for launcher in launchers]
    assert [launcher.returncode for launcher in launchers] == [0, 0], printed
    runs = [line.split() for line in journal(out).elements()]
    assert Counter(name for name, _ in runs) == dict.fromkeys((cell.id for cell in load(path).cells), 1)
    assert len({launcher for _, launcher in runs}) == 2
    assert all("6 of 6 runs done, 0 failed" in text for text in printed)
    assert all("heavy:\n" in text for text in printed)
    assert run_sweep(load(path), out) == 0
    assert "nothing to do, all 6 runs are there" in capsys.readouterr().out
    assert journal(out).total() == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_launcher_that_is_stopped_or_killed_takes_all_along_and_is_continued(number, file, out):
    started = Started(out)
    spec = load(path := file(1, 2, 3))
    launcher = launch(path, out, "stoppable")
    started.wait(2)
    below = descendants(launcher.pid)
    launcher.send_signal(number)
    printed = launcher.communicate(timeout=PATIENCE)[0]
    until(lambda: not below & parents().keys(), 60)
    if number != signal.SIGKILL:
        assert launcher.returncode == 128 + number
        assert "the same command again continues" in printed
        assert "Traceback" not in printed
    states = [records.state(out / cell.id) for cell in spec.cells]
    assert states == ["started", "started", "missing"]
    assert run_sweep(spec, out, 2, sweep_trials.stoppable) == 0
    assert journal(out) == dict.fromkeys(["1 new", "1 resumed", "2 new", "2 resumed", "3 new"], 1)


def test_a_second_interrupt_ends_at_once(file, out):
    started = Started(out)
    launcher = launch(file(1, 2), out, "stubborn")
    started.wait(2)
    launcher.send_signal(signal.SIGINT)
    while "stopping" not in launcher.stdout.readline():
        pass
    launcher.send_signal(signal.SIGINT)
    printed = launcher.communicate(timeout=PATIENCE)[0]
    assert launcher.returncode == 130
    assert "Traceback" not in printed
    assert not any(lease.held(out / cell.id) for cell in load(file(1, 2)).cells)


def test_whatever_is_killed_the_records_are_those_of_an_undisturbed_sweep(file, out, tmp_path):
    """A trial, the process that trials are forked from, the launcher and a trial, each somewhere in its steps."""
    spec = load(path := file(1, 2, 3, 4))
    calm = tmp_path / "calm"
    assert run_sweep(spec, calm, 2, sweep_trials.stepping) == 0
    steps, draw = Started(out), random.Random(1)
    launcher = launch(path, out, "stepping")
    for victim in ("trial", "server", "launcher", "trial"):
        steps.wait(draw.randint(1, 4))
        if victim == "launcher":
            launcher.kill()
            launcher.communicate()
            launcher = launch(path, out, "stepping")
            continue
        trials = [int(pid.read_text()) for pid in out.glob("*/pid") if lease.held(pid.parent)]
        servers = [pid for pid in descendants(launcher.pid) if "forkserver" in parents().get(pid, (0, ""))[1]]
        for pid in draw.sample(trials, 1) if victim == "trial" and trials else set(servers) - set(trials):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    printed = launcher.communicate(timeout=PATIENCE)[0]
    if launcher.returncode:  # one trial was hit more often than it is tried in one call
        assert launcher.returncode == 1, printed
        assert run_sweep(spec, out, 2, sweep_trials.stepping) == 0
    for cell in spec.cells:
        assert (out / cell.id / "record.json").read_bytes() == (calm / cell.id / "record.json").read_bytes()


def test_a_folder_that_another_process_runs_is_left_to_it(file, out, printed):
    path = file(1, 2)
    spec = load(path)
    held = lease.acquire(out / spec.cells[0].id)
    assert lease.held(out / spec.cells[0].id)
    assert lease.acquire(out / spec.cells[0].id) is None
    assert not lease.held(out / spec.cells[1].id)
    with pytest.raises(InputError, match="another process runs this now"):
        lease.holding(out / spec.cells[0].id).__enter__()
    told = printed("sweep", path, "--runs", out, "--status")
    assert "running      1" in told
    assert "not started  1" in told
    held.release()
    assert "interrupted  1" in printed("sweep", path, "--runs", out, "--status")


def test_a_lease_needs_locks_and_leaves_no_folder_in_which_nothing_was_done(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="no such corpus"), lease.holding(tmp_path / "run"):
        raise InputError("no such corpus")
    assert not list(tmp_path.iterdir())

    def missing(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lease.FileLock, "acquire", missing)
    with pytest.raises(InputError, match=r"run: the file system has no locks \(No locks available\)"):
        lease.acquire(tmp_path / "run")


def test_who_waits_for_a_lease_gets_it_although_its_folder_goes(tmp_path, monkeypatch):
    """The holder of the lease of a run removes the folder if nothing was done in it."""
    with ThreadPoolExecutor() as pool:
        holders = [pool.submit(lease.acquire, tmp_path / "run").result()]

    def ends(seconds):
        while holders:
            shutil.rmtree(tmp_path / "run")
            holders.pop().release()

    monkeypatch.setattr(time, "sleep", ends)
    mine = lease.acquire(tmp_path / "run", -1)
    assert mine.is_locked
    assert lease.held(tmp_path / "run")


def test_the_commands_of_the_runs_to_do_work_in_a_shell_and_once(tmp_path, monkeypatch, capfd):
    """Quotes and blanks are kept by xargs, by sh and by the JSON inside. The program of the shell prints its words."""
    path, out = tmp_path / "it's small.yaml", tmp_path / "it's mine"
    arms = {"values": ["score=dot tracking.group='a b'", "score=additive"]}
    tree = {"name": "its own", "method": "grid", "metric": {"name": "test/exact"}}
    tree["parameters"] = {"arm": arms, **{name: {"value": value} for name, value in GRAPH.items()}}
    path.write_text(yaml.safe_dump(tree))
    cells = load(path).cells
    monkeypatch.setattr(sweep, "STUDY", (sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"))
    order = ["sweep", str(path), "--runs", str(out), "--print", "commands"]
    assert main(order) == 0
    first, second = capfd.readouterr().out.splitlines()
    assert [path.name for path in out.iterdir()] == [PLACES]
    assert place_of(out, cells[0].id).sweep == ("its own",)
    shell = ["xargs", "-d", "\\n", "-n", "1", "sh", "-c"]
    words = json.loads(subprocess.run(shell, input=f"{first}\n", text=True, check=True, stdout=subprocess.PIPE).stdout)
    assert main(words) == 0
    assert records.read(out / cells[0].id / "record.json").status == "finished"
    capfd.readouterr()
    assert main(order) == 0
    assert capfd.readouterr().out.splitlines() == [second]
    assert main(words) == 0  # nothing is trained again
    assert "this run has a record" in capfd.readouterr().out


@pytest.mark.parametrize("by", ["option", "comment"])
def test_a_blind_sweep_shows_validation_alone(tmp_path, by):
    """A process of its own in an empty folder: it trains and tests, and no test score is printed or put in a table."""
    tree = {"name": "hidden", "method": "grid", "metric": {"name": "test/nll"}}
    tree["parameters"] = {name: {"value": value} for name, value in GRAPH.items()}
    comment = "# blind\n" if by == "comment" else ""
    (tmp_path / "hidden.yaml").write_text(comment + yaml.safe_dump(tree))
    words = [sys.executable, "-P", "-m", "study", "sweep", "hidden.yaml", *(["--blind"] if by == "option" else [])]
    for call in ("first", "again"):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "test/" not in done.stdout + done.stderr
        assert ("valid/nll" in done.stdout) == (call == "first")
        assert "`study report hidden.yaml` shows them" in done.stdout.replace(f"{sys.executable} -P -m ", "")
    assert not (tmp_path / "runs" / "report").exists()
    (path,) = tmp_path.glob("runs/*/record.json")
    assert records.read(path).score("test", "nll") is not None, "the record has it"


def test_an_unreadable_record_is_kept_named_and_status_1(file, out, capsys):
    """The other runs are made. What one can restore is not trained again, by a sweep or by hand."""
    spec = load(file(1, 2, 3))
    assert run_sweep(spec, out, 1, sweep_trials.quick, spec.cells[:2]) == 0
    record = out / spec.cells[0].id / "record.json"
    record.write_text(half := record.read_text()[:300])
    for said in ("2 of 3 runs done, 0 failed\n  unreadable  seed=1", "2 of 3 runs are there, 1 unreadable"):
        assert run_sweep(spec, out, 1, sweep_trials.quick) == 1
        told = capsys.readouterr()
        assert said in told.out
    assert main(["train", "--overrides-json", spec.cells[0].overrides_json, "--runs", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{record}: expected JSON" in line
    assert line.endswith("Restore the file. Or remove its folder, and the run can be made again.")
    assert record.read_text() == half
    shutil.rmtree(record.parent)
    assert run_sweep(spec, out, 1, sweep_trials.quick) == 0
    assert journal(out)[spec.cells[0].id] == 2


def test_a_file_where_a_run_belongs_stops_the_call(file, out, refused):
    path = file(1, 2)
    second = out / load(path).cells[1].id
    out.mkdir()
    second.touch()
    for option in ("--status", "--dry-run", "--slots=1"):
        assert "cannot be read (Not a directory)" in refused("sweep", path, "--runs", out, option)


def test_the_rule_of_supervision_holds_for_a_command_that_an_agent_starts(tmp_path):
    """An agent's `study train` ends when the agent is killed: by SIGTERM, and if that does not help, by SIGKILL."""
    code = (
        "import signal, time\nfrom study import processes\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprocesses.GRACE = 1\nprocesses.with_parent()\n"
        "print('ready', flush=True)\ntime.sleep(600)\n"
    )
    (tmp_path / "child.py").write_text(code)
    agent = subprocess.Popen(
        ["sh", "-c", f"{sys.executable} {tmp_path}/child.py & echo $!; wait"], stdout=subprocess.PIPE, text=True
    )
    child = int(agent.stdout.readline())
    assert agent.stdout.readline() == "ready\n"
    agent.kill()
    agent.wait()
    assert until(lambda: child not in parents(), 60) < 30


def test_the_command_lists_and_narrows(file, out, printed):
    path = str(file(1, 2, 3))
    told = printed("sweep", path, "--runs", out, "--dry-run", "--seeds", "2")
    assert "seed=2" in told
    assert "seed=3" not in told
    assert "time: about " in told  # from published runs
    told = printed("sweep", path, "--runs", out, "--dry-run", "--only", "seed=[12]*", "--only", "*=2*")
    assert ("seed=1" in told, "seed=2" in told, "seed=3" in told) == (False, True, False)
    given = ["sweep", "recipe_hard", "--runs", str(out), "--seeds", "101", "--unpublished"]
    assert printed(*given, "--dry-run").startswith("recipe_hard: 0 of 12 declared would run")
    assert printed(*given).startswith("recipe_hard: nothing to do, all 0 runs are there\n")
    assert not out.exists()


BAD = {
    ("--runs", "taken"): "expected a folder of runs",
    ("--status", "--runs", "taken"): "expected a folder of runs",
    ("--seeds", "9"): "--seeds: expected some of 1, 2, 3, got 9.",
    ("--only", "zebra"): "no run of",
    ("--only", "seed=1", "--only", "seed=2"): "'seed=1' and 'seed=2'",
    ("--retries=-1",): "--retries",
}


@pytest.mark.parametrize("words", BAD)
def test_a_wrong_option_is_one_line(words, file, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    assert BAD[words] in refused("sweep", file(1, 2, 3), *words)


def test_two_sweeps_that_start_at_once_on_one_folder_both_keep_their_places(file, out, monkeypatch):
    """Each waits, once it has read the file, for the other one to have read it, too: a lock makes that impossible."""
    files.write(out / PLACES, "{}")
    specs = [load(file(1)), load(file(2))]
    both, read_json = threading.Barrier(2, timeout=0.1), files.read_json

    def read(path, **limits):
        found = read_json(path, **limits)
        with suppress(threading.BrokenBarrierError):
            both.wait()
        return found

    monkeypatch.setattr(files, "read_json", read)
    starting = [threading.Thread(target=places.write, args=(spec, out)) for spec in specs]
    for one in starting:
        one.start()
    for one in starting:
        one.join()
    assert {cell.id for spec in specs for cell in spec.cells} == set(read_json(out / PLACES, below=out))
