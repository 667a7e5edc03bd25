"""`study reproduce`: every published table and figure, computed again from `results/`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser

DESCRIPTION = """\
Compute from the records in RESULTS, without torch, every published table and figure, the generated parts of README.md
and the paper, and ask git whether any of it changed. Numbers that README, LOG and paper have typed are not computed.
"""
EPILOG = "exit status: 0 nothing differs from what is committed; 1 something does, and is listed; 2 wrong input\n"


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, or a published file that cannot be used.
    """
    args = _parser().parse_args(argv)
    from study.publish.reproduce import reproduce
    from study.publish.store import Results

    return 0 if reproduce(Results(args.results), lambda line: print(line, flush=True), args.steps) else 1


def _parser() -> Parser:
    parser = Parser(
        prog="study reproduce",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "steps", nargs="*", metavar="STEP", help="tables, figures, verdicts, dictionary, readme or paper (default: all)"
    )
    help_ = "folder of the published results (default: results)"
    parser.add_argument("--results", type=Path, metavar="DIR", default=Path("results"), help=help_)
    return parser
