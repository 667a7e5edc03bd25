"""Print the verdict on each claim: holds, fails, depends on something, open, not asked, not yet run.

With N, print the answer to one claim and a line for each of its questions; with --all, every contrast. Reads published
records, or your own with --runs. Trains nothing and needs no torch.

A claim of your own is an entry in a YAML file (--claims FILE): a statement, a sweep, the arms to compare by their
fields, a metric. docs/statistics.md lists the fields, and study/claims/claims.yaml has examples. `sweep: NAME` is a
file of sweeps/; `sweep: PATH.yaml` is any other sweep file.
"""

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser, columns, folder, paragraphs, say, table_lines
from study.folders import results_folder, sweeps_folder

NOTES = """
  depends: some questions hold and some fail
  open: no question fails, and some are not decided; so many seeds would decide them
  not asked: the runs test something else than the published claim

One claim: study claims {}. All in full: docs/verdicts.md. Terms: docs/statistics.md."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, claim or record, or a folder that is absent.
    """
    parser = Parser("claims", __doc__)
    add = parser.add_argument
    add("claim", nargs="*", metavar="N", help="number or name of a claim; repeatable (default: all claims)")
    parser.share("--claims")
    add("--runs", type=Path, metavar="DIR", help="runs of your own, or other results (default: the published ones)")
    add("--all", action="store_true", help="print every contrast of a claim (default: at most 40 lines)")
    args = parser.parse_args(argv)
    runs = folder(args.runs or results_folder(), "--runs")
    from study.analysis.runs import Runs
    from study.claims import page, schema
    from study.claims.evaluate import evaluate

    rows = evaluate(schema.read_all(args.claims), Runs(runs, sweeps_folder()), args.claim)
    if args.claim or args.all:
        say(*page.lines(rows, args.all, min(page.WIDTH, columns())))
    else:
        say(*table_lines(page.summary_rows(rows)), *paragraphs(NOTES.format(rows[-1].claim.id)))
    return 0
