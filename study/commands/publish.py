"""`study publish SWEEP`: promote the runs of a sweep to `results/`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser, folder

DESCRIPTION = """\
Copy every run that SWEEP declares from the folder of runs to RESULTS: record, translations, and the statistics that
BLEU is computed from. Finished and diverged runs are results; failed ones are published too, and counted.

Refused, before anything is written, with file and field: runs that are missing or failed (unless --partial says why:
they print as missing ever after), records that were changed by hand, scores that the translations do not give, runs
that were not made at a clean commit in the history of HEAD, and runs that do not compare: other data, another device,
precision or sacreBLEU. A published run is never changed. Called again, it completes what was interrupted. The root hash
that it prints guards all published runs; `study reproduce` prints it in README.md and the paper.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option or sweep file, or a run that cannot be published.
    """
    args = _parser().parse_args(argv)
    from study.publish.publish import publish
    from study.publish.store import Results
    from study.sweep.spec import load

    spec = load(args.sweep)
    results = Results(args.results)
    runs = folder(Path(args.runs or os.environ.get("STUDY_RUNS") or "runs"), "--runs")
    done = publish(spec, runs, results, args.partial)
    counts = ", ".join(f"{count} {state}" for state, count in done.states.items() if count)
    print(f"{spec.name}: {len(spec.runnable)} declared, {counts}")
    print(f"  new        {done.new} in {results.runs}")
    print(f"  unchanged  {done.kept}, published before")
    if len(done.manifest.code) > 1:
        states = "; ".join(f"{code.runs} runs of {code.state}" for code in done.manifest.code)
        print(f"  code       what decides numbers has {len(done.manifest.code)} states: {states}")
    print(f"  sweep      {results.manifest_path(spec.name)}")
    print(f"  root hash  {results.root_hash}")
    print("next: `study reproduce` writes tables and figures; then commit them with the runs")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="study publish",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("sweep", type=Path, metavar="SWEEP", help="a sweep file, such as sweeps/quickstart.yaml")
    add("--runs", metavar="DIR", help="folder of the runs (default: $STUDY_RUNS, else runs)")
    add("--results", type=Path, metavar="DIR", default=Path("results"), help="where to publish (default: results)")
    add("--partial", metavar="REASON", help="publish though runs are missing or failed, and why")
    return parser
