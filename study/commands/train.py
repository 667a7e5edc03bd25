"""study train: one experiment, trained, tested and recorded."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from study import records
from study.commands import flags
from study.config import Experiment, experiment_from, experiment_id
from study.errors import InputError
from study.sweep.file import read_yaml
from study.sweep.grid import expand

HELP = """Train, test and record one experiment.

Every field of an experiment is a flag. Given several times, the later source wins: --preset, --config,
--overrides-json, flags.
The run lands in OUT/<experiment id>/ and is continued there if it was interrupted; a run that is recorded already is
not trained again.
"""
EXTRA: dict[str, Any] = {
    "preset": (
        str | None,
        Field(None, description="A textbook arm, such as luong2015_general; `study explain --all` lists them."),
    ),
    "config": (str | None, Field(None, description="A YAML file with any of the fields below, nested or dotted.")),
    "overrides_json": (
        str | None,
        Field(
            None,
            alias="overrides-json",
            description='Fields as JSON, dotted or nested: {"model.attention.scale": "none", "seed": 2}. '
            "`arm` may hold several as one string: a.b=c d.e=f.",
        ),
    ),
}


def main(argv: Sequence[str]) -> int:
    """Run the verb; 0 when the run is finished, 1 when it diverged."""
    given = flags.parse(argv, HELP, EXTRA)
    experiment = experiment_from(*layers(given))
    out = Path(_given_out(experiment) or os.environ.get("STUDY_RUNS") or experiment.out)
    return _run(experiment, out / experiment_id(experiment))


def _given_out(experiment: Experiment) -> str | None:
    return experiment.out if "out" in experiment.model_fields_set else None


def layers(given: dict[str, Any]) -> list[dict[str, Any]]:
    """What the flags give, as layers for `experiment_from`, the later over the earlier."""
    return [_yaml(given.pop("config", None)), _json(given.pop("overrides-json", None)), given]


def _run(experiment: Experiment, folder: Path) -> int:
    print(f"{experiment_id(experiment)} → {folder}", flush=True)
    if records.state(folder) in ("finished", "diverged") and "WANDB_SWEEP_ID" not in os.environ:
        print("recorded already, so nothing is trained; remove the folder to run it again")
        record = records.read(folder / "record.json")
    else:
        from study.pruning.run import run

        record = run(experiment, folder, watch=lambda line: print(line, flush=True))
    if record.status != "finished":
        print(f"{record.status}: {record.error}")
        return 1
    for score in record.scores:
        if score.subset is None and score.value is not None:
            print(f"{score.split:>20} {score.metric:<10} {score.value:10.3f}   {score.signature or ''}")
    print(f"record: {folder / 'record.json'}    see it: study show {shlex.quote(str(folder))}")
    return 0


def _yaml(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        tree = read_yaml(Path(path)) or {}
    except InputError as problem:
        raise InputError(f"--config {problem}") from None
    if not isinstance(tree, dict):
        raise InputError(f"--config {path}: expected fields such as `seed: 1`, found {type(tree).__name__}")
    return expand(tree)


def _json(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"--overrides-json: not JSON ({' '.join(str(problem).split())})") from None
    if not isinstance(tree, dict):
        raise InputError(f'--overrides-json: expected an object such as {{"seed": 1}}, found {text[:40]}')
    return expand(tree)
