"""`study train`: one experiment, trained, tested and recorded."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from study import files, records
from study.commands import flags
from study.commands.options import Parser, program, runs_folder
from study.config import Experiment, experiment_from, experiment_id
from study.errors import InputError
from study.metrics import decimals, title
from study.sweep import fields, signals, trial
from study.sweep.file import read_yaml
from study.sweep.grid import expand

DESCRIPTION = """\
Train, test and record one experiment.

Every field of an experiment is a flag. If a field is given more than once, the later source wins: --preset, --config,
--overrides-json, then flags. The run is written to RUNS/<experiment id>/. The same command continues an interrupted run
there. A run that has a record is not trained again.
"""
HEADLINE = ("exact", "bleu", "nll", "aer")
"""Scores of the line that ends a training."""
SWEEP = "WANDB_SWEEP_ID"
"""Set where a sweep's agent, or the local engine, started this process."""


def main(argv: Sequence[str]) -> int:
    """Run the verb.

    The exit status: 0 when the run is finished, 1 when it diverged, 130 (Ctrl-C) or 143 (SIGTERM) when it was stopped
    and can be resumed.
    """
    if SWEEP in os.environ:
        signals.with_parent()
    with signals.on_request():
        parser = Parser(prog="study train", description=DESCRIPTION, usage="study train [--FIELD VALUE ...] [...]")
        parser.share("--runs")
        parser.add_argument("--verbose", "-v", action="store_true", help="print every score, not only the headline")
        add_experiment(parser)
        args = parser.parse_args(argv)
        given = layers(args)
        try:
            experiment = experiment_from(*given)
        except InputError as reason:
            if SWEEP not in os.environ or not _plausible(given[1]):
                raise
            return _inapplicable(given[1], str(reason), runs_folder(args.runs))
        named = args.runs is None and "out" in experiment.model_fields_set
        folder = runs_folder(experiment.out if named else args.runs) / experiment_id(experiment)
        return _run(experiment, folder, args.verbose)


def add_experiment(parser: Parser) -> None:
    """Add everything that declares an experiment."""
    parser.add_argument("--config", metavar="FILE", type=Path, help="YAML file with fields, nested or dotted")
    parser.add_argument(
        "--overrides-json",
        metavar="JSON",
        help='fields as JSON, dotted or nested: {"model.attention.scale": "none", "seed": 2}. The key arm takes '
        "several fields as one text, with short names: scale=none key_width=512",
    )
    flags.add_fields(parser)


def layers(args: Namespace) -> list[dict[str, Any]]:
    """Return the fields of a command line as layers for `experiment_from`, the later over the earlier."""
    return [_yaml(args.config), _json(args.overrides_json), flags.given(args)]


def _plausible(overrides: dict[str, Any]) -> bool:
    """Return True if each value is valid by itself, so that only their combination is rejected."""
    try:
        for name, value in overrides.items():
            fields.check(name, value)
    except InputError:
        return False
    return bool(overrides)


def _inapplicable(overrides: dict[str, Any], reason: str, runs: Path) -> int:
    """Report a cell of a sweep that is no experiment, without failing: a few failures end an agent."""
    from study.tracking import tracker

    print(f"inapplicable: {reason}")
    tracker.inapplicable(overrides, reason, runs / "inapplicable")
    return 0


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


def _yaml(path: Path | None) -> dict[str, Any]:
    tree = {} if path is None else read_yaml(path, aliases=False) or {}
    if not isinstance(tree, dict):
        raise InputError(f"{path}: expected fields such as `seed: 1`, got {type(tree).__name__}.")
    return expand(tree)


def _json(text: str | None) -> dict[str, Any]:
    tree = files.parse_json(text or "{}", "--overrides-json")
    if not isinstance(tree, dict):
        raise InputError(f'--overrides-json: expected an object such as {{"seed": 1}}, got {text}.')
    return expand(tree)
