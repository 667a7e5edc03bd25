"""Nothing is lost: trials that fail, hang or are killed, broken GPUs, full disks, and machines that share a folder."""

import itertools
import os
import random
import re
import select
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

import pytest
import sweep_trials
from filelock import lock_descriptor
from sweep_launch import launch
from sweep_trials import PATIENCE

from study import records
from study.__main__ import main
from study.commands.sweep import _shard
from study.errors import InputError
from study.sweep import disk, lease, local, server, slots
from study.sweep.local import Policy, run_sweep
from study.sweep.outcome import cause
from study.sweep.signals import Interrupts
from study.sweep.spec import load


def by_seed(spec, out):
    return {cell.experiment.seed: records.read(out / cell.id / "record.json") for cell in spec.cells}


def test_trials_are_run_again_as_often_as_asked_and_ended_at_their_limit(file, out, capsys):
    spec = load(file(1, 2, 3, 4))
    assert run_sweep(spec, out, 3, trial=sweep_trials.flaky, policy=Policy(1, 2.0)) == 1
    found = by_seed(spec, out)
    assert found[1].status == "finished"
    assert found[2].error == "ValueError: always"
    assert found[3].error == "no such corpus"
    assert found[4].error == "not done within its time limit of 2 s; its log ends: waiting for never"
    journal = (out / "journal").read_text().splitlines()
    assert [journal.count(f"seed {seed}") for seed in (1, 2, 3, 4)] == [2, 2, 1, 2]
    assert "ValueError: always (tried 2 times)" in capsys.readouterr().out
    left = int((out / found[4].id / "left").read_text())
    assert not Path(f"/proc/{left}").exists() or "Z" in Path(f"/proc/{left}/stat").read_text().rpartition(")")[2]


