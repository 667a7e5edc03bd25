"""`study figures`: the study's figures, from records alone."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser, folder

DESCRIPTION = """\
Draw the figures of the study from published records (or, with --runs, from your own) and the sweep files that declare
them: for each a picture as .svg and .png and every number in it as .csv. The same records give the same bytes. A figure
of a sweep that has no records is left out, with a line that says so. Trains nothing and needs no torch.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong name or option, a record that cannot be used, or a folder that cannot be written.
    """
    args = _parser().parse_args(argv)
    from study.analysis.plots.catalogue import chosen, draw_all

    runs = folder(Path(args.runs), "--runs") if args.runs else folder(args.results, "--results") / "runs"
    out = args.out or (runs / "report" / "figures" if args.runs else args.results / "figures")
    for line in draw_all(chosen(args.names), folder(args.sweeps, "--sweeps"), runs, out):
        print(line, flush=True)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="study figures",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="figures to draw (default: all)")
    where = parser.add_mutually_exclusive_group().add_argument
    where("--results", type=Path, default=Path("results"), metavar="DIR", help="what is published (default: results)")
    where("--runs", metavar="DIR", help="instead, a folder of runs that are not published")
    add(
        "--sweeps", type=Path, default=Path("sweeps"), metavar="DIR", help="folder of the sweep files (default: sweeps)"
    )
    add("--out", type=Path, metavar="DIR", help="folder to write to (default: RESULTS/figures, or RUNS/report/figures)")
    return parser
