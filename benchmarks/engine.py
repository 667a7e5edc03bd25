"""Cost of the engine of sweeps: seconds per trial beside the same trials by hand, and under a rain of SIGKILLs.

python benchmarks/engine.py                        # prints the tables
python benchmarks/engine.py --write                # and writes them: benchmarks/engine.json, benchmarks/README.md
python benchmarks/engine.py --trials 2 --steps 5   # a small one
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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from measure import Table, machine, markdown
from page import write

from study import corpora, records
from study.sweep import local, slots
from study.sweep.spec import Spec, load

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


def start(spec: Spec, out: Path, at_once: int, *more: str) -> subprocess.Popen[bytes]:
    """A launcher, as from a shell."""
    command = [*STUDY, "sweep", str(spec.path), "--out", str(out), "--slots", str(at_once), *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def timed(spec: Spec, out: Path, at_once: int, *more: str) -> float:
    """Seconds of a sweep from its start to its end."""
    began = time.perf_counter()
    if start(spec, out, at_once, *more).wait():
        raise SystemExit("an undisturbed sweep did not end well")
    return time.perf_counter() - began


def overhead(folder: Path, trials: int, steps: int) -> Table:
    """One trial at a time: a `study train` each, and sweeps of as many and of one, which tell a trial from a start."""
    spec = sweep_file(folder, trials, steps)
    corpora.load(spec.runnable[0].experiment.data)  # type: ignore[union-attr]  # else the first generates it
    began = time.perf_counter()
    for cell in spec.cells:
        command = [*STUDY, "train", "--overrides-json", cell.overrides_json, "--out", str(folder / "hand")]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    by_hand = (time.perf_counter() - began) / trials
    one, all_of_them = timed(spec, folder / "one", 1, "--limit", "1"), timed(spec, folder / "engine", 1)
    engine = (all_of_them - one) / (trials - 1)
    rows: list[list[str | float | None]] = []
    for name, took, once, where in (
        ("study train", by_hand, None, "hand"),
        ("study sweep", engine, one - engine, "engine"),
    ):
        inside = inner_seconds(spec, folder / where) / trials
        rows.append([name, took, inside, took - inside, 100 * (took - inside) / LONG, once])
    return Table(
        "overhead",
        "The engine of sweeps: time per trial",
        f"{trials} trials of {steps} steps, one at a time; seconds of the clock on {where_measured()}. *Inside*: what "
        "the record says, building and testing included. *Beside*: all else that a trial takes, W&B's last words "
        "included and, by hand, Python's start and imports. *Once*: what a sweep takes once, its start and its table.",
        ("way", "s a trial", "s inside", "s beside", f"beside, % of {LONG:.0f} s", "s once"),
        rows,
    )


def inner_seconds(spec: Spec, out: Path) -> float:
    """The sum over trials of the seconds that they took by their own account."""
    found = [records.read(out / str(cell.id) / "record.json").resources for cell in spec.cells]
    return sum(took.wall_seconds for took in found if took)


def disturbed(folder: Path, trials: int, steps: int, at_once: int, every: float) -> Table:
    """The same sweep undisturbed, and with a process killed every few seconds."""
    spec = sweep_file(folder, trials, steps)
    calm = timed(spec, folder / "calm", at_once)
    killed: Counter[str] = Counter()
    began, calls = time.perf_counter(), 1
    launcher, draw = start(spec, folder / "storm", at_once), random.Random(1)
    while not complete(spec, folder / "storm") or launcher.poll() is None:
        if time.perf_counter() - began > PATIENCE:
            launcher.terminate()
            raise SystemExit(f"the sweep under kills is not done after {PATIENCE:.0f} s; try a longer --every")
        with suppress(subprocess.TimeoutExpired):
            launcher.wait(every)
            if not complete(spec, folder / "storm"):
                launcher, calls = start(spec, folder / "storm", at_once), calls + 1
            continue
        victims = dict(processes(launcher.pid))
        if "trial" not in victims.values():  # else nothing but starting is ever tested
            continue
        pid, what = draw.choice(sorted(victims.items()))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed[what] += 1
    storm = time.perf_counter() - began
    equal = sum(outcome(folder / "calm", cell.id) == outcome(folder / "storm", cell.id) for cell in spec.cells)
    hit = ", ".join(f"{count} × {what}" for what, count in sorted(killed.items())) or "none"
    return Table(
        "kills",
        "The engine of sweeps: killed every few seconds",
        f"{trials} trials of {steps} steps, {at_once} at a time; in the second sweep a process is sent SIGKILL every "
        f"{every:g} s ({hit}), and the command repeated whenever it has ended. *Equal*: records that agree in "
        "everything but times and dates.",
        ("sweep", "s", "time ×", "kills", "calls", "equal"),
        [["undisturbed", calm, 1.0, 0, 1, trials], ["killed", storm, storm / calm, killed.total(), calls, equal]],
    )


def complete(spec: Spec, out: Path) -> bool:
    """Return True if every trial has a record without failure."""
    return not local.tasks(spec, spec.cells, out)


def outcome(out: Path, name: str | None) -> dict[str, Any]:
    """Return the content of a record, without times and dates."""
    tree = records.read(out / str(name) / "record.json").model_dump(mode="json")
    del tree["resources"], tree["wandb"], tree["provenance"]["started_utc"]
    return tree


def where_measured() -> str:
    """The processor, and how many cores of it."""
    return f"{machine()['device']}, {slots.cpu_cores()} cores"


def processes(launcher: int) -> Iterator[tuple[int, str]]:
    """The processes of a sweep: the launcher, the one that trials are forked from, the trials."""
    yield launcher, "launcher"
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if b"forkserver" in (stat.parent / "cmdline").read_bytes():
                parent = int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(stat.parent.name))
    for server in children.get(launcher, []):
        yield server, "fork server"
        for trial in children.get(server, []):
            yield trial, "trial"


def main() -> None:
    """Print the tables, or write them too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--trials", type=int, default=24)
    add("--steps", type=int, default=40, help="length of a trial")
    add("--slots", type=int, default=2, help="trials at a time under kills")
    add("--every", type=float, default=5.0, metavar="SECONDS", help="from one kill to the next")
    add("--write", action="store_true", help="write engine.json and README.md beside this file")
    arguments = parser.parse_args()
    os.environ["WANDB_MODE"] = "offline"
    document: dict[str, Any] = {**machine(), "tables": []}
    with tempfile.TemporaryDirectory() as name:
        for part in ("overhead", "kills"):
            (folder := Path(name) / part).mkdir()
            if part == "overhead":
                table = overhead(folder, max(arguments.trials // 4, 2), arguments.steps)
            else:
                table = disturbed(folder, arguments.trials, arguments.steps, arguments.slots, arguments.every)
            document["tables"].append(table._asdict())
            print(markdown(table) + "\n", flush=True)
    if arguments.write:
        write("engine", document)


if __name__ == "__main__":
    main()
