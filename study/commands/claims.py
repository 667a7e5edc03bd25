"""`study claims`: the verdict on each claim."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from study.commands.options import Parser, folder, say
from study.run_names import results_folder, sweeps_folder

DESCRIPTION = """\
Print one line for each claim: its verdict (holds, fails, mixed, not decided, not asked, not yet run) and the estimate
that decides, with its 95% CI. With N, print the answer to one claim and the contrasts that decide it; with --all, every
contrast. Reads published records, or your own with --runs. Trains nothing and needs no torch.

A claim of your own is an entry in a YAML file (--claims FILE): a statement, a sweep, the arms to compare by their
fields, a metric. docs/statistics.md lists the fields, and study/claims/claims.yaml has examples. `sweep: NAME` is a
file of sweeps/; `sweep: PATH.yaml` is any other sweep file.
"""
NOTES = """
estimate   first arm − second arm of the contrast that decides, or that keeps a mixed claim from holding
fragile    another score gives another verdict
not asked  the runs test something else than the published claim
One claim: study claims {}. All in full: docs/verdicts.md. Terms: docs/statistics.md."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, claim or record, or a folder that is absent.
    """
    parser = Parser(prog="study claims", description=DESCRIPTION)
    add = parser.add_argument
    add("claim", nargs="*", metavar="N", help="number or name of a claim; repeatable (default: all claims)")
    parser.share("--results", "--runs", "--claims")
    add("--all", action="store_true", help="print every contrast of a claim (default: at most 40 lines)")
    parser.share("--json")
    args = parser.parse_args(argv)
    runs = folder(args.runs or args.results or results_folder(), "--runs" if args.runs else "--results")
    from study.analysis.runs import Runs
    from study.claims import costs, page, schema, table
    from study.claims.evaluate import evaluate

    measured = costs.read(None if args.runs else runs / "benchmarks")
    found = Runs(runs, sweeps_folder())
    rows = evaluate(schema.read_all(args.claims), found, measured, args.claim, by_score=not args.json)
    if args.json:
        print((table.contrasts_table(rows) if args.claim else table.table(rows)).records_json(), end="")
    elif args.claim or args.all:
        say(*page.lines(rows, args.all))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        say(*page.summary_lines(rows, width), NOTES.format(rows[-1].claim.id))
    return 0
