"""Compute step 0 of published records again, from the seed alone, and compare it with what they say.

By hand, about two seconds a record: `python tests/step_zero.py [ID …]` (default: all that have a step 0).

A run that was stopped early had step 0 recomputed from trained weights until November 2026. Claim 22 rests on it.
"""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from study.config import experiment_from
from study.records import Record
from study.store import Store
from study.training.diagnostics import brief
from study.training.run import Run

RESULTS = Path(__file__).parents[1] / "results"
NEAR = 2e-3
"""Relative distance of equal numbers: they have four digits, and processors differ in the last."""


def has_start(record: Record) -> bool:
    """Return True if a record has its own step 0. A pruning without training has none."""
    return record.diagnostics.get("gradients", {}).get("start", {}).get("step") == 0


def recomputed(record: Record) -> dict[str, Any]:
    """Return the gradients of step 0 that the configuration and seed of a record give."""
    here = {"trainer": {"device": "cpu", "threads": 1}}
    with TemporaryDirectory() as folder:
        task = Run(experiment_from(record.config, here), Path(folder), lambda line: None).task
    task.measure_gradients("start")
    return brief(task.gradients["start"])


def differences(record: Record, again: dict[str, Any]) -> list[str]:
    """Return what a record says of step 0 that is not what was recomputed."""
    return list(_apart("gradients.start", record.diagnostics["gradients"]["start"], again))


def _apart(name: str, said: Any, found: Any) -> Iterator[str]:
    if isinstance(said, dict) and isinstance(found, dict) and said.keys() >= found.keys():
        for key in found:  # older records have more measures
            yield from _apart(f"{name}.{key}", said[key], found[key])
    elif isinstance(said, list) and isinstance(found, list) and len(said) == len(found):
        for at, (one, other) in enumerate(zip(said, found, strict=True)):
            yield from _apart(f"{name}.{at}", one, other)
    elif isinstance(said, float | int) and isinstance(found, float | int):
        if not math.isclose(said, found, rel_tol=NEAR, abs_tol=1e-6):
            yield f"{name}: the record has {said}, step 0 gives {found}"
    elif said != found:
        yield f"{name}: the record has {said}, step 0 gives {found}"


def main() -> int:
    """Check the records that are named, or all; print what differs and return 1 if anything does."""
    store = Store(RESULTS)
    wrong = checked = 0
    for identity in sys.argv[1:] or store.ids():
        record = store.record(identity)
        if has_start(record) and record.status == "finished" and record.data is not None:
            found = differences(record, recomputed(record))
            checked, wrong = checked + 1, wrong + bool(found)
            for line in found:
                print(f"{identity}: {line}", flush=True)
    print(f"{checked} records checked, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
