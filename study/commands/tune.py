"""Search the best setting of every arm on validation. All arms get the same settings, so their budgets are equal.

The same command continues a stopped search. The table reads validation scores only, never those of a test split.

SWEEP is a W&B sweep file (method: random with run_cap, or grid), which `wandb sweep` accepts too. The values of its
parameter `arm` are the arms; the other parameters with several values or a range are searched. The metric is valid/…,
and run_cap limits the runs of all arms together.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from study.commands import sweep
from study.commands.options import Parser, say, table_lines
from study.folders import sweep_file
from study.scores.metrics import decimals, metric_of
from study.store import records
from study.sweep import search
from study.sweep.fields import short_name, text
from study.sweep.spec import Cell, Spec

WORST = -float("inf")  # score of a run that has none, because it diverged


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, a file that is no search on validation, or a folder that cannot be used.
    """
    parser = Parser("tune", __doc__, "sweep")
    sweep.add_local(parser)
    parser.set_defaults(engine="local")
    args = parser.parse_args(argv)
    declared = search.load(sweep_file(args.sweep))

    def report(spec: Spec, out: Path, args: argparse.Namespace) -> None:
        rows = [{"arm": text(arm), **_row(declared, cells, out)} for arm, cells in declared.arms.items()]
        say("", *table_lines(rows), "validation only; test scores are not read")

    return sweep.run(declared.spec, declared.spec.cells, args, report)[0]


def _row(declared: search.Search, cells: Sequence[Cell], out: Path) -> dict[str, Any]:
    """Return the best setting of an arm, and how its budget went."""
    name, scores = declared.spec.metrics[cells[0].facet], []
    sign = metric_of(name).direction
    states = [records.state(out / cell.id) for cell in cells]
    for cell, state in zip(cells, states, strict=True):
        if state in ("finished", "diverged"):
            value = records.read(out / cell.id / "record.json").score(*name.split("/"))
            scores.append((WORST if value is None else sign * value, cell.given))
    values = [score for score, _ in scores]
    best, setting = max(scores, key=lambda pair: pair[0], default=(WORST, {}))
    row = {"done": f"{len(scores)} of {len(cells)}", "diverged": states.count("diverged")}
    if best == WORST:
        return row | {"remark": "no run has a score"}
    for column, value in ((name, best), ("median", median(values))):
        row[column] = f"{sign * value:.{decimals(name)}f}" if value > WORST else "diverged"
    row["best setting"] = " ".join(f"{short_name(field)}={text(setting[field])}" for field in declared.searched)
    remarks = ["budget not used up"] if len(scores) < len(cells) else []
    for field in declared.searched:
        if edge := declared.edge(field, setting[field]):
            remarks.append(f"{short_name(field)} at the {edge} edge: extend its range")
    return row | {"remark": "; ".join(remarks)}
