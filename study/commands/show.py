"""`study show RUN`: one run as text, or as a picture."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RUNS, Parser, runs_folder
from study.errors import InputError
from study.records import Record
from study.store import Store

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
    (store, identity), *others = sorted(matches(args.run, runs), key=_started, reverse=True)
    if args.json:
        print(store.text(identity), end="")
        return 0
    from study.analysis import run_text

    record, attention = store.record(identity), store.attention(identity)
    if others:
        print(f"study: {args.run} fits {len(others) + 1} runs in {runs}; this is the newest", file=sys.stderr)
    if args.png:
        _draw(record, attention, args.png)
    print("\n".join(run_text.describe(record, attention)))
    if args.png:
        print(f"\nfigure  {args.png}")
    if others:
        print("\nothers  " + "\n        ".join(_some(sorted(name for _, name in others))))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study show", description=DESCRIPTION)
    add = parser.add_argument
    add("run", metavar="RUN", help=RUN)
    add("--png", type=Path, metavar="FILE", help="also draw the learning curve and the attention map into FILE")
    add("--json", action="store_true", help="print the record as JSON, byte for byte as the run wrote it")
    add("--runs", metavar="DIR", help=RUNS)
    return parser


def find(run: str, runs: Path) -> tuple[Store, str]:
    """Return the store and id of the run that a word on the command line names: a path, or a part of one id.

    Raises:
        InputError: no run fits, it has no record yet, or several fit.
    """
    found = matches(run, runs)
    if len(found) > 1:
        some = ", ".join(_some([name for _, name in found], 4))
        raise InputError(f"{run}: expected one run, got {len(found)} in {runs} ({some}). Give more of the name.")
    return found[0]


def found_folder(run: str, runs: Path) -> Path:
    """Return the folder of the working run that `find` finds.

    Raises:
        InputError: see `find`.
    """
    store, identity = find(run, runs)
    return store.folder / identity


def matches(run: str, runs: Path) -> list[tuple[Store, str]]:
    """Return the runs that a word names, at least one, by id.

    A path or a whole id comes first, then the ids that begin with the word, then those that contain it.

    Raises:
        InputError: no run fits, or it has no record yet.
    """
    given = Path(run)
    folder = given.parent if given.name == "record.json" else given
    if (folder / "record.json").is_file():
        folder = folder.resolve()
        return [(Store(folder.parent), folder.name)]
    if given.is_file() and given.suffix == ".json" and given.stem in (store := Store(given.parent)).arms():
        return [(store, name) for name in store.ids(given.stem)]
    if not runs.is_dir():
        raise InputError(f"{run}: no such run, and no folder {runs}. Name the folder of the runs with --runs.")
    store = Store(runs)
    if run in store:
        return [(store, run)]
    if found := store.matching(run) or [name for name in store.ids() if run and run in name]:
        return [(store, name) for name in found]
    if (store.folder / run).is_dir() or given.is_dir():
        raise InputError(f"{run}: no record yet. The run is in progress, or was interrupted.")
    raise InputError(f"{run}: no such run among the {len(store.ids())} in {runs}. `study ls runs` lists them.")


def _started(found: tuple[Store, str]) -> tuple[str, str]:
    store, identity = found
    provenance = store.record(identity).provenance
    return (provenance.started_utc if provenance else "", identity)


def _some(names: list[str], most: int = LISTED) -> list[str]:
    return [*names[:most], *(["…"] if len(names) > most else [])]


def _draw(record: Record, attention: dict[str, object] | None, png: Path) -> None:
    from study.analysis.figures.run import draw_run

    try:
        draw_run(record, attention, png)
    except OSError as problem:
        raise InputError(f"{png}: cannot be written ({problem.strerror}). Name another file with --png.") from None
