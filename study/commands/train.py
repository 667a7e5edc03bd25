"""study train: one experiment, trained, tested and recorded."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from study import records
from study.commands import flags
from study.config import Experiment, experiment_from, experiment_id
from study.errors import InputError
from study.sweep import disk, fields, lease, stopping
from study.sweep.file import read_yaml
from study.sweep.grid import expand

HELP = """Train, test and record one experiment.

Every field of an experiment is a flag. Given several times, the later source wins: --preset, --config,
--overrides-json, flags.
The run lands in OUT/<experiment id>/ and is continued there if it was interrupted; a run that is recorded already is
not trained again.
"""
SWEEP = "WANDB_SWEEP_ID"
"""Set where a sweep's agent, or the local engine, started this process."""
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
    """Run the verb.

    The exit status: 0 when the run is finished, 1 when it diverged, 130 (Ctrl-C) or 143 (SIGTERM) when it was stopped
    and can be resumed.
    """
    if SWEEP in os.environ:
        stopping.with_parent()
    with stopping.on_request():
        return _main(*layers(flags.parse(argv, HELP, EXTRA)))


def _main(config: dict[str, Any], overrides: dict[str, Any], given: dict[str, Any]) -> int:
    try:
        experiment = experiment_from(config, overrides, given)
    except InputError as reason:
        if SWEEP not in os.environ or not _plausible(overrides):
            raise
        return _inapplicable(overrides, str(reason))
    folder = _out(experiment) / experiment_id(experiment)
    return _run(experiment, folder)


def _out(experiment: Experiment | None = None) -> Path:
    given = experiment.out if experiment and "out" in experiment.model_fields_set else None
    return Path(given or os.environ.get("STUDY_RUNS") or Experiment.model_fields["out"].default)


def _plausible(overrides: dict[str, Any]) -> bool:
    """Whether each field could have its value in some experiment: then the combination is what is rejected."""
    try:
        for name, value in overrides.items():
            fields.check(name, value)
    except InputError:
        return False
    return bool(overrides)


def _inapplicable(overrides: dict[str, Any], reason: str) -> int:
    """A cell of a sweep that is no experiment: no failure, since a few of those would end an agent."""
    from study.training import tracking

    print(f"inapplicable: {reason}")
    tracking.inapplicable(overrides, reason, _out() / "inapplicable")
    return 0


def layers(given: dict[str, Any]) -> list[dict[str, Any]]:
    """What the flags give, as layers for `experiment_from`, the later over the earlier."""
    return [_yaml(given.pop("config", None)), _json(given.pop("overrides-json", None)), given]


def _run(experiment: Experiment, folder: Path) -> int:
    print(f"{experiment_id(experiment)} → {folder}", flush=True)
    if records.state(folder) in ("finished", "diverged") and SWEEP not in os.environ:
        print("recorded already, so nothing is trained; remove the folder to run it again")
        record = records.read(folder / "record.json")
    else:
        from study.pruning.run import run

        # A sweep's trial waits where another process has the run; a person is told.
        with lease.holding(folder, wait=SWEEP in os.environ), disk.reported(folder):
            try:
                record = run(experiment, folder, watch=lambda line: print(line, flush=True))
            except (KeyboardInterrupt, SystemExit):
                print(f"study: stopped; {_way_on(folder)}", file=sys.stderr, flush=True)
                raise
    if record.status != "finished":
        print(f"{record.status}: {record.error}")
        return 0 if SWEEP in os.environ else 1  # a result, which an agent would count among its failures
    for score in record.scores:
        if score.subset is None and score.value is not None:
            print(f"{score.split:>20} {score.metric:<10} {score.value:10.3f}   {score.signature or ''}")
    if record.wandb and record.wandb.url:
        print(f"W&B: {record.wandb.url}")
    print(f"record: {folder / 'record.json'}    see it: study show {shlex.quote(str(folder))}")
    return 0


def _way_on(folder: Path) -> str:
    """What is left of a stopped run, and how it goes on."""
    checkpoint = folder / "checkpoint.ckpt"
    if checkpoint.exists():
        return f"the same command continues from {checkpoint}"
    return "no step was saved yet, so the same command starts again"


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
