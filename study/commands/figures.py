"""`study figures`: the study's figures, from records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RESULTS, Parser, folder

DESCRIPTION = """\
Draw the figures of the study from published records, or from your own with --runs. Every figure is written as .svg and
.png, with its numbers as .csv. The same records give the same bytes. A figure whose sweep has no records is left out,
and a line names it. Trains nothing and needs no torch.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong name or option, a record that cannot be used, or a folder that cannot be written.
    """
    args = _parser().parse_args(argv)
    from study.analysis.figures.catalogue import chosen, draw_all
    from study.analysis.runs import Runs

    runs = folder(Path(args.runs), "--runs") if args.runs else folder(args.results, "--results") / "runs"
    out = args.out or (runs / "report" / "figures" if args.runs else args.results / "figures")
    for drawn in draw_all(chosen(args.names), Runs(runs, folder(args.sweeps, "--sweeps")), out):
        print(drawn.line, flush=True)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study figures", description=DESCRIPTION)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="figures to draw (default: all)")
    where = parser.add_mutually_exclusive_group().add_argument
    where(
        "--results",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help=RESULTS,
    )
    where("--runs", metavar="DIR", help="folder of your own runs instead")
    add(
        "--sweeps", type=Path, default=Path("sweeps"), metavar="DIR", help="folder of the sweep files (default: sweeps)"
    )
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the output (default: RESULTS/figures or RUNS/report/figures)",
    )
    return parser
