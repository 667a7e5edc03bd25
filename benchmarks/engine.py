"""Cost of the engines of sweeps: seconds per trial beside the same trials by hand, and under a rain of SIGKILLs.

SLURM stands here for submitit's executor on this machine, Ray for a cluster of two nodes on it.

python benchmarks/engine.py                        # prints the tables
python benchmarks/engine.py --write                # and writes them: benchmarks/engine.json, benchmarks/README.md
python benchmarks/engine.py --trials 2 --steps 5 --engines local   # a small one
python benchmarks/engine.py --part kills --kills real --engines local slurm   # kills of real trainings of ten steps
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from measure import Table, machine, markdown
from page import write

from study import corpora, records
from study.analysis.rerun import differences
from study.store import Store
from study.sweep import local, slots
from study.sweep.spec import Spec, load

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests" / "support"))
from ray_nodes import Nodes  # noqa: E402

STUDY = [sys.executable, "-P", "-m", "study"]
TRIAL = {
    "data.name": "grammar",
    "data.train_pairs": 500,
    "data.test_pairs": 50,
    "training.batch_tokens": 500,
    "decoding.beam": 1,
    "model.width": 16,
    "trainer.device": "cpu",
    "trainer.threads": 1,
}
ENGINES = {
    "local": (),
    "slurm": ("--engine", "slurm", "--slurm", "cluster=local,time=2h,parallel={jobs}", "--slots", "1"),
    "ray": ("--engine", "ray", "--ray", "cpus={cores}"),
}
"""Engine ↦ its options, for so many jobs at a time, or tasks of so many cores of two."""
KINDS = {b"submitit.local._local": "node", b"submitit.core._submit": "job", b"ray::make": "worker"}
"""Part of a command line ↦ what the process is."""
LONG = 30.0
"""Seconds of the trial that the overhead is put in relation to."""
PATIENCE = 900.0
"""Seconds after which a sweep under kills is given up."""


def sweep_file(folder: Path, trials: int, steps: int) -> Spec:
    """So many short trials, one a seed, each of four validations."""
    length = {"training.steps": steps, "training.validate_every": max(steps // 4, 1)}
    fixed = {name: {"value": value} for name, value in {**TRIAL, **length}.items()}
    parameters = {"seed": {"values": list(range(1, trials + 1))}, **fixed}
    tree = {"name": "short", "method": "grid", "metric": {"name": "test/exact"}, "parameters": parameters}
    (folder / "short.yaml").write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    return load(folder / "short.yaml")


def start(
    spec: Spec, out: Path, at_once: int, *more: str, engine: str = "local", stand_in: bool = False
) -> subprocess.Popen[bytes]:
    """A launcher, as from a shell."""
    options = [word.format(jobs=at_once, cores=2 // at_once) for word in ENGINES[engine]]
    if engine == "local":
        options += ["--slots", str(at_once)]
    program = [sys.executable, str(HERE / "stand_in.py")] if stand_in else STUDY
    command = [*program, "sweep", str(spec.path), "--runs", str(out), *options, *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL if stand_in else None)


def timed(spec: Spec, out: Path, at_once: int, *more: str, engine: str = "local", stand_in: bool = False) -> float:
    """Seconds of a sweep from its start to its end."""
    began = time.perf_counter()
    if start(spec, out, at_once, *more, engine=engine, stand_in=stand_in).wait():
        raise SystemExit("an undisturbed sweep did not end well")
    return time.perf_counter() - began


def overhead(folder: Path, trials: int, steps: int, engines: Sequence[str]) -> Table:
    """One trial at a time: a `study train` each, and sweeps of as many and of one, which tell a trial from a start."""
    spec = sweep_file(folder, trials, steps)
    corpora.load(spec.runnable[0].experiment.data)  # type: ignore[union-attr]  # else the first generates it
    began = time.perf_counter()
    for cell in spec.cells:
        command = [*STUDY, "train", "--overrides-json", cell.overrides_json, "--runs", str(folder / "hand")]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    ways: list[tuple[str, float, float | None, str]] = [
        ("study train", (time.perf_counter() - began) / trials, None, "hand")
    ]
    for name in engines:
        one = timed(spec, folder / f"{name}-one", 1, "--limit", "1", engine=name)
        each = (timed(spec, folder / name, 1, engine=name) - one) / (trials - 1)
        ways.append((f"study sweep, {name}", each, one - each, name))
    rows: list[list[str | float | None]] = []
    for way, took, once, where in ways:
        inside = inner_seconds(spec, folder / where) / trials
        rows.append([way, took, inside, took - inside, 100 * (took - inside) / LONG, once])
    return Table(
        "overhead",
        "Engines of sweeps: time per trial",
        f"{trials} trials of {steps} steps, one at a time; seconds of the clock on {where_measured()}. *slurm* is "
        "submitit's executor on this machine, one job; *ray* starts Ray here. *Inside*: what the record says, building "
        "and testing included. *Beside*: all else that a trial takes, W&B's last words included and, by hand, Python's "
        "start and imports. *Once*: what a sweep takes once, its start and its table.",
        ("way", "s a trial", "s inside", "s beside", f"beside, % of {LONG:.0f} s", "s once"),
        rows,
    )


def inner_seconds(spec: Spec, out: Path) -> float:
    """The sum over trials of the seconds that they took by their own account."""
    found = [records.read(out / str(cell.id) / "record.json").resources for cell in spec.cells]
    return sum(took.wall_seconds for took in found if took)


def disturbed(folder: Path, trials: int, at_once: int, every: float, engines: Sequence[str]) -> Table:
    """The same sweep undisturbed, and by each engine with a process killed every few seconds."""
    spec = sweep_file(folder, trials, 10)
    real = os.environ.get("STUDY_TRIAL") == "real"
    if real:
        corpora.load(spec.runnable[0].experiment.data)  # type: ignore[union-attr]  # else the first generates it
    calm = timed(spec, folder / "calm", at_once, stand_in=True)
    rows: list[list[str | float | None]] = [["undisturbed, local", calm, 1.0, "none", 1, 0, 0, trials]]
    for engine in engines:
        out = folder / engine
        took, killed, calls, twice = storm(spec, out, at_once, every, engine)
        there = [cell.id for cell in spec.cells if records.state(out / str(cell.id)) == "finished"]
        equal = sum(not any(differences(Store(folder / "calm"), Store(out), str(name))) for name in there)
        hit = ", ".join(f"{count} × {what}" for what, count in sorted(killed.items())) or "none"
        rows.append([f"killed, {engine}", took, took / calm, hit, calls, trials - len(there), twice, equal])
        print(rows[-1], flush=True)
    about = (
        "Each trial is a training of ten steps with its tests."
        if real
        else "The training is a stand-in of a second in ten steps, each a function of the one before; all else is real."
    )
    return Table(
        "real kills" if real else "kills",
        "Engines of sweeps: " + ("real trainings " if real else "") + "killed every few seconds",
        f"{trials} trials, {at_once} at a time; a process is sent SIGKILL every {every:g} s, and the command repeated "
        f"whenever it has ended. {about} A node of *slurm* is the process that controls a job, one of *ray* "
        "all processes of one of two nodes. *Lost*: runs without a record at the end. *Twice*: runs that were "
        "finished more than once. *Equal*: records that agree with the undisturbed sweep in all but times.",
        ("sweep", "s", "time ×", "kills", "calls", "lost", "twice", "equal"),
        rows,
    )


def storm(spec: Spec, out: Path, at_once: int, every: float, engine: str) -> tuple[float, Counter[str], int, int]:
    """Kill something every few seconds until a sweep is whole; return seconds, kills, calls, and runs made twice."""
    nodes = Nodes(2) if engine == "ray" else None
    more = ("--address", nodes.address) if nodes else ()
    killed: Counter[str] = Counter()
    draw, began, calls = random.Random(1), time.perf_counter(), 1
    launcher = start(spec, out, at_once, *more, engine=engine, stand_in=True)
    try:
        while not complete(spec, out) or launcher.poll() is None:
            if time.perf_counter() - began > PATIENCE:
                raise SystemExit(f"the sweep under kills is not done after {PATIENCE:.0f} s; try a longer --every")
            with suppress(subprocess.TimeoutExpired):
                launcher.wait(every)
                if not complete(spec, out):
                    launcher = start(spec, out, at_once, *more, engine=engine, stand_in=True)
                    calls += 1
            victims = dict(processes(launcher.pid, out, [node.pid for node in nodes.nodes] if nodes else []))
            if launcher.poll() is not None or "trial" not in victims.values():  # else only starting is ever tested
                continue
            kinds = sorted(set(victims.values()) | ({"node"} if nodes else set()))
            what = draw.choice(kinds)  # a kind first: of some there are many more processes than of others
            if what == "node" and nodes:
                nodes.kill(len(nodes.nodes) - 1)
                nodes.add()
            else:
                with suppress(ProcessLookupError):
                    os.kill(draw.choice([pid for pid, kind in sorted(victims.items()) if kind == what]), signal.SIGKILL)
            killed[what] += 1
        written = [path.read_text(encoding="utf-8").splitlines() for path in out.glob("*/finished")]
        return time.perf_counter() - began, killed, calls, sum(len(lines) > 1 for lines in written)
    finally:
        launcher.kill()
        for pid, _ in list(processes(launcher.pid, out, [])):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if nodes:
            nodes.stop()


def complete(spec: Spec, out: Path) -> bool:
    """Return True if every trial has a record without failure."""
    return not local.tasks(spec, spec.cells, out)


def where_measured() -> str:
    """The processor, and how many cores of it."""
    return f"{machine()['device']}, {slots.cpu_cores()} cores"


def processes(launcher: int, out: Path, nodes: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The processes of a sweep: the launcher, its jobs or workers, those that trials are forked from, the trials."""
    parents: dict[int, int] = {}
    kinds: dict[int, str] = {launcher: "launcher"}
    forkers: set[int] = set()
    mine: set[int] = {launcher, *nodes}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, line = int(stat.parent.name), (stat.parent / "cmdline").read_bytes()
            state, parent = stat.read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
            if state == "Z":
                continue
            parents[pid] = int(parent)
            if kind := next((kind for part, kind in KINDS.items() if part in line), None):
                kinds[pid] = kind
            if b"forkserver" in line:
                forkers.add(pid)
            if str(out).encode() in line:
                mine.add(pid)
    for pid in forkers:
        kinds[pid] = "trial" if parents[pid] in forkers else "fork server"
    for pid, kind in kinds.items():
        line_of = pid
        while line_of not in mine and line_of in parents:
            line_of = parents[line_of]
        if line_of in mine and pid in {*parents, launcher}:
            yield pid, kind


