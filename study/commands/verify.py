"""Check the published results without torch.

  - compute the SHA-256 of every file, and compare the root hash with README.md,
  - find every run that a published sweep declares, and every run and file that nothing names,
  - with --rescore: check equations between the numbers of each run, and score published translations again.

References of generated corpora are generated again. References of Multi30k are used if you have the corpus
(STUDY_MULTI30K, or the download cache); without it BLEU and exact match follow from the counts beside the translations.
Scores that need the model (alignment error, contrasts) are not checked.

exit status: 0 nothing differs; 1 something differs, and is listed; 2 wrong input
"""

import sys
from collections.abc import Sequence

from study.commands.options import Parser, positive, say
from study.folders import results_folder


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, or no such folder.
    """
    parser = Parser("verify", __doc__, "--results")
    text = "score the translations of all runs again, or of one in N, drawn by the root hash"
    parser.add_argument("--rescore", nargs="?", type=_part, const=1, metavar="1/N", help=text)
    text = "check only what `study reproduce` reads, not the tables, figures and pages that it writes"
    parser.add_argument("--sources", action="store_true", help=text)
    args = parser.parse_args(argv)
    from study.publish.verify import verify
    from study.store.manifest import Results

    results = Results(args.results or results_folder("--results"))
    report = verify(results, args.rescore, told=progress, sources=args.sources)
    say(*report.lines())
    return 1 if report.problems else 0


def _part(text: str) -> int:
    """Share of the runs, 1/N: its N."""
    return positive(text.removeprefix("1/"))


def progress(done: int, total: int) -> None:
    """Print the number of checked runs on standard error: one line that changes on a terminal, else every tenth."""
    if sys.stderr.isatty():
        print(f"\rchecked {done} of {total} runs", end="" if done < total else "\n", file=sys.stderr, flush=True)
    elif done == total or done % (total // 10 + 1) == 0:
        print(f"checked {done} of {total} runs", file=sys.stderr, flush=True)