def test_an_end_is_told_with_the_last_words(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("--- 2026-01-01 00:00:00 UTC ---\nearlier\n--- 2026-01-02 00:00:00 UTC ---\n\n")
    assert cause(-9, log) == "killed by signal 9 (SIGKILL)"
    assert cause(-9, log, memory=True).startswith("killed by signal 9 (SIGKILL), as the kernel did for want of memory")
    log.write_text(log.read_text() + "Fatal Python error: Segmentation fault\n\n  File /a/b.py\n")
    assert cause(-11, log) == "killed by signal 11 (SIGSEGV); its log ends: Fatal Python error: Segmentation fault"


def test_a_broken_gpu_is_taken_out_and_its_runs_are_made_elsewhere(file, out, monkeypatch, capsys):
    monkeypatch.setattr(slots, "layout", lambda *_: [slots.Slot("0", 1), slots.Slot("1", 1)])
    spec = load(file(*range(1, 7)))
    out.mkdir()
    (out / "journal").touch()
    assert run_sweep(spec, out, trial=sweep_trials.on_gpu, policy=Policy(retries=0)) == 0
    assert (out / "journal").read_text().count("broken") == slots.SUSPECT
    printed = capsys.readouterr().out
    assert "GPU 1 is taken out: 3 runs in a row failed on it" in printed
    assert "6 of 6 runs done, 0 failed" in printed


def test_a_gpu_is_judged_by_what_the_others_do():
    pool = slots.Pool([slots.Slot("0", 1), slots.Slot("1", 1)])
    for run in "abc":
        pool.failed("1", run)
    assert pool.take().gpu == "0"
    assert pool.take() is None  # suspected, and nothing has succeeded elsewhere yet
    assert not pool.out
    pool.succeeded("0")
    assert pool.out == {"1"}
    pool.failed("0", "a")  # the run's fault after all
    assert not pool.out
    assert pool.take(avoid={"0"}).gpu == "1"
    alone = slots.Pool([slots.Slot(None, 1)])
    for run in "abcd":
        alone.failed(None, run)
    assert alone.take(avoid={None})
    assert not alone.out


def test_a_full_disk_stops_the_sweep_in_one_line(file, out):
    spec = load(file(1, 2))
    with pytest.raises(InputError, match=r"the disk is full\. Make room; the same command"):
        run_sweep(spec, out, 2, trial=sweep_trials.no_room)
    assert records.state(out / spec.cells[0].id) == "started"
    assert records.state(out / spec.cells[1].id) in ("started", "missing")  # it may not have come so far
    assert not any(lease.held(out / cell.id) for cell in spec.cells)
    assert "cannot be written" in disk.problem(out / "absent")
    assert disk.problem(out) is None


def test_shards_are_a_partition_and_wrong_ones_are_refused(file, capsys):
    cells = load(path := file(*range(1, 8))).cells
    parts = [[cell.id for cell in _shard(cells, (index, 3))] for index in (1, 2, 3)]
    assert sorted(map(len, parts)) == [2, 2, 3]
    assert sorted(itertools.chain(*parts)) == sorted(cell.id for cell in cells)
    assert parts[1] == [cell.id for cell in _shard(cells[::-1], (2, 3))][::-1]
    for option in ("--shard=0/4", "--shard=5/4", "--shard=1/0", "--shard=1", "--retries=-1", "--time-limit=0s"):
        assert main(["sweep", str(path), option]) == 2
        assert capsys.readouterr().err.count("\n") == 1


HOLDER = """
import sys, time
from pathlib import Path
from study.sweep import lease
lease.BEAT = 0.05
with lease.holding(Path(sys.argv[1])):
    print(flush=True)
    time.sleep(600)
"""


def claim_of_another_machine(run):
    """Let a claim of this machine seem to be one of another."""
    (claim,) = run.glob("claim.*")
    claim.write_text(re.sub("^host=.*", "host=there", claim.read_text(), flags=re.MULTILINE))
    return claim


@pytest.mark.parametrize("locks", [True, False], ids=["the dead one's lock is kept", "no locks"])
def test_a_run_of_another_machine_is_taken_over_once_it_is_silent(locks, tmp_path, monkeypatch):
    """The other machine is a process that is stopped. When it goes on, it finds that its run is taken, and ends."""
    run = tmp_path / "run"
    theirs = subprocess.Popen([sys.executable, "-c", HOLDER, run], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    theirs.stdout.readline()
    if not locks:
        monkeypatch.setattr(lease, "_lock", lambda *_: None)
    claim = claim_of_another_machine(run)
    assert lease.held(run)
    assert lease.acquire(run) is None
    theirs.send_signal(signal.SIGSTOP)
    os.waitpid(theirs.pid, os.WUNTRACED)
    long_ago = time.time() - lease.LIMIT - 5
    os.utime(claim, (long_ago, long_ago))
    assert not lease.held(run)
    ours = lease.acquire(run)
    assert ours is not None
    assert lease.acquire(run) is None
    theirs.send_signal(signal.SIGCONT)
    assert "another machine has taken this run over" in theirs.communicate(timeout=PATIENCE)[1].decode()
    assert theirs.returncode == -signal.SIGTERM
    assert lease.held(run)
    assert not ours.lost
    ours.release()
    assert not lease.held(run)
    assert os.listdir(run) == [lease.FILE]


def test_a_claim_that_appears_beside_a_new_one_decides(tmp_path, monkeypatch):
    """Two find the same stale claim. One takes the run over and gives it back, a third takes it; the second is late."""
    run, made = tmp_path / "run", lease.Lease.__init__
    with lease.holding(tmp_path / "third"):
        of_the_third = (tmp_path / "third" / "claim.1").read_text()
    run.mkdir()
    (run / "claim.1").write_text("stale")
    os.utime(run / "claim.1", (0, 0))

    def late(*given):
        made(*given)
        (run / "claim.1").write_text(of_the_third)

    monkeypatch.setattr(lease, "_lock", lambda *_: None)
    monkeypatch.setattr(lease.Lease, "__init__", late)
    assert lease.acquire(run) is None
    assert sorted(os.listdir(run)) == ["claim.1", lease.FILE]
    assert lease.held(run)


def test_a_claim_from_the_future_ends_too(tmp_path):
    """The file server's clock was set back: such a claim would never get old."""
    run = tmp_path / "run"
    theirs = lease.acquire(run)
    claim_of_another_machine(run)
    ahead = time.time() + 10**6
    os.utime(theirs.claim, (ahead, ahead))
    assert not lease.held(run)  # so that a launcher tries
    assert lease.acquire(run) is None
    assert abs(theirs.claim.stat().st_mtime - time.time()) < 60  # from here on it ages like any other
    assert lease.held(run)
    theirs.release()


def test_who_looks_takes_and_touches_nothing(tmp_path):
    """An interrupted run has a claim but no holder: whoever looks must not make it seem held."""
    run = tmp_path / "run"
    dead = lease.acquire(run)
    os.close(dead.descriptor)
    before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
    assert not lease.held(run)
    assert {path.name: path.stat().st_mtime_ns for path in run.iterdir()} == before
    looker = os.open(run / lease.FILE, os.O_RDONLY)
    lock_descriptor(looker)  # as another process does for the moment of its look
    threading.Timer(0.05, os.close, [looker]).start()
    ours = lease.acquire(run)
    assert ours is not None
    ours.release()


def test_stray_files_are_no_claims_and_a_pipe_is_no_lease(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("claim.1~", "claim.1 (conflicted copy)", "claim.٣", "claim.99999999999999999999"):
        (run / name).touch()
    (run / "claim.1").write_bytes(b"\xff\xfe")  # of another machine, as far as one can tell
    assert lease.held(run)
    assert lease.acquire(run) is None
    moments_ago = time.time() - 3 * lease.BEAT
    os.utime(run / "claim.1", (moments_ago, moments_ago))
    assert not lease.held(run)  # who made it died before its first line was written
    lease.acquire(run).release()
    (run / lease.FILE).unlink()
    os.mkfifo(run / lease.FILE)
    with pytest.raises(InputError, match="expected a file, got a pipe"):
        lease.acquire(run)


def test_a_lease_is_renewed_while_it_is_held_and_a_run_taken_over_ends(tmp_path, monkeypatch, capsys):
    run, asked = tmp_path / "run", threading.Event()
    monkeypatch.setattr(lease, "BEAT", 0.01)
    monkeypatch.setattr(lease.os, "kill", lambda pid, number: number == signal.SIGTERM and asked.set())
    with lease.holding(run):
        (claim,) = run.glob("claim.*")
        os.utime(claim, (0, 0))
        while claim.stat().st_mtime == 0:
            time.sleep(0.005)
        with pytest.raises(InputError, match=r"another process runs this now .*claim\.1.*\. Wait for it"):
            lease.holding(run).__enter__()
        claim.unlink()  # as who takes it over does
        assert asked.wait(30)
        (run / "checkpoint.ckpt").touch()
    assert "another machine has taken this run over" in capsys.readouterr().err
    assert sorted(os.listdir(run)) == ["checkpoint.ckpt", lease.FILE]


def test_a_run_in_which_nothing_was_done_leaves_no_folder(tmp_path):
    with pytest.raises(InputError, match="no such corpus"), lease.holding(tmp_path / "runs" / "run"):
        raise InputError("no such corpus")
    assert not list(tmp_path.iterdir())


class Steps:
    """Counts the steps that trials say they have made."""

    def __init__(self, out):
        os.mkfifo(out / "started")
        self.pipe = os.open(out / "started", os.O_RDWR | os.O_NONBLOCK)

    def wait(self, count):
        for _ in range(count):
            assert select.select([self.pipe], [], [], PATIENCE)[0], "no trial makes steps"
            os.read(self.pipe, 1)


def servers_of(launcher):
    """The process that its trials are forked from, or none."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == launcher.pid and b"forkserver" in (stat.parent / "cmdline").read_bytes():
                yield int(stat.parent.name)
        except OSError:
            continue


def test_whatever_is_killed_the_records_are_those_of_an_undisturbed_sweep(file, out, tmp_path):
    spec = load(path := file(1, 2, 3, 4))
    calm = tmp_path / "calm"
    assert run_sweep(spec, calm, 2, trial=sweep_trials.stepping) == 0
    out.mkdir()
    steps, draw = Steps(out), random.Random(1)
    launcher = launch(path, out, "stepping")
    for victim in ("trial", "server", "launcher", "trial"):
        steps.wait(draw.randint(1, 4))
        if victim == "launcher":
            launcher.kill()
            launcher.communicate()
            launcher = launch(path, out, "stepping")
            continue
        trials = [int(pid.read_text()) for pid in out.glob("*/pid") if lease.held(pid.parent)]
        for pid in draw.sample(trials, 1) if victim == "trial" and trials else servers_of(launcher):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    printed = launcher.communicate(timeout=PATIENCE)[0]
    if launcher.returncode:  # one trial was hit more often than it is tried in one call
        assert launcher.returncode == 1, printed
        assert run_sweep(spec, out, 2, trial=sweep_trials.stepping) == 0
    for cell in spec.cells:
        assert (out / cell.id / "record.json").read_bytes() == (calm / cell.id / "record.json").read_bytes()


def test_a_second_interrupt_ends_at_once(file, out):
    out.mkdir()
    steps = Steps(out)
    launcher = launch(file(1, 2), out, "stubborn")
    steps.wait(2)
    launcher.send_signal(signal.SIGINT)
    while "stopping" not in launcher.stdout.readline():
        pass
    launcher.send_signal(signal.SIGINT)
    printed = launcher.communicate(timeout=PATIENCE)[0]
    assert launcher.returncode == local.INTERRUPTED
    assert "Traceback" not in printed
    assert not any(lease.held(out / cell.id) for cell in load(file(1, 2)).cells)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupt_while_another_is_answered_is_kept_and_tears_nothing(number):
    before = signal.getsignal(number), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Interrupts() as interrupts:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
            assert not interrupts.again
            signal.raise_signal(number)
            assert interrupts.again
        with Interrupts() as interrupts:
            interrupts.answer()
            signal.raise_signal(number)
            assert interrupts.again
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            assert not interrupts.again
    finally:
        signal.signal(signal.SIGINT, before[1])
    assert signal.getsignal(number) == before[0]


def test_the_fork_server_starts_with_interrupts_blocked(monkeypatch):
    """Ctrl-C while it imports would print a traceback. The start of multiprocessing's tracker unblocks SIGINT."""
    masks, started = [], []

    def tracker():
        if not started:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        started.append(True)

    def running():
        tracker()
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))

    monkeypatch.setattr(resource_tracker, "ensure_running", tracker)
    monkeypatch.setattr(forkserver, "ensure_running", running)
    server.start(sweep_trials.quick, 1)
    assert masks[0] >= set(server.BLOCKED)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & set(server.BLOCKED)


def test_an_interrupt_is_answered_when_nobody_reads_any_more(file, out, capsys):
    """Ctrl-C in `make sweep | tee log` ends tee too: the trials are stopped, and the status is not that of success."""
    out.mkdir()
    steps = Steps(out)
    launcher = launch(file(2, 3), out, "interruptible")
    steps.wait(2)
    launcher.stdout.close()
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(timeout=PATIENCE) == local.INTERRUPTED
    assert not any(lease.held(out / cell.id) for cell in load(file(2, 3)).cells)
