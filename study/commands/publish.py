"""Add every run of a sweep to the published results.

A run is published with record, scores, curves, translations and attention map; counts for BLEU, too, if the references
are not part of the repository. Finished and diverged runs are results. With --partial, failed runs are published as
holes.

All runs are checked before anything is written. A run is refused, with file and field, if
  - it is missing or failed (--partial REASON publishes the others; tables then show it as missing, and do not
    compare its arm),
  - its record was edited or has an impossible value, or its scores do not follow from its translations,
  - the code was not a clean commit in the history of HEAD,
  - its data, device, precision or sacreBLEU differ from those of the other runs.

A published run is never changed. The same command continues after an interruption. It prints the root hash of all
published files, which `study reproduce` copies to README.md.
"""

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser, folder, runs_folder, say
from study.files import locked
from study.folders import sweep_file


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option or sweep file, or a run that cannot be published.
    """
    parser = Parser("publish", __doc__, "sweep", "--runs", "--results")
    text = "publish although runs are missing or failed; REASON is recorded"
    parser.add_argument("--partial", metavar="REASON", help=text)
    args = parser.parse_args(argv)
    from study.publish.publish import publish
    from study.store.manifest import Results
    from study.sweep.spec import load

    spec = load(sweep_file(args.sweep))
    results = Results(args.results or Path("results"))
    runs = folder(runs_folder(args.runs), "--runs")
    with locked(results.root):
        done = publish(spec, runs, results, args.partial)
    counts = ", ".join(f"{count} {state}" for state, count in done.states.items() if count)
    say(f"{spec.name}: {len(spec.runnable)} declared, {counts}", f"  new        {done.new} in {results.root}")
    say(f"  unchanged  {done.kept}, published before")
    if len(done.sweep.code) > 1:
        states = "; ".join(f"{code.runs} runs of {code.state}" for code in done.sweep.code)
        say(f"  code       runs were made by {len(done.sweep.code)} states of the code: {states}")
    say(f"  root hash  {results.root_hash}")
    say("next: run `study reproduce`, which writes tables and figures, and commit them with the runs")
    return 0
