"""Remove heads from a trained model and measure the loss.

The result is a run of its own beside RUN (in RUNS, if that is given): a record with the scores of the smaller model,
and its model.pt for `study translate`. The order of removal depends on training and validation data only. A pruning
that has a record is not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from study import records
from study.commands.options import Parser, runs_folder, table_lines
from study.config import experiment_from, experiment_id
from study.config.mechanisms import choices
from study.config.pruning import Pruning
from study.errors import InputError
from study.run_names import find
from study.sweep import signals, trial

FIELDS = tuple(name for name in Pruning.model_fields if name != "base_steps")  # RUN is the base


def main(argv: Sequence[str]) -> int:
    """Run the verb; return the exit status.

    Raises:
        InputError: no such run, an option that means nothing, or a folder that cannot be written.
    """
    parser = Parser(prog="study prune", description=__doc__)
    parser.share("run", "--runs")
    for name in FIELDS:
        field = Pruning.model_fields[name]
        default = "" if field.default is None else f" (default: {field.default})"
        text = (field.description or "").replace("%", "%%") + default
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, dest=name, help=text, metavar="|".join(choices(field)) or "N")
    args = parser.parse_args(argv)
    base = _base(args.run, runs_folder(args.runs))
    given = {name: value for name in FIELDS if (value := getattr(args, name)) is not None}
    pruning = Pruning().model_dump(include={"question"}) | given
    experiment = experiment_from(records.read(base / "record.json").config, {"pruning": pruning})
    folder = (args.runs or base.resolve().parent) / experiment_id(experiment)
    print(f"{folder.name} → {folder}", flush=True)
    with signals.on_request():
        record = trial.record_of(experiment, folder, partial(print, flush=True), base=base)
    if record.status != "finished":
        print(f"{record.status}: {record.error}")
        return 1
    removed = ", ".join(record.diagnostics["pruning"]["removed"]) or "no head"
    print(*table(record), f"removed: {removed}", f"record: {folder}", sep="\n")
    return 0


def _base(run: str, runs: Path) -> Path:
    """Return the folder of the trained run to prune."""
    if not (base := Path(run)).is_dir():
        store, identity = find(run, runs)
        base = store.folder / identity
    if not (base / "model.pt").is_file():
        raise InputError(f"{base.name}: expected a run with a model, got none. `study rerun {base.name}` makes one.")
    record = records.read(base / "record.json")
    if record.status != "finished" or record.config.get("pruning") is not None:
        got = "a pruned one" if record.status == "finished" else f"one that {record.status}"
        raise InputError(f"{base}: expected a finished run that was trained, got {got}. Choose another.")
    return base


def table(record: records.Record) -> list[str]:
    """Return the lines of a table: scores of every part of the model on the first test split, then the pruned model."""
    first = next(score.split for score in record.scores if score.split != "valid")
    subsets = dict.fromkeys(score.subset for score in record.scores if score.split == first)
    parts = [subset for subset in subsets if subset is not None and not subset.startswith("length ")]
    metrics = ("bleu", "exact", "nll")
    scores = ({name: record.score(first, name, part) for name in metrics} for part in (*parts, None))
    names = (*parts, "pruned model")
    return list(table_lines([{first: name, **row} for name, row in zip(names, scores, strict=True)]))
