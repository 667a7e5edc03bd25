"""Recompute every published table and figure, and compare with git.

The tables, the figures, the generated parts of README.md and the paper are computed from the published runs; then git
says whether a file changed. Needs no torch. Numbers typed by hand are not checked.

exit status: 0 no file differs from git; 1 files differ, and are listed; 2 wrong input
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from study.commands.options import Parser


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, or a published file that cannot be used.
    """
    parser = Parser("reproduce", __doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP", help="tables, figures, readme or paper (default: all)")
    parser.share("--results")
    args = parser.parse_args(argv)
    from study.publish.reproduce import reproduce
    from study.store.manifest import Results

    same = reproduce(Results(args.results or Path("results")), partial(print, flush=True), args.steps)
    return 0 if same else 1
