"""Train, test and record one experiment.

Every field of an experiment is a flag. If a field is given more than once, the later source wins: --preset, --config,
--overrides-json, then flags. The run is written to RUNS/<experiment id>/. The same command continues an interrupted run
there. A run that has a record is not trained again.
"""

import argparse
import importlib.util
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study import files, processes
from study.commands.options import Parser, program, runs_folder
from study.config import Experiment, experiment_from, experiment_id
from study.config.fields import declared, is_of_a_site, rows
from study.engine import trial
from study.errors import InputError
from study.folders import sweeps_of
from study.scores.metrics import decimals, title
from study.store import records
from study.sweep.fields import expand, takes
from study.sweep.file import read_yaml

HEADLINE = ("exact", "bleu", "nll", "aer")
"""Scores of the line that ends a training."""
SWEEP = "WANDB_SWEEP_ID"
"""Set where a sweep's agent, or the local engine, started this process."""
SITES = (
    "--model.attention.FIELD sets a field at every site of the model, --model.attention.SITE.FIELD at one: cross, "
    "in the transformer also encoder_self or decoder_self, in the decoder-only family joint alone. score, scale, "
    "weights, combine, reach, maps, values, output and site also take your own class: FILE.py or FILE.py:CLASS. "
    "Of two defaults, the first is the recurrent family's."
)


def main(argv: Sequence[str]) -> int:
    """Run the verb.

    The exit status: 0 when the run is finished, 1 when it diverged, 130 (Ctrl-C) or 143 (SIGTERM) when it was stopped
    and can be resumed.
    """
    if SWEEP in os.environ:
        processes.with_parent()
    parser = Parser("train", __doc__, "--runs", usage="study train [--FIELD VALUE ...] [...]")
    add_experiment(parser)
    args = parser.parse_args(argv)
    fields = layers(args)
    try:
        experiment = experiment_from(*fields)
    except InputError as reason:
        valid = [takes(name, value) for name, value in fields[1].items()]
        if SWEEP in os.environ and valid and all(valid):  # only their combination is rejected: failures end an agent
            from study.tracking import tracker

            print(f"inapplicable: {reason}")
            tracker.inapplicable(fields[1], str(reason), runs_folder(args.runs) / "inapplicable")
            return 0
        raise
    declares_folder = args.runs is None and "out" in experiment.model_fields_set
    runs = runs_folder(experiment.out if declares_folder else args.runs)
    if SWEEP in os.environ and importlib.util.find_spec("wandb"):
        from study.engine import wandb_agents

        wandb_agents.find_place(experiment, fields[1], runs, sweeps_of(runs))
    return _run(experiment, runs / experiment_id(experiment))


def add_experiment(parser: Parser) -> None:
    """Add --config, --overrides-json and a flag for every field. The help omits the flags of single sites."""
    parser.add_argument("--config", metavar="FILE", type=Path, help="YAML file with fields, nested or dotted")
    parser.add_argument(
        "--overrides-json",
        metavar="JSON",
        help='fields as JSON, dotted or nested: {"model.attention.scale": "none", "seed": 2}. The key arm takes '
        "several fields as one text, with short names: scale=none key_width=512",
    )
    groups = {}
    for row in rows():
        name, section = row["field"], row["field"].rpartition(".")[0] or "experiment"
        if section not in groups:
            about = SITES if section == "model.attention" else None
            groups[section] = parser.add_argument_group(section, about)
        values = f"{row['values']}. " if row["values"] else ""
        only = f" [{row['of']}]" if row["of"] else ""
        default = "" if row["default"].startswith(("none", "derived")) else f" (default: {row['default']})"
        text = f"{values}{row['meaning']}{only}{default}".replace("%", "%%")
        groups[section].add_argument(f"--{name}", dest=name, default=argparse.SUPPRESS, metavar="…", help=text)
    for name in filter(is_of_a_site, declared()):
        parser.add_argument(f"--{name}", dest=name, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def layers(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the fields of a command line as layers for `experiment_from`, the later over the earlier."""
    texts = {str(args.config): {} if args.config is None else read_yaml(args.config) or {}}
    texts["--overrides-json"] = files.parse_json(args.overrides_json or "{}", "--overrides-json")
    for name, tree in texts.items():
        if not isinstance(tree, dict):
            raise InputError(f"{name}: expected fields such as `seed: 1`, got {type(tree).__name__}.")
    flags = {name: value for name, value in vars(args).items() if name in declared()}
    return [*map(expand, texts.values()), flags]


def _run(experiment: Experiment, folder: Path) -> int:
    print(f"{experiment_id(experiment)} → {folder}", flush=True)
    in_sweep = SWEEP in os.environ
    if records.state(folder) in ("finished", "diverged") and not in_sweep:
        print("this run has a record, so nothing is trained; remove its folder to train it again")

    def watch(line: str) -> None:
        print(line, flush=True)
        files.append(folder / "log.txt", f"{line}\n")  # which W&B gets at the end

    # A sweep's trial waits where another process has the run; a user gets an error.
    record = trial.record_of(experiment, folder, watch, in_sweep)
    if record.status != "finished":
        print(f"{record.status}: {record.error}")
        return 0 if in_sweep else 1  # a result, which an agent would count among its failures
    print(headline(record))
    print(f"record: {folder / 'record.json'}    see it: {program()} show {shlex.quote(str(folder))}")
    return 0


def headline(record: records.Record) -> str:
    """Return the scores on the first test split in one line, such as `test  exact 83.4  BLEU 91.2  NLL 1.203`."""
    split = next((score.split for score in record.scores if score.split != "valid"), "valid")
    values = [(f"{split}/{metric}", record.score(split, metric)) for metric in HEADLINE]
    words = [f"{title(name, unit=False)} {value:.{decimals(name)}f}" for name, value in values if value is not None]
    step = f"  (step {record.selection.step})" if record.selection else ""
    return f"{split}  {'  '.join(words)}{step}"
