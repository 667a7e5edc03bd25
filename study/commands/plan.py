"""Print how many seeds, runs and hours a margin needs.

The numbers are those that show a difference of the size of the margin, non-inferiority within it, and equivalence
within it. The standard deviation of the score over seeds comes from the validation scores of finished runs of the
sweep, yours or published ones, in the corpus and family where it is largest; or from --sd. Test scores are not read.
docs/statistics.md has the formulas.
"""

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from study.commands.options import Parser, runs_folder, say, table_lines
from study.errors import InputError
from study.folders import published, sweep_file


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option or sweep file, or no runs to measure the standard deviation on.
    """
    parser = Parser("plan", __doc__, "sweep", "--runs")
    add, share = parser.add_argument, partial(_number, high=1.0)
    text = "smallest difference of interest, in units of the score"
    add("--margin", type=_number, required=True, metavar="X", help=text)
    add("--metric", metavar="NAME", help="split/score whose values on validation are read (default: that of the sweep)")
    add("--sd", type=_number, metavar="X", help="standard deviation of a run's score over seeds")
    add("--correlation", type=share, metavar="R", help="correlation of two arms over the same seeds")
    add("--paired", action="store_true", help="compare arms seed by seed; declare it before the runs")
    add("--power", type=share, default=0.8, metavar="P", help="probability to show it (default: 0.8)")
    args = parser.parse_args(argv)
    if args.correlation is not None and not args.paired:
        raise InputError("--correlation: expected with --paired, got none. Add --paired.")
    from study.analysis.power import AIMS, LEVEL, effect_size, power, seeds_for
    from study.claims.planning import sources, spreads
    from study.engine.estimate import estimated
    from study.engine.resources import plural
    from study.sweep.spec import load

    spec, out = load(sweep_file(args.sweep)), runs_folder(args.runs)
    experiments = [cell.experiment for cell in spec.runnable]
    name = args.metric or spec.metric
    metric = f"valid/{name.partition('/')[2] or name}"
    sd, correlation, lines = args.sd, args.correlation, list[str]()
    pairs = dict.fromkeys(f"{experiment.data.name}/{experiment.model.family}" for experiment in experiments)
    if sd is None:
        measured = spreads(spec, sources(out), metric, pairs)
        if not measured:
            raise InputError(f"--sd: expected a number, or runs of two seeds of {spec.path}, got neither. Give it.")
        spread, source = max(measured.values(), key=lambda pair: pair[0].sd)
        sd, correlation = spread.sd, spread.correlation if correlation is None else correlation
        lines = [source, "sd over seeds {:.3g}; of single arms {:.3g} to {:.3g}".format(sd, *spread.ends)]
        lines += [] if correlation is None else [f"same-seed correlation {correlation:.2f}"]
    if args.paired and (correlation is None or correlation > 1 - 1e-9):
        got = "none" if correlation is None else "1, since arms differ by the same number with every seed"
        raise InputError(f"--correlation: expected a number below 1 with --paired, got {got}. Give one.")
    effect = effect_size(args.margin, sd, correlation if args.paired else None)
    sizes, count = [len(labels) for labels in spec.arms.values()], len(spec.seeds)
    tests = max(1, max(sizes) - 1)
    times = [seconds for seconds in estimated(experiments, out, published()) if seconds is not None]
    rows = []
    for aim in AIMS:
        need = seeds_for(aim, effect, args.power, LEVEL / tests, args.paired)
        row: dict[str, Any] = {"to show": aim, "seeds": need or "over 1000", "runs": need and need * sum(sizes)}
        row["hours"] = need and times and f"{need * sum(sizes) * sum(times) / len(times) / 3600:.1f}"
        row[f"power with {count} seeds"] = f"{power(aim, effect, count, LEVEL / tests, args.paired):.2f}"
        rows.append(row)
    design = "paired by seed" if args.paired else "Welch's test"
    lines += [f"margin {args.margin:g}, power {args.power:g}, {design}, {plural(tests, 'contrast')}", ""]
    say(*lines, *table_lines(rows))
    return 0


def _number(text: str, high: float = 1e9) -> float:
    """Positive number below a bound."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < high:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and below {high:g}, got {text[:40]!r}")
    return number
