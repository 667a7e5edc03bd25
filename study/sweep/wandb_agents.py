"""The W&B engine: its server hands out the runs, one agent a slot makes them, and the local engine what is missing.

The server forgets failed points, and an agent that gave up ends with status 0, so neither is believed: the folder of
runs decides. A sweep of the same file that the server still has is continued by the local engine alone.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import wandb

from study import files, records
from study.config import account
from study.sweep import engine, signals
from study.sweep.file import read_file
from study.sweep.resources import Resources, Slot
from study.sweep.spec import Spec
from study.tracking.tracker import online

POLL = 1.0
"""Seconds between two looks at the agents."""


def run(spec: Spec, job: engine.Job, here: Resources) -> int:
    """Make a whole sweep by agents, and what they leave by the local engine; return as the local engine does.

    Raises:
        InputError: no account, no network, a key that the server refuses, or a run asks for more GPUs than there are.
    """
    for task in job.due():  # a user asks for those that W&B has stopped
        (job.out / task.id / records.STOPPED).unlink(missing_ok=True)
    layout = job.layout(here)[: len(job.due())]
    with online():
        sweep, new = _sweep(spec, job.out)
    if new:
        told = here.describe(layout, [task.experiment for task in job.tasks])
        print(f"{len(layout)} agents, {told}; logs in {job.out / 'agents'}", flush=True)
        with signals.noted() as asked:
            (job.out / "agents").mkdir(parents=True, exist_ok=True)
            start, out = multiprocessing.get_context("spawn").Process, job.out.resolve()
            agents = [start(target=agent, args=(sweep, out, *one)) for one in enumerate(layout)]
            for one in agents:
                one.start()
            while not asked and any(one.is_alive() for one in agents):
                time.sleep(POLL)
            for one in agents:
                one.kill()  # its run ends with it
        if asked:
            print("interrupted: the same command again continues this sweep")
            return 128 + asked[0]
    names = ("WANDB_ENTITY", "WANDB_PROJECT", "WANDB_SWEEP_ID")
    named = {"WANDB_MODE": "online", **dict(zip(names, sweep.split("/"), strict=True))}
    left = tuple(task for task in job.tasks if not (job.out / task.id / records.STOPPED).exists())
    if stopped := len(job.tasks) - len(left):
        print(f"{stopped} runs were stopped in W&B; the same command again continues them", flush=True)
    return engine.run(replace(job, tasks=left, environment=named), here) or int(stopped > 0)


def script(spec: Spec, out: Path, layout: Sequence[Slot]) -> str:
    """Return the lines for a shell that make a sweep by agents."""
    create = f"sweep=$(wandb sweep {shlex.quote(str(spec.path))} 2>&1 | sed -n 's/.*wandb agent //p')"
    runs = f"STUDY_RUNS={shlex.quote(str(out.resolve()))}"
    gpus = ["" if slot.gpu is None else f" CUDA_VISIBLE_DEVICES={slot.gpu}" for slot in layout]
    return "\n".join([create, *(f'env {runs}{gpu} wandb agent "$sweep" &' for gpu in gpus), "wait"])


def _sweep(spec: Spec, out: Path) -> tuple[str, bool]:
    """Return the sweep of this file on the server as entity/project/id, and whether it has just been made."""
    known = out / f"wandb-sweep-{spec.sweep_id}"
    if known.exists():
        path = files.read_text(known, below=out).strip()
        with contextlib.suppress(wandb.Error, ValueError):  # not there any more
            print(f"continuing the sweep {wandb.Api().sweep(path).url}", flush=True)  # type: ignore[no-untyped-call]
            return path, False
    tree = read_file(spec.path)
    project = os.environ.get("WANDB_PROJECT") or tree.get("project") or account.PROJECT
    entity = os.environ.get("WANDB_ENTITY") or tree.get("entity") or wandb.Api().default_entity
    path = f"{entity}/{project}/{wandb.sweep(tree, entity=entity, project=project)}"  # prints the address
    files.write(known, path + "\n")
    return path, True


def agent(sweep: str, out: Path, number: int, slot: Slot) -> None:
    """The process of one agent: the client's own loop, until the server or the launcher ends it."""
    os.setpgid(0, 0)  # Ctrl-C is for the launcher to answer
    signals.with_parent()
    for name in account.OF_A_PROCESS:
        os.environ.pop(name, None)
    os.environ |= {"WANDB_DIR": str(out / "agents"), "STUDY_RUNS": str(out), "OMP_NUM_THREADS": str(slot.threads)}
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # has `python`
    if slot.gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = slot.gpu
    with (out / "agents" / f"{number}.log").open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    wandb.agent(sweep)
