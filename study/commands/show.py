"""`study show RUN`: one run as text, or as a picture."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from study import records
from study.commands.options import RUNS, Parser, runs_folder
from study.errors import InputError
from study.publish.store import beside, runs_of

DESCRIPTION = """\
Print one run: the fields that differ from the defaults, its scores, its learning curve and one attention map. If the
name fits several runs, the newest is printed and the others are listed.
"""
RUN = "identity of a run, the beginning or a part of it, or its folder"
"""Help of RUN, the same for every verb."""
LISTED = 10


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: no such run, or a record that cannot be read.
    """
    args = _parser().parse_args(argv)
    runs = runs_folder(args.runs)
    path, *others = sorted(matches(args.run, runs), key=_started, reverse=True)
    from study.analysis import run_text

    record = records.read(path)
    if args.json:
        print(records.dumps(record), end="")
        return 0
    drawn = beside(path, "attention.json")
    attention = run_text.read_attention(drawn.parent, drawn.name)
    if others:
        print(f"study: {args.run} fits {len(others) + 1} runs in {runs}; this is the newest", file=sys.stderr)
    if args.png:
        _draw(record, attention, args.png)
    print("\n".join(run_text.describe(record, attention)))
    if args.png:
        print(f"\nfigure  {args.png}")
    if others:
        print("\nothers  " + "\n        ".join(_some(sorted(map(_name, others)))))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study show", description=DESCRIPTION)
    add = parser.add_argument
    add("run", metavar="RUN", help=RUN)
    add("--png", type=Path, metavar="FILE", help="also draw the learning curve and the attention map into FILE")
    add("--json", action="store_true", help="print the record as JSON instead")
    add("--runs", metavar="DIR", help=RUNS)
    return parser


def find(run: str, runs: Path) -> Path:
    """Return the record that a word on the command line names: a path, an identity, or a part of one identity.

    Raises:
        InputError: no run fits, it has no record yet, or several fit.
    """
    found = matches(run, runs)
    if len(found) > 1:
        some = ", ".join(_some([_name(path) for path in found], 4))
        raise InputError(f"{run}: expected one run, got {len(found)} in {runs} ({some}). Give more of the name.")
    return found[0]


def matches(run: str, runs: Path) -> list[Path]:
    """Return the records that a word names, at least one, by identity.

    A path or a whole identity comes first, then the identities that begin with the word, then those that contain it.

    Raises:
        InputError: no run fits, or it has no record yet.
    """
    given = Path(run)
    if given.is_file():
        return [given]
    if (given / "record.json").is_file():
        return [given / "record.json"]
    if not runs.is_dir():
        raise InputError(f"{run}: no such run, and no folder {runs}. Name the folder of the runs with --runs.")
    there = {path.parent.name: path for path in runs.glob("*/record.json")}
    folder = runs_of(runs)
    there |= {path.stem: path for path in folder.glob("*.json") if not path.name.endswith(".attention.json")}
    if run in there:
        return [there[run]]
    names = sorted(there)
    found = [name for name in names if name.startswith(run)] or [name for name in names if run and run in name]
    if found:
        return [there[name] for name in found]
    if (runs / run).is_dir() or given.is_dir():
        raise InputError(f"{run}: no record yet. The run is in progress, or was interrupted.")
    raise InputError(f"{run}: no such run among the {len(there)} in {runs}. `study ls runs` lists them.")


def _name(path: Path) -> str:
    return path.parent.name if path.name == "record.json" else path.stem


def _started(path: Path) -> tuple[str, str]:
    provenance = records.read(path).provenance
    return (provenance.started_utc if provenance else "", _name(path))


def _some(names: list[str], most: int = LISTED) -> list[str]:
    return [*names[:most], *(["…"] if len(names) > most else [])]


def _draw(record: records.Record, attention: dict[str, object] | None, png: Path) -> None:
    from study.analysis.run_figure import draw_run

    try:
        draw_run(record, attention, png)
    except OSError as problem:
        raise InputError(f"{png}: cannot be written ({problem.strerror}). Name another file with --png.") from None
