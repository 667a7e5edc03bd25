"""Stops of a training at every place by every signal: does what was stopped end, and is what continues it equal?

Each stop is a real training of a few seconds that gets one real signal when one of its files changes. The same command
then continues it. Counts stand in LOG.md.

python benchmarks/stops.py                     # both families, all places and signals; some minutes of two cores
python benchmarks/stops.py --families recurrent --places validation weights
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import engine

SIGNALS = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -9}
"""Signal ↦ the status with which a training ends."""
PATIENCE = 60.0
"""Seconds within which a stopped training is gone."""
TRIAL = engine.TRIAL | {"training.steps": 80, "training.validate_every": 20}


def lines(folder: Path, name: str, least: int) -> bool:
    """Return True if a file of the run has so many whole lines."""
    try:
        return (folder / name).read_bytes().count(b"\n") >= least
    except FileNotFoundError:
        return False


PLACES: dict[str, Callable[[Path], bool]] = {
    "begin": lambda folder: folder.is_dir(),
    "first step": lambda folder: lines(folder, "training.jsonl", 1),
    "validation": lambda folder: lines(folder, "history.jsonl", 1),
    "map": lambda folder: lines(folder, "maps.jsonl", 1),
    "checkpoint half written": lambda folder: any(folder.glob(".checkpoint*")),
    "checkpoint": lambda folder: (folder / "checkpoint.ckpt").exists(),
    "third validation": lambda folder: lines(folder, "history.jsonl", 3),
    "last step": lambda folder: lines(folder, "history.jsonl", 4),
    "first translations": lambda folder: any(folder.glob("*.hyp.txt")),
    "weights": lambda folder: (folder / "model.pt").exists(),
    "maps of the test": lambda folder: (folder / "attention.json").exists(),
}
"""Place ↦ has the run come to it, by its files?"""


def train(words: list[str]) -> None:
    """Run `study train` in this process, which then ends with its status."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    os.environ["WANDB_MODE"] = "disabled"
    from study.__main__ import main

    sys.argv = ["study", *words]
    sys.exit(main())


def started(runs: Path, family: str) -> ForkServerProcess:
    """Start a training of a family in a folder of runs."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch", "pytorch_lightning", "study.training.run"])
    words = ["train", *(f"--{name}={value}" for name, value in (TRIAL | {"model.family": family}).items())]
    process = context.Process(target=train, args=([*words, "--runs", str(runs)],))
    process.start()
    return process


def outcome(runs: Path) -> dict[str, object]:
    """Return what a run leaves: its record without times and provenance, and the bytes of its translations."""
    (path,) = runs.glob("*/record.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    kept = {name: value for name, value in record.items() if name not in ("resources", "provenance", "wandb")}
    kept["history"] = [{k: v for k, v in point.items() if "second" not in k} for point in record["history"]]
    files = {one.name: one.read_bytes() for one in sorted(path.parent.glob("*.txt")) if one.name != "log.txt"}
    return kept | {"files": files}


def stop(runs: Path, family: str, place: str, number: signal.Signals, undisturbed: dict[str, object]) -> str:
    """Stop a training once and continue it; return how it went."""
    process = started(runs, family)
    assert process.pid is not None
    reached = False
    while not reached and process.is_alive():
        reached = any(map(PLACES[place], runs.glob("*") if runs.exists() else ()))
        time.sleep(0.001)
    os.kill(process.pid, number)
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        return "alive after 60 s"
    code, early = process.exitcode, not list(runs.glob("*/record.json"))
    again = started(runs, family)
    again.join()
    if again.exitcode != 0:
        return f"not continued: status {again.exitcode}"
    if outcome(runs) != undisturbed:
        return "different"
    return "equal" if code == SIGNALS[number] else f"equal, status {code}" if early else "equal, stopped too late"


def main() -> int:
    """Print one line for each stop that was not equal, then counts; return 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="+", default=["recurrent", "transformer"])
    parser.add_argument("--places", nargs="+", default=list(PLACES), choices=list(PLACES))
    chosen = parser.parse_args()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor(2) as pool:
        cases = []
        for family in chosen.families:
            whole = started(Path(top) / family, family)
            whole.join()
            undisturbed = outcome(Path(top) / family)
            for place in chosen.places:
                for number in SIGNALS:
                    runs = Path(top) / f"{family} {place} {number.name}"
                    cases.append((runs.name, pool.submit(stop, runs, family, place, number, undisturbed)))
        for name, future in cases:
            counts[word := future.result()] += 1
            if word != "equal":
                print(f"{name}: {word}", flush=True)
    print(", ".join(f"{word} {count}" for word, count in counts.most_common()))
    return int(not set(counts) <= {"equal", "equal, stopped too late"})


if __name__ == "__main__":
    sys.exit(main())
