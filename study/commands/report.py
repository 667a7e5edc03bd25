"""`study report`: the tables and figures of a sweep, from records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RUNS, Parser, runs_folder
from study.errors import InputError

DESCRIPTION = """\
Print the comparison table of a sweep and write it with its figure: table.csv, .md and .json, figure.svg, .png and .csv.
Runs that are missing, failed or diverged are shown as such. Trains nothing and needs no torch.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, sweep file or record, or a folder that is absent or cannot be written.
    """
    args = _parser().parse_args(argv)
    args.sweep = args.sweep or getattr(args, "flagged", None)
    if args.sweep is None:
        raise InputError("SWEEP: expected a sweep file, got none. See `study report --help`.")
    from study.publish.report import compared, report_published, report_sweep
    from study.store import is_results
    from study.sweep.spec import load

    spec, runs = load(args.sweep), runs_folder(args.runs)
    if args.json:
        print(compared(spec, runs).table.records_json(), end="")
    elif is_results(runs) and args.out is None and args.format != "latex":
        report_published(spec, runs)
    else:
        report_sweep(spec, runs, args.out, args.format == "latex")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study report", description=DESCRIPTION)
    add = parser.add_argument
    add("sweep", nargs="?", type=Path, metavar="SWEEP", help="a sweep file, such as sweeps/quickstart.yaml")
    add("--runs", metavar="DIR", help=RUNS)
    add("--json", action="store_true", help="print the rows as JSON with the keys of table.csv, and write no file")
    add("--out", type=Path, metavar="DIR", help="folder of the output (default: RUNS/report/NAME)")
    add("--format", choices=["latex"], help="latex: also write table.tex, for booktabs")
    parser.alias("--to", "--out", type=Path)
    parser.alias("--sweep", "--flagged", type=Path)
    return parser
