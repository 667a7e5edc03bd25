"""`study reproduce`: every published table and figure, computed again from `results/`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser

DESCRIPTION = """\
Recompute every published table and figure, the generated parts of README.md and the paper from the published runs,
then ask git whether a file changed. Needs no torch. Numbers typed by hand are not checked.
"""
EPILOG = "exit status: 0 no file differs from git; 1 files differ, and are listed; 2 wrong input\n"


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, or a published file that cannot be used.
    """
    parser = Parser(prog="study reproduce", description=DESCRIPTION, epilog=EPILOG)
    steps = "tables, figures, readme or paper (default: all)"
    parser.add_argument("steps", nargs="*", metavar="STEP", help=steps)
    parser.share("--results")
    args = parser.parse_args(argv)
    from study.publish.reproduce import reproduce
    from study.publish.results import Results

    return (
        0
        if reproduce(Results(args.results or Path("results")), lambda line: print(line, flush=True), args.steps)
        else 1
    )
