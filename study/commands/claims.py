"""`study claims`: what the records say of each claim."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser
from study.errors import InputError

DESCRIPTION = """\
Print the verdict on each claim (holds, fails, mixed, not decided, not asked as published) and the finding that it rests
on: estimate, 95% and 90% CI, margin, seeds, and the smallest difference that so many seeds could show. N chooses claims
by number or name, and prints every contrast behind them. Reads published records, or your own with --runs. Trains
nothing, and needs no torch.

A claim of your own is an entry in a YAML file (--claims FILE), written like those of study/claims/claims.yaml: a
statement, a sweep, the arms to compare by their fields, a metric.
"""
ROOT = Path(__file__).parents[2]


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, claim or record, or a folder that is absent or cannot be written.
    """
    args = _parser().parse_args(argv)
    runs = _runs(args.results, args.runs)
    benchmarks = (args.results or ROOT / "results") / "benchmarks" if args.runs is None else None
    from study.analysis.declared import Library
    from study.claims import claims_table
    from study.claims.asking import asker

    verdicts = asker(Library(ROOT / "sweeps", runs, benchmarks), args.claims).verdicts(args.claim)
    print("\n".join(claims_table.lines(verdicts, contrasts=bool(args.claim))).lstrip("\n"))
    if args.to is not None:
        try:
            written = claims_table.write(verdicts, args.to)
        except OSError as problem:
            raise InputError(f"{args.to}: can't be written ({problem.strerror}); give another folder") from None
        print(f"\ntables  {', '.join(str(path) for path in written if path.suffix == '.md')} (and .csv, .tex, .json)")
    return 0


def _runs(results: Path | None, runs: Path | None) -> Path | None:
    """The folder of records; None where nothing is published yet.

    Raises:
        InputError: a folder that was named is not there.
    """
    folder = runs if runs is not None else (results or ROOT / "results") / "runs"
    if folder.is_dir():
        return folder
    if runs is not None or results is not None:
        raise InputError(f"{folder}: no such folder of runs; --runs or --results names one that has records")
    return None


def _parser() -> Parser:
    parser = Parser(
        prog="study claims",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("claim", nargs="*", metavar="N", help="number or name of a claim (default: all)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--results", type=Path, metavar="DIR", help="folder of published results (default: results)")
    where.add_argument("--runs", type=Path, metavar="DIR", help="folder of one's own runs instead")
    add("--claims", type=Path, metavar="FILE", help="further claims, laid beside those of this study")
    add("--to", type=Path, metavar="DIR", help="also write claims.* and contrasts.* (csv, md, tex, json) there")
    return parser
