"""`study report`: the table and the figure of a sweep, or the figures of the study, from records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RUNS, Parser, folder, runs_folder
from study.errors import InputError
from study.run_names import published, sweeps_of

DESCRIPTION = """\
Print the comparison table of a sweep and write it with its figure: table.csv and .md, figure.svg, .png and .csv.
Runs that are missing, failed or diverged are shown as such. Trains nothing and needs no torch.

With --figures, draw the figures of the study instead, from the published runs or from your own (--runs). Every figure
is written as .svg and .png, with its numbers as .csv. A figure whose sweep has no runs is left out, and a line names
it.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, name, sweep file or record, or a folder that is absent or cannot be written.
    """
    args = _parser().parse_args(argv)
    args.sweep = args.sweep or getattr(args, "flagged", None)
    if (args.sweep is None) == (args.figures is None):
        got = "none" if args.sweep is None else "one and --figures"
        raise InputError(f"SWEEP: expected a sweep file, or --figures, got {got}. See `study report --help`.")
    from study.analysis.runs import Runs

    if args.figures is not None:
        from study.analysis.figures.catalogue import chosen, draw_all

        runs = folder(published() if args.runs is None else runs_folder(args.runs), "--runs")
        out = args.out or runs_folder(args.runs) / "report" / "figures"
        for drawn in draw_all(chosen(args.figures), Runs(runs, folder(sweeps_of(runs), "--runs")), out):
            print(drawn.line, flush=True)
        return 0
    from study.publish.report import compared, report_sweep
    from study.sweep.spec import load

    spec, runs = load(args.sweep), runs_folder(args.runs)
    if args.json:
        print(compared(spec, Runs(runs)).table.records_json(), end="")
    else:
        report_sweep(spec, runs, args.out)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study report", description=DESCRIPTION)
    add = parser.add_argument
    add("sweep", nargs="?", type=Path, metavar="SWEEP", help="a sweep file, such as sweeps/quickstart.yaml")
    add("--figures", nargs="*", metavar="NAME", help="draw these figures of the study (no name: all)")
    add("--runs", metavar="DIR", help=f"{RUNS}; results for the published runs")
    add("--json", action="store_true", help="print the rows as JSON with the keys of table.csv, and write no file")
    add("--out", type=Path, metavar="DIR", help="folder of the output (default: RUNS/report/NAME, or …/figures)")
    parser.alias("--to", "--out", type=Path)
    parser.alias("--sweep", "--flagged", type=Path)
    return parser
