"""The W&B engine: its server hands out the runs, one agent a slot makes them, and the local engine what is missing.

The server forgets failed points, and an agent that gave up ends with status 0, so neither is believed: the folder of
runs decides. A sweep that has been made before is continued by the local engine alone.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import wandb

from study import files, processes
from study.config import Experiment, account, experiment_id
from study.config.overrides import flat
from study.config.words import label_words
from study.engine import local, places
from study.engine.resources import Resources, Slot
from study.errors import InputError
from study.store import records
from study.sweep.fields import SEED, text
from study.sweep.file import read_yaml
from study.sweep.spec import Spec, load
from study.tracking.tracker import START, cause, mode, online, within
from study.tracking.view import Place, place_of

AGENT = """
from study import processes
from wandb.cli.cli import cli
processes.with_parent()
cli()
"""
"""W&B's command, which ends with the process that has started it."""


def run(spec: Spec, job: local.Job, machine: Resources) -> int:
    """Make a whole sweep by agents, and what they leave by the local engine; return as the local engine does.

    Raises:
        InputError: no account, no network, or a key that the server refuses.
    """
    for task in job.due():  # a user asks for those that W&B has stopped
        (job.out / task.id / records.STOPPED).unlink(missing_ok=True)
    address = job.out / f"wandb-sweep-{spec.sweep_id}"
    if address.exists():
        path = files.read_text(address, below=job.out).strip()
        print("continuing the W&B sweep", path, flush=True)
    else:
        tree = read_yaml(spec.path)
        with online():
            project = os.environ.get("WANDB_PROJECT") or tree.get("project") or account.PROJECT
            entity = os.environ.get("WANDB_ENTITY") or tree.get("entity") or wandb.Api().default_entity
            path = f"{entity}/{project}/{wandb.sweep(tree, entity=entity, project=project)}"  # prints the address
        files.write(address, path + "\n")
        if code := _agents(path, job, machine):
            return code
    names = ("WANDB_ENTITY", "WANDB_PROJECT", "WANDB_SWEEP_ID")
    of_sweep = dict(zip(names, path.split("/"), strict=True))
    left = tuple(task for task in job.tasks if not (job.out / task.id / records.STOPPED).exists())
    if stopped := len(job.tasks) - len(left):
        print(f"{stopped} runs were stopped in W&B; the same command again continues them", flush=True)
    rest = replace(job, tasks=left, environment={"WANDB_MODE": "online", **of_sweep})
    return local.run(rest, machine) or int(stopped > 0)


def script(spec: Spec, out: Path, layout: Sequence[Slot]) -> str:
    """Return the lines for a shell that make a sweep by agents."""
    create = f"sweep=$(wandb sweep {shlex.quote(str(spec.path))} 2>&1 | sed -n 's/.*wandb agent //p')"
    runs = f"STUDY_RUNS={shlex.quote(str(out.resolve()))}"
    gpus = ["" if slot.gpu is None else f" CUDA_VISIBLE_DEVICES={slot.gpu}" for slot in layout]
    return "\n".join([create, *(f'env {runs}{gpu} wandb agent "$sweep" &' for gpu in gpus), "wait"])


def find_place(experiment: Experiment, given: Mapping[str, Any], out: Path, sweeps: Path) -> None:
    """Write the place of a run that an agent has started into the folder of runs, as `study sweep` does for its file.

    W&B's server knows the sweep. If its file is at hand, it gives the tags and the order of the fields, too. Without an
    answer the run is named by its own fields.

    Args:
        experiment: the run.
        given: its fields as the agent gives them.
        out: folder of the runs.
        sweeps: folder of sweep files; its file may lie in the working directory, too.
    """
    identity, trees = experiment_id(experiment), list[dict[str, Any]]()
    sweep = [os.environ.get(name, "") for name in ("WANDB_ENTITY", "WANDB_PROJECT", "WANDB_SWEEP_ID")]
    try:
        if mode() != "online":
            return
        api: Any = wandb.Api()
        within(START, lambda: trees.append(api.sweep("/".join(sweep)).config))
        (tree,) = trees
        if tree.get("name", sweep[-1]) not in place_of(out, identity).sweep:
            places.add(_declared(tree, sweeps, sweep[-1]) or {identity: _drawn(tree, given, sweep[-1])}, out)
    except Exception as problem:
        print(f"W&B: the sweep of this run is not known: {cause(problem)}", flush=True)


def _declared(tree: dict[str, Any], sweeps: Path, name: str) -> dict[str, Place]:
    """Return the place of every run of a grid, by its file or else by the server's copy; empty for another sweep."""
    with TemporaryDirectory(prefix="study-sweep-") as folder:
        copy = Path(folder, f"{name}.yaml")
        copy.write_text(json.dumps(tree), encoding="utf-8")
        for file in (*sorted(sweeps.glob("*.yaml")), *sorted(Path().glob("*.yaml")), copy):
            with suppress(InputError):
                if read_yaml(file) == tree:
                    return places.places([load(file)])
    return {}


def _drawn(tree: dict[str, Any], given: Mapping[str, Any], name: str) -> Place:
    """Return the place of a run whose fields the server has drawn: its arm is what may vary."""
    fixed = {SEED}
    for name, value in flat(tree["parameters"]):
        field, _, kind = name.replace(".parameters.", ".").rpartition(".")
        if kind == "value" or (kind == "values" and len(value) == 1):
            fixed.add(field)
    arm = " ".join(f"{field.rpartition('.')[2]}={text(value)}" for field, value in given.items() if field not in fixed)
    return Place(
        sweep=(tree.get("name", name),), question=tree.get("description", ""), arm=" · ".join(label_words(arm))
    )


def _agents(sweep: str, job: local.Job, machine: Resources) -> int:
    """Start an agent for each slot, and wait until all have ended; return 130 or 143 if a signal ended it, else 0."""
    logs = job.out / "agents"
    environment = {name: value for name, value in os.environ.items() if name not in account.OF_A_PROCESS}
    environment |= {"STUDY_RUNS": str(job.out.resolve()), "WANDB_DIR": str(logs.resolve())}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # has `python`
    logs.mkdir(parents=True, exist_ok=True)
    agents = []
    with processes.noted() as signals:
        for number, slot in enumerate(job.layout(machine)[: len(job.due())]):
            more = {"OMP_NUM_THREADS": str(slot.threads)}
            more |= {} if slot.gpu is None else {"CUDA_VISIBLE_DEVICES": slot.gpu}
            with (logs / f"{number}.log").open("ab") as log:
                started = subprocess.Popen(
                    [sys.executable, "-P", "-c", AGENT, "agent", sweep],
                    env=environment | more,
                    stdout=log,
                    stderr=log,
                    process_group=0,  # Ctrl-C is for the launcher
                )
            agents.append(started)
        print(f"{len(agents)} agents; logs in {logs}", flush=True)
        while not signals and any(agent.poll() is None for agent in agents):
            time.sleep(local.POLL)
        for agent in agents:
            agent.kill()  # its run ends with it
            agent.wait()
    if signals:
        print("interrupted: the same command again continues this sweep")
        return 128 + signals[0]
    return 0