def main() -> None:
    """Print the tables, or write them too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--trials", type=int, default=48)
    add("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    add("--steps", type=int, default=40, help="length of a trial")
    add("--slots", type=int, default=2, choices=(1, 2), help="trials at a time under kills")
    add("--part", choices=("overhead", "kills"), nargs="+", default=["overhead", "kills"])
    add("--kills", choices=("stand-in", "real"), default="stand-in", help="what trains under kills")
    add("--every", type=float, default=5.0, metavar="SECONDS", help="from one kill to the next")
    add("--write", action="store_true", help="write engine.json and README.md beside this file")
    arguments = parser.parse_args()
    os.environ |= {"WANDB_MODE": "offline", "RAY_AUTH_MODE": "disabled", "PYTHONPATH": str(HERE)}
    if arguments.kills == "real":
        os.environ["STUDY_TRIAL"] = "real"
    document: dict[str, Any] = {**machine(), "tables": []}
    with tempfile.TemporaryDirectory() as name:
        for part in arguments.part:
            (folder := Path(name) / part).mkdir()
            if part == "overhead":
                table = overhead(folder, max(arguments.trials // 8, 2), arguments.steps, arguments.engines)
            else:
                table = disturbed(folder, arguments.trials, arguments.slots, arguments.every, arguments.engines)
            document["tables"].append(table._asdict())
            print(markdown(table) + "\n", flush=True)
    if arguments.write:
        write("engine", document)


if __name__ == "__main__":
    main()
