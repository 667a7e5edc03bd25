"""`study runs`: the ledger of all runs, your own and the published ones."""

from __future__ import annotations

from collections.abc import Sequence

from study.commands.options import RUNS, Parser, add_formats, print_frame, runs_folder, table_lines
from study.errors import InputError
from study.run_names import names, stores

DESCRIPTION = """\
List all runs: your own, the newest first, then the published ones. The text has a few columns; --csv and --json have
all: every field of the configuration in which runs differ, sizes, times and scores, as results/runs.csv has them.

--where takes FIELD=VALUE, !=, <, >, <= or >=. FIELD is a column or its last part: scale=none, test/exact>80,
sweeps=quickstart, model=true (runs whose trained model is there), folder=results/runs. In VALUE, * and ? stand for
other characters.
"""
SHOWN = ("name", "id", "status", "started_utc")
SCORES = ("exact", "bleu", "nll")
MOST = 40
"""Rows of the text."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a condition of another form, or no such column.
    """
    args = _parser().parse_args(argv)
    from study.analysis import ledger

    runs = runs_folder(args.runs)
    there = stores(runs)
    if args.runs is not None and not runs.is_dir():
        raise InputError(f"{runs}: no such folder. Name another with --runs.")
    table = ledger.where(ledger.of_stores(there, names(runs)), args.where or [])
    if args.sort and len(table):
        table = ledger.in_order(table, args.sort.removeprefix("-"), not args.sort.startswith("-"))
    if print_frame(table, args):
        return 0
    if table.empty:
        print("no runs")
        return 0
    split = [next((c for c in table if str(c).endswith(f"/{s}") and str(c).startswith("test")), None) for s in SCORES]
    sought = [column for name in ledger.sought(args.where or []) for column in ledger.columns_of(table, name)]
    shown = [str(name) for name in dict.fromkeys([*SHOWN, *sought[:4], *filter(None, split)])]
    values = table[shown][:MOST].itertuples(index=False)
    print("\n".join(table_lines([dict(zip(shown, row, strict=True)) for row in values])))
    if len(table) > MOST:
        print(f"and {len(table) - MOST} more of {len(table)}; choose with --where, or print all with --csv or --json")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study runs", description=DESCRIPTION)
    add = parser.add_argument
    add("--where", action="append", metavar="CONDITION", help="only runs that fit, such as scale=none; repeatable")
    add("--sort", metavar="FIELD", help="sort by this column; -FIELD: the largest first (write --sort=-FIELD)")
    add_formats(parser)
    add("--runs", metavar="DIR", help=f"{RUNS}; the published runs are listed as well")
    return parser
