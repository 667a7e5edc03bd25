"""Stand-ins for training: each takes an experiment and its folder, and leaves a record, or does not."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

from study import errors, files
from study.config import config_hash, experiment_id, recorded
from study.errors import InputError
from study.store import records

PATIENCE = 240
"""Seconds after which something that should have happened has not: a machine may be busy."""


def note(folder, line):
    """Append a line to the journal that all trials of a folder share."""
    with (folder.parent / "journal").open("a") as journal:
        journal.write(line + "\n")


def say(folder):
    """Tell who waits for it that this trial has begun, or made a step."""
    with (folder.parent / "started").open("w") as pipe:
        pipe.write("x")


def journal(folder):
    """Return the lines of the journal of a folder of runs, with their numbers."""
    return Counter((folder / "journal").read_text().splitlines())


def finish(experiment, folder, status="finished", history=()):
    record = records.Record(
        protocol=1,
        id=experiment_id(experiment),
        status=status,
        config=recorded(experiment),
        config_hash=config_hash(experiment),
        seed=experiment.seed,
        history=list(history),
    )
    files.write(folder / "record.json", records.dumps(record))


def quick(experiment, folder):
    note(folder, experiment_id(experiment))
    print("training")
    finish(experiment, folder)


def fated(experiment, folder):
    """Seed 1 fails once. 2 raises, 3 leaves a process and is killed, 4 diverges, 5 exits, 6 forgets its record, 7 is
    given something wrong.
    """
    note(folder, f"seed {experiment.seed}")
    match experiment.seed:
        case 1 if not (folder / "failed").exists():
            (folder / "failed").touch()
            raise RuntimeError("once")
        case 2:
            raise OSError(f"cannot read {folder}/secret.txt\nand more")
        case 3:
            left = subprocess.Popen(["sleep", "600"])
            (folder / "left").write_text(str(left.pid))
            os.kill(os.getpid(), signal.SIGKILL)
        case 4:
            finish(experiment, folder, "diverged")
        case 5:
            os._exit(7)
        case 6:
            return
        case 7:
            raise InputError("no such corpus")
        case _:
            finish(experiment, folder)


def telling(experiment, folder):
    """Write down what a trial finds."""
    found = {name: value for name, value in os.environ.items() if name.startswith("WANDB_")}
    found |= {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES")}
    (folder / "told.json").write_text(json.dumps({"env": found, "threads": experiment.trainer.threads}))
    finish(experiment, folder)


def together(experiment, folder):
    """Hold the lease until two launchers have a trial under way, so that their calls do overlap."""
    launcher = multiprocessing.parent_process().pid
    note(folder, f"{experiment_id(experiment)} {launcher}")
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        lines = (folder.parent / "journal").read_text().splitlines()
        if len({line.split()[1] for line in lines}) == 2:
            break
        time.sleep(0.01)
    finish(experiment, folder)


def stoppable(experiment, folder):
    """The first attempt of seeds 1 and 2 leaves a checkpoint, says so and waits; the next one finishes."""
    checkpoint = folder / "checkpoint"
    note(folder, f"{experiment.seed} {'resumed' if checkpoint.exists() else 'new'}")
    if experiment.seed <= 2 and not checkpoint.exists():
        checkpoint.write_text(str(multiprocessing.parent_process().pid))
        say(folder)
        time.sleep(600)
    finish(experiment, folder)


def removed(experiment, folder):
    """The folder of seed 1 is removed under its first attempt, which then cannot write."""
    note(folder, f"{experiment.seed}")
    if journal(folder.parent)["1"] == experiment.seed == 1:
        shutil.rmtree(folder)
        (folder / "history.jsonl").write_text("")
    finish(experiment, folder)


def no_room(experiment, folder):
    """Seed 1 meets a full disk while seed 2 waits."""
    if experiment.seed == 1:
        errors.shutil.disk_usage = lambda folder: SimpleNamespace(free=0)
        with Path("/dev/full").open("w") as full:
            full.write("weights")
    time.sleep(600)


def stubborn(experiment, folder):
    """Does not end when asked."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(folder)
    time.sleep(600)


STEPS = 8


def stepping(experiment, folder):
    """Each step is a function of the one before; one that is not kept in the checkpoint is made again."""
    files.write(folder / "pid", str(os.getpid()))
    checkpoint = folder / "checkpoint"
    state = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"step": 0, "value": experiment.seed}
    while state["step"] < STEPS:
        state = {"step": state["step"] + 1, "value": (state["value"] * 1103515245 + state["step"]) % 2**31}
        files.write(checkpoint, json.dumps(state))
        if (folder.parent / "started").exists():
            say(folder)
    finish(experiment, folder, history=[state])
