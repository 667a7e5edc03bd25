"""`study verify`: everything in `results/`, checked again without torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser

DESCRIPTION = """\
Score every published translation again and compare value and signature with the record; take every hash again; look
for every run that a published sweep declares, and for files that nothing names. Compare the root hash of all sweeps
with the one that README.md and the paper's data print.

The references of the generated corpora are generated again. Those of Multi30k are read where they are at hand
(STUDY_MULTI30K, or the download cache); elsewhere BLEU and exact match are computed from the stored statistics, and
counted as such. Scores that need the model (NLL, perplexity, alignment error, contrasts) are counted as not checked.
"""
EPILOG = "exit status: 0 all is as it says; 1 something differs, and is listed; 2 wrong input\n"


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, or no such folder.
    """
    args = _parser().parse_args(argv)
    from study.publish.store import Results
    from study.publish.verify import verify

    found = verify(Results(args.results))
    print("\n".join(found.lines()))
    return 1 if found.problems else 0


def _parser() -> Parser:
    parser = Parser(
        prog="study verify",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    help_ = "folder of the published results (default: results)"
    parser.add_argument("--results", type=Path, metavar="DIR", default=Path("results"), help=help_)
    return parser
