"""List runs, sweeps, presets, fields, scores or corpora.

  runs      your own runs, the newest first, then the published ones
  sweeps    sweep files by name: runs, seeds, arms and the metric that decides
  presets   published models for --preset
  fields    fields of an experiment: short name in sweep files, and default
  scores    scores by corpus, as `split/score`, and their direction
  corpora   corpora and probes, and their splits

--query chooses runs by a condition, such as
  study ls runs --query 'scale == "none" and exact < 50'
  study ls runs --query 'sweeps.str.contains("quickstart") and model'

A name is a column or its last part: `scale` is `model.attention.cross.scale`, and `exact` is `test/exact`. Write any
other column with a point or a stroke in backticks. --csv prints all columns: configuration, sizes, times and scores.
A condition has comparisons of columns and values, `and`, `or`, `not`, `in [2, 4]`, and `isna()`, `notna()`,
`isin([2, 4])` and `str.contains("text")` of a column. Anything else is refused.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from study.commands.options import Parser, folder, runs_folder, say, table_lines
from study.errors import InputError
from study.folders import sweeps_folder
from study.store.find import stores

Rows = Sequence[Mapping[Any, Any]]
Lines = Iterator[dict[str, Any]]
SCORES = ("exact", "bleu")
MOST = 40
"""Runs that the text has."""
FIELDS = ("field", "short", "default")
"""Columns of fields that the text has."""


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: a wrong option or condition, no such folder, or a file that cannot be read.
    """
    parser = Parser("ls", __doc__)
    add = parser.add_argument
    add("what", choices=("runs", *LISTERS), metavar="WHAT", help="runs, sweeps, presets, fields, scores or corpora")
    add("--query", metavar="EXPR", help="only runs that meet this condition")
    parser.share("--csv", "--runs")
    args = parser.parse_args(argv)
    if args.what == "runs":
        table, names, columns = _runs(args)
    elif args.query or args.runs:
        raise InputError(f"--query, --runs: expected with `study ls runs`, got {args.what}. Remove them.")
    else:
        table = list(LISTERS[args.what]())
        names = list(dict.fromkeys(name for row in table for name in row))
        columns = list(FIELDS if args.what == "fields" else names)
    if args.csv:
        import pandas as pd

        print(pd.DataFrame(table, columns=names).to_csv(index=False, lineterminator="\n"), end="")
        return 0
    shown = table[: MOST if args.what == "runs" else len(table)]
    heads = _heads(columns) if args.what == "runs" else dict(zip(columns, columns, strict=True))
    lines = [{head: row.get(name) for name, head in heads.items()} for row in shown]
    for line in lines:
        if "day" in line:  # long ids leave 80 columns no room for more
            line["day"] = (line["day"] or "")[len("2026-") : len("2026-11-28")]
    say(*table_lines(lines) if lines else [f"no {args.what}"])
    if len(lines) < len(table):
        say(f"and {len(table) - len(lines)} more of {len(table)}; choose with --query, or print all with --csv")
    return 0


def _heads(columns: Sequence[str]) -> dict[str, str]:
    """Return the heads of columns of runs: fields as a condition has them, scores of one split without it."""
    short = {name: name.rpartition("/")[2] for name in columns if name.rpartition("/")[2] in SCORES}
    if len(set(short.values())) < len(short):  # of several splits
        short = {}
    heads = {name: name.rpartition(".")[2] for name in columns}
    return heads | short | {name: "day" for name in columns if name == "started_utc"}


def _runs(args: Namespace) -> tuple[Rows, list[str], list[str]]:
    """Return the runs, their columns, and those that a terminal shows. Without a question, few columns are read."""
    from study.analysis import ledger

    runs = runs_folder(args.runs) if args.runs is None else folder(args.runs, "--runs")
    queried: list[str] = []
    table: Rows
    if args.query or args.csv:
        frame = ledger.table(stores(runs))
        if args.query:
            frame, queried = ledger.query(frame, args.query)
        table, names = frame.to_dict("records"), list(map(str, frame))
        present = list(map(str, frame.head(MOST).dropna(axis=1, how="all")))
    else:
        table = ledger.listed(stores(runs), ["status"], SCORES)
        names = list(dict.fromkeys(name for row in table for name in row))
        present = [name for name in names if any(row.get(name) is not None for row in table[:MOST])]
    tests = sorted(name for name in present if name.startswith("test") and name.split("/")[1] in SCORES)
    began = [] if queried else ["started_utc"]  # a terminal has no room for both
    usual = ["id", "status", *began, *tests[: len(SCORES)], *queried]
    return table, names, [name for name in dict.fromkeys(usual) if name in names]


def _sweeps() -> Lines:
    from study.sweep.spec import load

    for path in sorted(sweeps_folder().glob("*.yaml")):
        try:
            spec = load(path)
        except InputError as problem:  # such as a file for `study tune`; the others are listed
            print(f"study: {problem}", file=sys.stderr)
            continue
        sizes = {"runs": len(spec.runnable), "seeds": len(spec.seeds), "arms": sum(map(len, spec.arms.values()))}
        metric = ", ".join(dict.fromkeys(spec.metrics.values()))
        yield {"sweep": path.stem, **sizes, "metric": metric, "description": spec.description}


def _presets() -> Lines:
    from study.config import TEXTBOOK

    for name, arm in TEXTBOOK.items():
        fields = {field: arm.overrides[field] for field in ("model.family", "model.attention.score")}
        yield {"preset": name, **fields, "source": arm.source, "differs": arm.differs}


def _fields() -> Lines:
    from study.config.fields import rows
    from study.sweep.fields import short_name

    for row in rows():
        yield {"field": row["field"], "short": short_name(row["field"])} | row


def _scores() -> Lines:
    from study.scores import metrics

    names = dict.fromkeys(name for section in _sections() for name in metrics.names(section))
    for score, definition in metrics.METRICS.items():
        splits = [split for split, metric in (name.split("/") for name in names) if metric == score]
        if splits:
            where = ", ".join(splits)
            yield {
                "score": score,
                "name": definition.full_title,
                "goal": definition.goal,
                "splits": where,
                "meaning": definition.meaning,
            }


def _corpora() -> Lines:
    for section in _sections():
        task = " ".join((type(section).__doc__ or "").split("\n\n")[0].split())
        yield {"name": section.name, "splits": ", ".join(["train", *section.scored]), "task": task}


def _sections() -> list[Any]:
    from study.corpora.catalogue import KINDS

    return [kind.example() for kind in KINDS.values()]


LISTERS: dict[str, Callable[[], Lines]] = {
    "sweeps": _sweeps,
    "presets": _presets,
    "fields": _fields,
    "scores": _scores,
    "corpora": _corpora,
}
