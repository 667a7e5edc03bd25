"""`study report`: the tables and figures of a sweep, from records alone."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser

DESCRIPTION = """\
Print the comparison table of the sweep that FILE declares and write it with its figure, from the records of a folder:
table.csv, .md, .tex and .json, figure.svg, .png and .csv. Trains nothing and needs no torch. Runs that are missing,
failed or diverged are shown as such.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, sweep file or record, or a folder that is absent or cannot be written.
    """
    args = _parser().parse_args(argv)
    from study.publish.store import is_results
    from study.publish.summary import report_published, report_sweep
    from study.sweep.spec import load

    spec, runs = load(args.sweep), Path(args.runs or os.environ.get("STUDY_RUNS") or "runs")
    if is_results(runs) and args.to is None:
        report_published(spec, runs)
    else:
        report_sweep(spec, runs, args.to)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="study report",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--sweep", type=Path, required=True, metavar="FILE", help="a sweep file, such as sweeps/quickstart.yaml")
    add("--runs", metavar="DIR", help="folder of the records, also results (default: $STUDY_RUNS, else runs)")
    add("--to", type=Path, metavar="DIR", help="folder to write to (default: RUNS/report/NAME; in results, its own)")
    return parser
