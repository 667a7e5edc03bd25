"""`study train`: one experiment, trained, tested and recorded."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import CliToggleFlag

from study import files, records
from study.commands import flags
from study.commands.options import program, runs_folder
from study.config import Experiment, experiment_from, experiment_id
from study.errors import InputError
from study.metrics import decimals, title
from study.sweep import fields, signals, trial
from study.sweep.file import read_yaml
from study.sweep.grid import expand

HELP = """Train, test and record one experiment.

Every field of an experiment is a flag. If a field is given more than once, the later source wins: --preset,
--config, --overrides-json, then flags. The run is written to RUNS/<experiment id>/. The same command continues an
interrupted run there. A run that has a record is not trained again.
"""
HEADLINE = ("exact", "bleu", "nll", "aer")
"""Scores of the line that ends a training."""
SWEEP = "WANDB_SWEEP_ID"
"""Set where a sweep's agent, or the local engine, started this process."""
EXTRA: dict[str, Any] = {
    "preset": (
        str | None,
        Field(None, description="A published model, such as luong2015_general; `study ls presets` lists all."),
    ),
    "config": (str | None, Field(None, description="YAML file with fields, nested or dotted.")),
    "overrides_json": (
        str | None,
        Field(
            None,
            alias="overrides-json",
            description='Fields as JSON, dotted or nested: {"model.attention.scale": "none", "seed": 2}. '
            "The key arm takes several fields as one text, with short names: scale=none key_width=512.",
        ),
    ),
    "runs": (str | None, Field(None, description="Folder of the runs (default: $STUDY_RUNS, else runs).")),
    "verbose": (CliToggleFlag[bool], Field(False, description="Print every score, not only the headline (short: -v).")),
}


def main(argv: Sequence[str]) -> int:
    """Run the verb.

    The exit status: 0 when the run is finished, 1 when it diverged, 130 (Ctrl-C) or 143 (SIGTERM) when it was stopped
    and can be resumed.
    """
    if SWEEP in os.environ:
        signals.with_parent()
    with signals.on_request():
        given = flags.parse(["--verbose" if word == "-v" else word for word in argv], HELP, EXTRA)
        verbose = str(given.pop("verbose", False)).lower() == "true"
        if (runs := given.pop("runs", None)) is not None:
            if "out" in given:
                raise InputError("--runs: expected once, got --out too, which is the same option. Remove one.")
            given["out"] = runs
        return _main(layers(given), verbose)


def _main(given: list[dict[str, Any]], verbose: bool) -> int:
    try:
        experiment = experiment_from(*given)
    except InputError as reason:
        overrides = given[1]
        if SWEEP not in os.environ or not _plausible(overrides):
            raise
        return _inapplicable(overrides, str(reason))
    folder = _out(experiment) / experiment_id(experiment)
    return _run(experiment, folder, verbose)


def _out(experiment: Experiment | None = None) -> Path:
    given = experiment.out if experiment and "out" in experiment.model_fields_set else None
    return runs_folder(given)


def _plausible(overrides: dict[str, Any]) -> bool:
    """Return True if each value is valid by itself, so that only their combination is rejected."""
    try:
        for name, value in overrides.items():
            fields.check(name, value)
    except InputError:
        return False
    return bool(overrides)


def _inapplicable(overrides: dict[str, Any], reason: str) -> int:
    """Report a cell of a sweep that is no experiment, without failing: a few failures end an agent."""
    from study.tracking import tracker

    print(f"inapplicable: {reason}")
    tracker.inapplicable(overrides, reason, _out() / "inapplicable")
    return 0


def layers(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the fields of the flags as layers for `experiment_from`, the later over the earlier."""
    return [_yaml(given.pop("config", None)), _json(given.pop("overrides-json", None)), given]


def _run(experiment: Experiment, folder: Path, verbose: bool) -> int:
    print(f"{experiment_id(experiment)} → {folder}", flush=True)
    if records.state(folder) in ("finished", "diverged") and SWEEP not in os.environ:
        print("this run has a record, so nothing is trained; remove its folder to train it again")
    # A sweep's trial waits where another process has the run; a user gets an error.
    record = trial.record_of(experiment, folder, partial(_tell, folder / "log.txt"), SWEEP in os.environ)
    if record.status != "finished":
        print(f"{record.status}: {record.error}")
        return 0 if SWEEP in os.environ else 1  # a result, which an agent would count among its failures
    print(headline(record))
    for score in record.scores if verbose else ():
        if score.subset is None and score.value is not None:
            print(f"{score.split:>20} {score.metric:<10} {score.value:10.3f}   {score.signature or ''}")
    if record.wandb and record.wandb.url:
        print(f"W&B: {record.wandb.url}")
    print(f"record: {folder / 'record.json'}    see it: {program()} show {shlex.quote(str(folder))}")
    return 0


def _tell(log: Path, line: str) -> None:
    """Print a line, and keep it with the run: W&B gets the log at the end."""
    print(line, flush=True)
    files.append(log, f"{line}\n")


def headline(record: records.Record) -> str:
    """Return the scores on the first test split in one line, such as `test  exact 83.4  BLEU 91.2  NLL 1.203`."""
    split = next((score.split for score in record.scores if score.split != "valid"), "valid")
    values = [(f"{split}/{metric}", record.score(split, metric)) for metric in HEADLINE]
    shown = [f"{title(name, unit=False)} {value:.{decimals(name)}f}" for name, value in values if value is not None]
    step = f"  (step {record.selection.step})" if record.selection else ""
    return f"{split}  {'  '.join(shown)}{step}"


def _yaml(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        tree = read_yaml(Path(path)) or {}
    except InputError as problem:
        raise InputError(f"--config {problem}") from None
    if not isinstance(tree, dict):
        raise InputError(f"--config {path}: expected fields such as `seed: 1`, got {type(tree).__name__}.")
    return expand(tree)


def _json(text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        tree = json.loads(text, object_pairs_hook=_once)
        if isinstance(tree, dict):
            return expand(tree)  # the parser of Python 3.13 goes deeper than this does
    except (ValueError, RecursionError) as problem:
        raise InputError(
            f"--overrides-json: expected JSON, got other text ({' '.join(str(problem).split())})."
        ) from None
    raise InputError(f'--overrides-json: expected an object such as {{"seed": 1}}, got {text[:40]}.')


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, and refuse a key that is given twice, of which json takes the later value."""
    keys = [key for key, _ in pairs]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise ValueError(f"{twice[0]!r} is given twice")
    return dict(pairs)
