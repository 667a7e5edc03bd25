"""Print the comparison table of a sweep, and write it with its figure.

The files are table.csv and .md, figure.svg, .png and .csv. Runs that are missing, failed or diverged are shown as such.
Trains nothing and needs no torch.

With --figures, draw the figures of the study instead, from the published runs or from your own (--runs). Every figure
is written as .svg and .png, with its numbers as .csv. A figure whose sweep has no runs is left out, and a line names
it.

Output goes to --out (default: RUNS/report/NAME, of published runs report/NAME, of figures RUNS/report/figures). With
--json, the rows of the table are printed with the keys of table.csv, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from study.commands.options import SHARED, Parser, folder, runs_folder
from study.errors import InputError
from study.run_names import results_folder, sweep_file, sweeps_of


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, name, sweep file or record, or a folder that is absent or cannot be written.
    """
    parser = Parser(prog="study report", description=__doc__)
    parser.add_argument("sweep", nargs="?", **SHARED["sweep"])
    text = "draw these figures of the study (no name: all)"
    parser.add_argument("--figures", nargs="*", metavar="NAME", help=text)
    parser.share("--runs", "--json", "--out")
    args = parser.parse_args(argv)
    if (args.sweep is None) == (args.figures is None):
        raise InputError("SWEEP: expected a sweep, or --figures, got neither or both. See `study report --help`.")
    from study.analysis.runs import Runs

    if args.figures is not None:
        from study.analysis.figures.catalogue import draw_all

        runs = folder(args.runs or results_folder(), "--runs")
        out = args.out or runs_folder(args.runs) / "report" / "figures"
        for drawn in draw_all(Runs(runs, sweeps_of(runs)), out, args.figures):
            print(drawn.line, flush=True)
        return 0
    from study.publish.report import compared, report_sweep
    from study.sweep.spec import load

    spec, runs = load(sweep_file(args.sweep)), runs_folder(args.runs)
    if args.json:
        print(compared(spec, Runs(runs)).table.records_json(), end="")
    else:
        report_sweep(spec, runs, args.out)
    return 0
