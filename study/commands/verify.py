"""`study verify`: everything in `results/`, checked again without torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RESULTS, Parser, positive, print_json, say

DESCRIPTION = """\
Check the published results without torch:
  - compute the SHA-256 of every file, and compare the root hash with README.md,
  - find every run that a published sweep declares, and every run and file that nothing names,
  - check equations between the numbers of each run,
  - with --rescore: score published translations again, and compare value and signature with the record.

References of generated corpora are generated again. References of Multi30k are used if you have the corpus
(STUDY_MULTI30K, or the download cache). Otherwise BLEU and exact match are computed from the counts beside the
translations, and listed apart. Scores that need the model (NLL, perplexity, alignment error, contrasts) are counted
as not checked.
"""
EPILOG = "exit status: 0 nothing differs; 1 something differs, and is listed; 2 wrong input\n"


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, or no such folder.
    """
    args = _parser().parse_args(argv)
    from study.publish.results import Results
    from study.publish.verify import verify

    found = verify(Results(args.results), args.rescore, args.draw or "", Progress())
    if args.json:
        print_json(vars(found))
    else:
        say(*found.lines())
    return 1 if found.problems else 0


def _part(text: str) -> int:
    """Share of the runs, 1/N: its N."""
    return positive(text.removeprefix("1/"))


def _parser() -> Parser:
    parser = Parser(prog="study verify", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--results", type=Path, metavar="DIR", default=Path("results"), help=RESULTS)
    parser.add_argument("--json", action="store_true", help="print JSON: counts, and the list of problems")
    rescore = "score the translations of all runs again, or of one in N, drawn by --draw"
    parser.add_argument("--rescore", nargs="?", type=_part, const=1, metavar="1/N", help=rescore)
    draw = "text that draws the runs, such as a commit's hash (default: the root hash)"
    parser.add_argument("--draw", metavar="TEXT", help=draw)
    return parser


class Progress:
    """Number of checked runs on standard error: one line that changes on a terminal, else a line for each tenth."""

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        line = f"checked {done} of {total} runs"
        if sys.stderr.isatty():
            print(f"\r{line}", end="" if done < total else "\n", file=sys.stderr, flush=True)
        elif tenth > self._shown:
            self._shown = tenth
            print(line, file=sys.stderr, flush=True)
