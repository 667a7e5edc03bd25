"""List runs, sweeps, presets, fields, scores or corpora.

  runs      your own runs, the newest first, then the published ones
  sweeps    sweep files: runs, seeds, arms and the metric that decides
  presets   published models for --preset
  fields    fields of an experiment: short name in sweep files, and default
  scores    scores by corpus, as `split/score`, and their direction
  corpora   corpora and probes, and their splits

--query chooses runs by a condition in the language of pandas' DataFrame.query, such as
  study ls runs --query 'scale == "none" and exact < 50'
  study ls runs --query 'sweeps.str.contains("quickstart") and model'

A name is a column or its last part: `scale` is `model.attention.cross.scale`, and `exact` is `test/exact`. Write any
other column with a point or a stroke in backticks. --csv prints all columns: configuration, sizes, times and scores.
A condition compares columns with values. It cannot run code: `@`, `__` and `.to_` are refused.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from study.commands.options import Parser, folder, print_frame, runs_folder, say, table_lines
from study.errors import InputError
from study.run_names import stores, sweeps_folder

if TYPE_CHECKING:
    import pandas as pd

SCORES = ("exact", "bleu")
MOST = 40
"""Rows of the text."""


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: a wrong option or condition, no such folder, or a file that cannot be read.
    """
    parser = Parser(prog="study ls", description=__doc__)
    add = parser.add_argument
    add("what", choices=("runs", *LISTERS), metavar="WHAT", help="runs, sweeps, presets, fields, scores or corpora")
    add("--query", metavar="EXPR", help="only runs that meet this condition")
    add("--sort", metavar="COLUMN", help="sort runs by this column; -COLUMN: the largest first (write --sort=-COLUMN)")
    parser.share("--json", "--csv", "--runs")
    args = parser.parse_args(argv)
    if args.what == "runs":
        table, shown = _runs(args)
        rows: list[dict[Any, Any]] = table[shown].head(MOST).to_dict("records")
    elif args.query or args.sort or args.runs:
        raise InputError(f"--query, --sort, --runs: expected with `study ls runs`, got {args.what}. Remove them.")
    else:
        import pandas as pd

        rows = [*LISTERS[args.what](args)]
        table = pd.DataFrame(rows, dtype=object)
    if not print_frame(table, args):
        say(*table_lines(rows) if rows else [f"no {args.what}"])
        if len(rows) < len(table):
            say(f"and {len(table) - len(rows)} more of {len(table)}; choose with --query, or print all with --csv")
    return 0


def _runs(args: Namespace) -> tuple[pd.DataFrame, list[str]]:
    """Return the runs, and the columns that a terminal shows. Without a question, few columns are read."""
    from study.analysis import ledger

    runs = runs_folder(args.runs) if args.runs is None else folder(args.runs, "--runs")
    few = not (args.query or args.sort or args.csv or args.json)
    table = ledger.table(stores(runs), *((["status"], SCORES) if few else ()))
    named: list[str] = []
    if args.query:
        table, named = ledger.query(table, args.query)
    if args.sort:
        by = ledger.column(table, args.sort.removeprefix("-"))
        table = table.sort_values(by, ascending=by == args.sort or not args.sort.startswith("-"), kind="stable")
        named.append(by)
    tests = sorted(name for name in map(str, table) if name.startswith("test") and name.split("/")[1] in SCORES)
    usual = ["id", "status", "started_utc", *tests[: len(SCORES)], *named]
    return table, [name for name in dict.fromkeys(usual) if name in table]


def _sweeps(args: Namespace) -> Iterator[dict[str, Any]]:
    from study.sweep.spec import load

    for path in sorted(sweeps_folder().glob("*.yaml")):
        spec = load(path)
        sizes = {"runs": len(spec.runnable), "seeds": len(spec.seeds), "arms": sum(map(len, spec.arms.values()))}
        yield {"file": str(path), **sizes, "metric": "/".join(spec.metric), "description": spec.description}


def _presets(args: Namespace) -> Iterator[dict[str, Any]]:
    from study.config import TEXTBOOK

    for name, arm in TEXTBOOK.items():
        fields = {field: arm.overrides[field] for field in ("model.family", "model.attention.score")}
        yield {"preset": name, **fields, "source": arm.source, "differs": arm.differs}


def _fields(args: Namespace) -> Iterator[dict[str, Any]]:
    from study.config.fields import rows
    from study.sweep.fields import short_name

    for row in rows():
        first = {"field": row["field"], "short": short_name(row["field"]), "default": row["default"]}
        yield first | row if args.json or args.csv else first


def _scores(args: Namespace) -> Iterator[dict[str, Any]]:
    from study import metrics

    known = dict.fromkeys(name for section in _sections() for name in metrics.names(section))
    for score, one in metrics.METRICS.items():
        splits = [split for split, metric in (name.split("/") for name in known) if metric == score]
        if splits:
            yield {"score": score, "name": one.full_title, "goal": one.goal, "splits": splits, "meaning": one.meaning}


def _corpora(args: Namespace) -> Iterator[dict[str, Any]]:
    for section in _sections():
        task = " ".join((type(section).__doc__ or "").split("\n\n")[0].split())
        yield {"name": section.name, "splits": ["train", *section.scored], "task": task}


def _sections() -> list[Any]:
    from study.corpora.catalogue import KINDS

    return [kind.example() for kind in KINDS.values()]


LISTERS: dict[str, Callable[[Namespace], Iterator[dict[str, Any]]]] = {
    "sweeps": _sweeps,
    "presets": _presets,
    "fields": _fields,
    "scores": _scores,
    "corpora": _corpora,
}
