"""`study prune RUN`: remove heads from a trained model and measure the loss."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study import records
from study.commands.options import Parser, print_json, program, runs_folder
from study.config import Experiment, experiment_from, experiment_id
from study.config.mechanisms import choices
from study.config.pruning import Pruning
from study.errors import InputError
from study.run_names import find
from study.sweep import signals, trial

DESCRIPTION = """\
Remove heads from a trained model and measure the loss. The result is a run of its own beside RUN (in RUNS, if that is
given): a record with the scores of the smaller model, and its model.pt for `study translate`. The order of removal
depends on training and validation data only. A pruning that has a record is not repeated.
"""
FIELDS = tuple(name for name in Pruning.model_fields if name != "base_steps")  # RUN is the base
SHOWN = ("bleu", "exact", "nll")


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, an option that means nothing, or a folder that cannot be written.
    """
    parser = Parser(prog="study prune", description=DESCRIPTION)
    parser.share("run", "--runs", "--json")
    for name in FIELDS:
        field = Pruning.model_fields[name]
        default = "" if field.default is None else f" (default: {field.default})"
        text = (field.description or "").replace("%", "%%") + default
        parser.add_argument(
            f"--{name.replace('_', '-')}", dest=name, help=text, metavar="|".join(choices(field)) or "N"
        )
    args = parser.parse_args(argv)
    base = _base(args.run, runs_folder(args.runs))
    experiment = _experiment(base, {name: value for name in FIELDS if (value := getattr(args, name)) is not None})
    folder = (args.runs or base.resolve().parent) / experiment_id(experiment)
    to = sys.stderr if args.json else sys.stdout
    print(f"{experiment_id(experiment)} → {folder}", file=to, flush=True)
    if records.state(folder) == "finished":
        record = records.read(folder / "record.json")
        trial.tidy(folder)
    else:
        from study.pruning.run import run

        with signals.on_request(), trial.guarded(folder):
            record = run(experiment, folder, watch=lambda line: print(line, file=to, flush=True), base=base)
    if record.status != "finished":
        print(f"{record.status}: {record.error}", file=to)
        return 1
    removed = record.diagnostics.get("pruning", {}).get("removed", [])
    if args.json:
        scores = [score.model_dump(include={"split", "subset", "metric", "value", "n"}) for score in record.scores]
        print_json({"id": record.id, "removed": removed, "scores": scores})
    else:
        print(*table(record), f"removed: {', '.join(removed) or 'no head'}", sep="\n")
        print(f"record: {folder / 'record.json'}    see it: {program()} show {shlex.quote(str(folder))}")
    return 0


def _base(run: str, runs: Path) -> Path:
    """Return the folder of the run to prune."""
    if (path := Path(run)).is_dir():
        return path
    store, identity = find(run, runs)
    if not (store.folder / identity).is_dir():
        what = f"{identity}: expected a run of your own, got a published one"
        raise InputError(f"{what}. `study rerun {identity}` first.")
    return store.folder / identity


def _experiment(base: Path, pruning: dict[str, Any]) -> Experiment:
    """Return the experiment of a run with this pruning section."""
    record = records.read(base / "record.json")
    if record.status != "finished":
        raise InputError(f"{base}: expected a finished run, got one that {record.status}. Choose another.")
    if record.config.get("pruning") is not None:
        raise InputError(f"{base}: expected a trained run, got a pruned one. Give the run that it was pruned from.")
    if not (base / "model.pt").is_file():
        raise InputError(f"{base / 'model.pt'}: no such file. Remove the folder and train again.")
    return experiment_from(record.config, {"pruning": {**Pruning().model_dump(include={"question"}), **pruning}})


def table(record: records.Record) -> list[str]:
    """Table of scores on the first test split: every part of the model, then the pruned model."""
    first = next(score.split for score in record.scores if score.split != "valid")
    subsets = dict.fromkeys(score.subset for score in record.scores if score.split == first)
    parts = [subset for subset in subsets if subset is not None and not subset.startswith("length ")]
    width = max(map(len, [*parts, "pruned model"]))
    lines = [f"{first:<{width}}  " + "".join(f"{metric:>9}" for metric in SHOWN)]
    for subset in (*parts, None):
        values = [record.score(first, metric, subset) for metric in SHOWN]
        shown = "".join(f"{'–' if value is None else format(value, '9.3f'):>9}" for value in values)
        lines.append(f"{subset or 'pruned model':<{width}}  {shown}")
    return lines
