"""`study prune RUN`: heads of one's own trained model removed, and what that costs."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from study import records
from study.commands.options import Parser
from study.config import Experiment, experiment_from, experiment_id
from study.config.pruning import Pruning
from study.errors import InputError

DESCRIPTION = """\
Remove heads of a trained model and measure what that costs: a record like any other, beside RUN, with the scores of
the smaller model, and its model.pt, which `study translate` runs. The order looks at training and validation data
alone. A pruning that is recorded already is not done again. `study train --help` describes the options.
"""
FIELDS = tuple(Pruning.model_fields)
SHOWN = ("bleu", "exact", "nll")


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, an option that means nothing, or a folder that cannot be written.
    """
    given = vars(_parser().parse_args(argv))
    base = given["run"] if given["run"].name != "record.json" else given["run"].parent
    experiment = _experiment(base, {name: value for name in FIELDS if (value := given[name]) is not None})
    folder = (given["out"] or base.resolve().parent) / experiment_id(experiment)
    print(f"{experiment_id(experiment)} → {folder}", flush=True)
    if records.state(folder) == "finished":
        record = records.read(folder / "record.json")
    else:
        from study.pruning.run import run

        record = run(experiment, folder, watch=lambda line: print(line, flush=True), base=base)
    if record.status != "finished":
        print(f"{record.status}: {record.error}")
        return 1
    for line in table(record):
        print(line)
    print(f"record: {folder / 'record.json'}    see it: study show {shlex.quote(str(folder))}")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="study prune",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a finished run with its model.pt")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the pruned runs (default: that of RUN)")
    for name, field in Pruning.model_fields.items():
        told = (field.description or "").replace("%", "%%")
        default = "" if field.default is None else f" (default: {field.default})"
        parser.add_argument(f"--{name.replace('_', '-')}", metavar=_metavar(field.annotation), help=told + default)
    return parser


def _metavar(annotation: Any) -> str:
    """The choices, where the type is one of several words."""
    words = [word for part in (annotation, *get_args(annotation)) for word in get_args(part) if isinstance(word, str)]
    return "{" + ",".join(dict.fromkeys(words)) + "}" if words else "N"


def _experiment(base: Path, pruning: dict[str, Any]) -> Experiment:
    """The experiment of a run, with this section."""
    if not base.is_dir():
        raise InputError(f"{base}: no such folder; give that of a finished run")
    record = records.read(base / "record.json")
    if record.status != "finished":
        raise InputError(f"{base}: this run {record.status}, so there is no model to prune; choose a finished one")
    if record.config.get("pruning") is not None:
        raise InputError(f"{base}: pruned already; give the run that it was pruned from")
    if not (base / "model.pt").is_file():
        raise InputError(
            f"{base / 'model.pt'}: absent, so there is no model to prune; remove the folder and train again"
        )
    return experiment_from(record.config, {"pruning": {**Pruning().model_dump(include={"question"}), **pruning}})


def table(record: records.Record) -> list[str]:
    """What each part of the model scores on the first test split, and the whole model that is left."""
    first = next(score.split for score in record.scores if score.split != "valid")
    subsets = list(dict.fromkeys(s.subset for s in record.scores if s.split == first and not _length(s.subset)))
    parts = [subset for subset in subsets if subset is not None]
    width = max(map(len, [*parts, "what is left"]))
    lines = [f"{first:<{width}}  " + "".join(f"{metric:>9}" for metric in SHOWN)]
    for subset in (*parts, None):
        values = [record.score(first, metric, subset) for metric in SHOWN]
        shown = "".join(f"{'–' if value is None else format(value, '9.3f'):>9}" for value in values)
        lines.append(f"{subset or 'what is left':<{width}}  {shown}")
    removed = record.diagnostics.get("pruning", {}).get("removed", [])
    return [*lines, f"removed: {', '.join(removed) or 'no head'}"]


def _length(subset: str | None) -> bool:
    return subset is not None and subset.startswith("length ")
