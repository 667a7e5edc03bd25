"""Print the comparison table of a sweep, and write it with its figure.

The files are table.csv and .md, figure.svg and .csv. Runs that are missing, failed or diverged are shown as such.
Trains nothing and needs no torch.

For a paper, name one or more sweeps and a file. --out table.tex, .md or .csv writes one table of all, with marks of
significance; LaTeX needs the package booktabs. --out figure.pdf, .svg or .png writes their figure.

With --figures, draw the figures of the study instead, from the published runs or from your own (--runs). Every figure
is written as .svg, with its numbers as .csv. A figure whose sweep has no runs is left out, and a line names it.

Other output goes to the folder --out (default: RUNS/report/NAME, of published runs report/NAME; of figures NAME is
`figures`). Several sweeps without --out are printed alone.
"""

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import SHARED, Parser, folder, runs_folder
from study.errors import InputError
from study.folders import is_results, results_folder, sweep_file, sweeps_of


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, name, sweep file or record, or a folder that is absent or cannot be written.
    """
    parser = Parser("report", __doc__)
    parser.add_argument("sweep", nargs="*", **SHARED["sweep"])
    parser.add_argument("--figures", nargs="*", metavar="NAME", help="draw these figures of the study (no name: all)")
    parser.share("--runs", "--out")
    args = parser.parse_args(argv)
    if bool(args.sweep) == (args.figures is not None):
        raise InputError("SWEEP: expected a sweep, or --figures, got neither or both. See `study report --help`.")
    if args.figures is not None:
        from study.analysis.figures.catalogue import draw_all
        from study.analysis.runs import Runs

        runs = folder(args.runs or results_folder(), "--runs")
        out = args.out or (Path() if is_results(runs) else runs) / "report" / "figures"
        for name, paths in draw_all(Runs(runs, sweeps_of(runs)), out, args.figures):
            print(f"{name}: {', '.join(map(str, paths)) or f'not drawn, since {runs} lacks scores'}", flush=True)
        return 0
    from study.analysis.report import PICTURES, TABLES, report_file, report_sweep
    from study.sweep.spec import load

    specs, runs, out = [load(sweep_file(name)) for name in args.sweep], runs_folder(args.runs), args.out
    if len(specs) > 1 or (out and out.suffix in (*TABLES, *PICTURES)):
        report_file(specs, runs, out)
    else:
        report_sweep(specs[0], runs, out)
    return 0
