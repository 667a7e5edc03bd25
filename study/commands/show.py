"""`study show RUN`: one run as text, or as a picture."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from study import records
from study.commands.options import Parser
from study.errors import InputError
from study.publish.store import beside, runs_of

DESCRIPTION = """\
Print one run: the fields that differ from the defaults, its scores, its learning curve and one attention map.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, more than one of that beginning, or a record that cannot be read.
    """
    args = _parser().parse_args(argv)
    path = find(args.run, Path(args.runs or os.environ.get("STUDY_RUNS") or "runs"))
    from study.analysis import run_text

    record = records.read(path)
    drawn = beside(path, "attention.json")
    attention = run_text.read_attention(drawn.parent, drawn.name)
    print("\n".join(run_text.describe(record, attention)))
    if args.png:
        _draw(record, attention, args.png)
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="study show",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("run", metavar="RUN", help="the run's identity, the beginning of it if no other begins so, or its folder")
    add("--png", type=Path, metavar="FILE", help="also draw learning curve and attention map into this file")
    add("--runs", metavar="DIR", help="folder of the runs (default: $STUDY_RUNS, else runs)")
    return parser


def find(run: str, runs: Path) -> Path:
    """The record that a word on the command line means: a path, an identity, or the beginning of one.

    Raises:
        InputError: there is none, it has not finished, or several begin so.
    """
    given = Path(run)
    if given.is_file():
        return given
    if (given / "record.json").is_file():
        return given / "record.json"
    if not runs.is_dir():
        raise InputError(f"{run}: no such run, and there is no folder {runs}; --runs gives another")
    runs = runs_of(runs)
    there = {path.parent.name: path for path in runs.glob("*/record.json")}
    there |= {path.stem: path for path in runs.glob("*.json") if not path.name.endswith(".attention.json")}
    if run in there:
        return there[run]
    matches = sorted(name for name in there if name.startswith(run))
    if len(matches) == 1:
        return there[matches[0]]
    if matches:
        some = ", ".join(matches[:4]) + (", …" if len(matches) > 4 else "")
        raise InputError(f"{run}: {len(matches)} runs in {runs} begin so ({some}); give more of the name")
    if (runs / run).is_dir() or given.is_dir():
        raise InputError(f"{run}: no record there yet; the run is under way, or was interrupted")
    raise InputError(f"{run}: no such run among the {len(there)} of {runs}; --runs gives another folder")


def _draw(record: records.Record, attention: dict[str, object] | None, png: Path) -> None:
    from study.analysis.run_figure import draw_run

    try:
        draw_run(record, attention, png)
    except OSError as problem:
        raise InputError(f"{png}: can't be written ({problem.strerror}); give another file with --png") from None
    print(f"\nfigure  {png}")
