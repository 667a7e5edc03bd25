"""`study claims`: the verdict on each claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RESULTS, Parser
from study.errors import InputError
from study.files import CHECKOUT

DESCRIPTION = """\
Print the verdict on each claim (holds, fails, mixed, not decided, not asked as published) and the finding behind it:
estimate, 95% and 90% CI, margin, seeds, and the smallest difference that this number of seeds can detect. With N,
print the sweeps and every contrast behind these claims. Reads published records, or your own with --runs. Trains
nothing and needs no torch.

A claim of your own is an entry in a YAML file (--claims FILE): a statement, a sweep, the arms to compare by their
fields, a metric. docs/statistics.md lists the fields, and study/claims/claims.yaml has examples. `sweep: NAME` is a
file of sweeps/; `sweep: PATH.yaml` is any other sweep file.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, claim or record, or a folder that is absent or cannot be written.
    """
    args = _parser().parse_args(argv)
    runs = _runs(args.results, args.runs)
    benchmarks = (args.results or CHECKOUT / "results") / "benchmarks" if args.runs is None else None
    from study.analysis.runs import Runs
    from study.claims import costs, schema, table
    from study.claims.evaluate import evaluate

    measured = costs.read(benchmarks)
    files = schema.read_all(args.claims)
    if not (CHECKOUT / "sweeps").is_dir():  # installed from a wheel: the sweeps of the study stay in its checkout
        if args.claims is None:
            raise InputError("--claims: expected a file, got none. The claims of the study need its checkout.")
        files = files[1:]
    verdicts = evaluate(files, Runs(runs, CHECKOUT / "sweeps"), measured, args.claim)
    if args.json:
        rows = table.contrasts_table(verdicts) if args.claim else table.table(verdicts)
        print(rows.records_json(), end="")
        return 0
    print("\n".join(table.lines(verdicts, contrasts=bool(args.claim))).lstrip("\n"))
    if args.out is not None:
        try:
            written = table.write(verdicts, args.out)
        except OSError as problem:
            raise InputError(f"{args.out}: cannot be written ({problem.strerror}). Name another with --out.") from None
        print(f"\ntables  {', '.join(str(path) for path in written if path.suffix == '.md')} (and .csv, .json)")
    return 0


def _runs(results: Path | None, runs: Path | None) -> Path | None:
    """Return the folder of records; None where nothing is published yet.

    Raises:
        InputError: a folder that was named is not there.
    """
    folder = runs if runs is not None else (results or CHECKOUT / "results") / "runs"
    if folder.is_dir():
        return folder
    if runs is not None or results is not None:
        raise InputError(f"{folder}: no such folder of runs. Name one that has records with --runs or --results.")
    return None


def _parser() -> Parser:
    parser = Parser(prog="study claims", description=DESCRIPTION)
    add = parser.add_argument
    add("claim", nargs="*", metavar="N", help="number or name of a claim; repeatable (default: all claims)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--results", type=Path, metavar="DIR", help=RESULTS)
    where.add_argument("--runs", type=Path, metavar="DIR", help="folder of your own runs instead")
    add("--claims", type=Path, metavar="FILE", help="your own claims, added to those of this study")
    add("--json", action="store_true", help="print JSON with the keys of claims.csv, or with N of contrasts.csv")
    add("--out", type=Path, metavar="DIR", help="also write claims.* and contrasts.* (csv, md, json) to DIR")
    parser.alias("--to", "--out", type=Path)
    return parser
