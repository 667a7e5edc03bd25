"""Cost of the engines of sweeps: seconds per trial beside the same trials by hand, and under a rain of SIGKILLs.

SLURM is a real controller with one node on this machine, Ray a cluster of two nodes on it. Each trial is a real
training, as small as one can be.

python benchmarks/engine.py                        # prints the tables
python benchmarks/engine.py --write                # and writes them: benchmarks/engine.json, benchmarks/README.md
python benchmarks/engine.py --trials 6 --part kills --engines local   # a small one
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
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import mean
from typing import Any

import yaml
from measure import Table, machine, markdown
from page import write

from study.analysis.rerun import differences
from study.engine import resources
from study.store import records
from study.store.folder import Store
from study.sweep.spec import Spec, load

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests" / "support"))
from ray_nodes import Nodes  # noqa: E402
from slurm_node import Node  # noqa: E402

STUDY = [sys.executable, "-P", "-m", "study"]
TRIAL = {
    "data.name": "copy",
    "data.train_pairs": 64,
    "data.test_pairs": 8,
    "data.longest": 6,
    "training.batch_tokens": 64,
    "training.steps": 40,
    "training.validate_every": 10,
    "decoding.beam": 1,
    "model.width": 16,
    "trainer.device": "cpu",
    "trainer.threads": 1,
}
"""About a second of processor time, most of it in the first step of a process and in four validations."""
ENGINES = {
    "local": (),
    "slurm": ("--engine", "slurm", "--slurm", "time=2h,parallel={jobs},cpus=1", "--slots", "1"),
    "ray": ("--engine", "ray", "--ray", "cpus={cores}"),
}
"""Engine ↦ its options, for so many jobs at a time, or tasks of so many cores of two."""
UNTIL_IDLE = ("sh", "-c", '"$@" && while squeue --me --noheader | grep -q .; do sleep 0.2; done', "sh")
"""Program that runs a command, then waits until no job of SLURM waits or runs."""
KINDS = {b"submitit.core._submit": "job", b"ray::make": "worker"}
"""Part of a command line ↦ what the process is."""
PARTS = ("overhead", "kills")
BY_HAND, IN_SWEEP = 2, 6
"""Trials that are timed by `study train` and in a sweep."""
LONG = 30.0
"""Seconds of the trial that the overhead is put in relation to."""
LOOK = 0.1
TOLD = 10.0
PATIENCE = 600.0
"""Seconds between two looks at the records of a storm, between two lines about it, and without a new record until it
is given up."""


def tell(line: str) -> None:
    """Say how far the measurement is, apart from the tables."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def sweep_file(folder: Path, trials: int) -> Spec:
    """So many short trials, half of them of each family."""
    fixed = {name: {"value": value} for name, value in TRIAL.items()}
    families = {"model.family": {"values": ["recurrent", "transformer"]}}
    parameters = {"seed": {"values": list(range(1, trials // 2 + 1))}, **families, **fixed}
    tree = {"name": "short", "method": "grid", "metric": {"name": "test/exact"}, "parameters": parameters}
    (folder / "short.yaml").write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    return load(folder / "short.yaml")


def start(
    spec: Spec, out: Path, at_once: int, *more: str, engine: str = "local", errors: int | None = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """A launcher, as from a shell."""
    options = [word.format(jobs=at_once, cores=resources.here().cores // at_once) for word in ENGINES[engine]]
    if engine == "local":
        options += ["--slots", str(at_once)]
    command = [*STUDY, "sweep", str(spec.path), "--runs", str(out), *options, *more]
    if engine == "slurm":
        command = [*UNTIL_IDLE, *command]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)


def timed(spec: Spec, out: Path, at_once: int, *more: str, engine: str = "local") -> float:
    """Seconds of a sweep from its start to its end."""
    began = time.perf_counter()
    if start(spec, out, at_once, *more, engine=engine, errors=None).wait():
        raise SystemExit("an undisturbed sweep did not end well")
    return time.perf_counter() - began


def overhead(folder: Path, engines: Sequence[str]) -> Table:
    """One trial at a time: a `study train` each, and sweeps, where the times of the records tell trials from starts."""
    spec = sweep_file(folder, IN_SWEEP)
    began = time.perf_counter()
    for cell in spec.cells[:BY_HAND]:
        command = [*STUDY, "train", "--overrides-json", cell.overrides_json, "--runs", str(folder / "hand")]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    ways: list[tuple[str, float, float | None, str]] = [
        ("study train", (time.perf_counter() - began) / BY_HAND, None, "hand")
    ]
    for name in engines:
        tell(f"overhead: {ways[-1][0]} took {ways[-1][1]:.1f} s a trial")
        whole = timed(spec, folder / name, 1, engine=name)
        made = [path.stat().st_mtime for path in (folder / name).glob("*/record.json")]
        each = (max(made) - min(made)) / (IN_SWEEP - 1)
        ways.append((f"study sweep, {name}", each, whole - IN_SWEEP * each, name))
    rows: list[list[str | float | None]] = []
    for way, took, once, where in ways:
        inside = inner_seconds(folder / where)
        rows.append([way, took, inside, took - inside, 100 * (took - inside) / LONG, once])
    return Table(
        "overhead",
        "Engines of sweeps: time per trial",
        f"Trials of {TRIAL['training.steps']} steps, one at a time, {BY_HAND} by hand and {IN_SWEEP} in each sweep; "
        f"seconds of the clock on {where_measured()}. *slurm* is one job of a real controller; *ray* starts "
        "Ray here. *Inside*: what the record says, building and testing included. *Beside*: all else that a "
        "trial takes, W&B's last words included and, by hand, Python's start and imports. *Once*: what a sweep takes "
        "once, its start and its table.",
        ("way", "s a trial", "s inside", "s beside", f"beside, % of {LONG:.0f} s", "s once"),
        rows,
    )


def inner_seconds(out: Path) -> float:
    """The mean over trials of the seconds that they took by their own account."""
    found = [records.read(path).resources for path in out.glob("*/record.json")]
    return mean(took.wall_seconds for took in found if took)


def disturbed(folder: Path, trials: int, at_once: int, every: int, engines: Sequence[str]) -> Table:
    """The same sweep undisturbed, and by each engine with a process killed now and then."""
    spec = sweep_file(folder, trials)
    calm = timed(spec, folder / "calm", at_once)
    rows: list[list[str | float | None]] = [["undisturbed, local", calm, 1.0, "none", 1, 0, 0, trials]]
    for engine in engines:
        tell(f"kills: {rows[-1]}")
        out = folder / engine
        took, killed, calls, twice = storm(spec, out, at_once, every, engine)
        there = [cell.id for cell in spec.cells if records.state(out / str(cell.id)) == "finished"]
        equal = sum(not any(differences(Store(folder / "calm"), Store(out), str(name))) for name in there)
        hit = ", ".join(f"{count} × {what}" for what, count in sorted(killed.items())) or "none"
        rows.append([f"killed, {engine}", took, took / calm, hit, calls, trials - len(there), twice, equal])
    tell(f"kills: {rows[-1]}")
    return Table(
        "kills",
        "Engines of sweeps: killed again and again",
        f"{trials} trials as above, {at_once} at a time, W&B disabled. After {resources.plural(every, 'new record')} a "
        "process is sent SIGKILL after a random part of a second: a random one of the kind that was hit least. The "
        "command is repeated whenever it has ended. A node of *ray* is all processes of one of two "
        "nodes. *Lost*: runs without a record at the end. *Twice*: runs that got a record more than once. *Equal*: "
        "records that agree with the undisturbed sweep in all but times.",
        ("sweep", "s", "time ×", "kills", "calls", "lost", "twice", "equal"),
        rows,
    )


def storm(spec: Spec, out: Path, at_once: int, every: int, engine: str) -> tuple[float, Counter[str], int, int]:
    """Kill something again and again until a sweep is whole; return seconds, kills, calls, and runs made twice."""
    nodes = Nodes(2) if engine == "ray" else None
    more = ("--address", nodes.address) if nodes else ()
    killed: Counter[str] = Counter()
    made: dict[str, set[int]] = {}
    draw, began, calls = random.Random(1), time.perf_counter(), 1
    heard = told = began
    launcher = start(spec, out, at_once, *more, engine=engine)
    try:
        while len(made) < len(spec.cells) or launcher.poll() is None:
            time.sleep(LOOK)
            if look(out, made):
                heard = time.perf_counter()
            if time.perf_counter() - told > TOLD:
                told = time.perf_counter()
                tell(f"kills, {engine}: {len(made)} of {len(spec.cells)} runs, {killed.total()} kills, {calls} calls")
            if time.perf_counter() - heard > PATIENCE:
                raise SystemExit(f"the sweep under kills had no new record for {PATIENCE:.0f} s")
            if launcher.poll() is not None and len(made) < len(spec.cells):
                launcher = start(spec, out, at_once, *more, engine=engine)
                calls += 1
            if len(made) < every * (killed.total() + 1):
                continue
            time.sleep(draw.random())
            victims = dict(processes(launcher.pid, out, [node.pid for node in nodes.nodes] if nodes else []))
            if launcher.poll() is not None or "trial" not in victims.values():  # else only starting is ever tested
                continue
            kinds = sorted(set(victims.values()) | ({"node"} if nodes else set()))
            what = min(kinds, key=lambda kind: (killed[kind], draw.random()))  # so that every kind is met
            if what == "node" and nodes:
                nodes.kill(len(nodes.nodes) - 1)
                nodes.add()
            else:
                with suppress(ProcessLookupError):
                    os.kill(draw.choice([pid for pid, kind in sorted(victims.items()) if kind == what]), signal.SIGKILL)
            killed[what] += 1
        return time.perf_counter() - began, killed, calls, sum(len(stamps) > 1 for stamps in made.values())
    finally:
        launcher.kill()
        for pid, _ in list(processes(launcher.pid, out, [])):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if nodes:
            nodes.stop()


def look(out: Path, made: dict[str, set[int]]) -> bool:
    """Add the stamps of good records to those that were seen, by run; return True if there is a new one."""
    new = False
    for path in out.glob("*/record.json"):
        when = path.stat().st_mtime_ns
        if when not in made.get(path.parent.name, ()) and records.state(path.parent) == "finished":
            made.setdefault(path.parent.name, set()).add(when)
            new = True
    return new


def where_measured() -> str:
    """The processor, and how many cores of it."""
    return f"{machine()['device']}, {resources.here().cores} cores"


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


@contextmanager
def slurm_here(folder: Path, wanted: bool) -> Iterator[None]:
    """Start a SLURM controller with one node, which sbatch finds by the environment."""
    if not wanted:
        yield
        return
    (folder / "cluster").mkdir()
    node = Node(folder / "cluster")
    os.environ |= node.environment
    try:
        yield
    finally:
        node.stop()


def main() -> None:
    """Print the tables, or write them too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--trials", type=int, default=48, help="trials under kills")
    add("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    add("--slots", type=int, default=2, choices=(1, 2), help="trials at a time under kills")
    add("--part", choices=PARTS, nargs="+", default=list(PARTS))
    add("--every", type=int, default=8, metavar="RUNS", help="records from one kill to the next")
    add("--write", action="store_true", help="write engine.json and README.md beside this file")
    arguments = parser.parse_args()
    if arguments.write and {arguments.trials, *arguments.engines, *arguments.part} != {48, *ENGINES, *PARTS}:
        parser.error("--write: expected every engine, every part and 48 trials. Leave the other options out.")
    os.environ |= {"RAY_AUTH_MODE": "disabled"}
    document: dict[str, Any] = {**machine(), "tables": []}
    with tempfile.TemporaryDirectory() as name, slurm_here(Path(name), "slurm" in arguments.engines):
        for part in arguments.part:
            (folder := Path(name) / part).mkdir()
            if part == "overhead":
                os.environ["WANDB_MODE"] = "offline"
                table = overhead(folder, arguments.engines)
            else:
                os.environ["WANDB_MODE"] = "disabled"
                table = disturbed(folder, arguments.trials, arguments.slots, arguments.every, arguments.engines)
            document["tables"].append(table._asdict())
            print(markdown(table) + "\n", flush=True)
    if arguments.write:
        write("engine", document)


if __name__ == "__main__":
    main()
