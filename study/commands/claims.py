"""`study claims`: the verdict on each claim."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RESULTS, Parser, folder, say
from study.errors import InputError
from study.files import CHECKOUT
from study.run_names import published

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
        InputError: a wrong option, claim or record, or a folder that is absent or cannot be written.
    """
    args = _parser().parse_args(argv)
    results = args.results or published()
    runs = folder(args.runs, "--runs") if args.runs else folder(results, "--results") if args.results else results
    from study.analysis.runs import Runs
    from study.claims import costs, page, schema, table
    from study.claims.evaluate import evaluate

    measured = costs.read(None if args.runs else results / "benchmarks")
    files = schema.read_all(args.claims)
    if not (CHECKOUT / "sweeps").is_dir():  # installed from a wheel: the sweeps of the study stay in its checkout
        if args.claims is None:
            raise InputError("--claims: expected a file, got none. The claims of the study need its checkout.")
        files = files[1:]
    there = Runs(runs if runs.is_dir() else None, CHECKOUT / "sweeps")
    verdicts = evaluate(files, there, measured, args.claim, by_score=not args.json)
    width = shutil.get_terminal_size((100, 24)).columns
    if args.json:
        rows = table.contrasts_table(verdicts) if args.claim else table.table(verdicts)
        print(rows.records_json(), end="")
        return 0
    if args.claim:
        say(*page.lines(verdicts, args.all))
    elif verdicts:
        say(*page.summary_lines(verdicts, width), NOTES.format(verdicts[-1].claim.id))
    else:
        say("no claims")
    if args.out is not None:
        try:
            written = table.write(verdicts, args.out)
        except OSError as problem:
            raise InputError(f"{args.out}: cannot be written ({problem.strerror}). Name another with --out.") from None
        say("", f"tables  {', '.join(map(str, written))}")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study claims", description=DESCRIPTION)
    add = parser.add_argument
    add("claim", nargs="*", metavar="N", help="number or name of a claim; repeatable (default: all claims)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--results", type=Path, metavar="DIR", help=RESULTS)
    where.add_argument("--runs", type=Path, metavar="DIR", help="folder of your own runs instead")
    add("--claims", type=Path, metavar="FILE", help="your own claims, added to those of this study")
    add("--all", action="store_true", help="print every contrast of a claim (default: at most 40 lines)")
    add("--json", action="store_true", help="print JSON with the keys of claims.csv, or with N of contrasts.csv")
    add("--out", type=Path, metavar="DIR", help="also write claims.* and contrasts.* (csv, md) to DIR")
    parser.alias("--to", "--out", type=Path)
    return parser
