"""`study show RUN`: one run as text, or as a picture."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RUNS, Parser, runs_folder
from study.errors import InputError
from study.records import Record
from study.store import Store, matches

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


def _started(found: tuple[Store, str]) -> tuple[str, str]:
    store, identity = found
    provenance = store.record(identity).provenance
    return (provenance.started_utc if provenance else "", identity)


def _some(names: list[str], most: int = LISTED) -> list[str]:
    return [*names[:most], *(["…"] if len(names) > most else [])]


def _draw(record: Record, attention: dict[str, object] | None, png: Path) -> None:
    from study.analysis.figures import run, style

    try:
        style.write_png(run.draw_run(record, attention), png)
    except OSError as problem:
        raise InputError(f"{png}: cannot be written ({problem.strerror}). Name another file with --png.") from None
