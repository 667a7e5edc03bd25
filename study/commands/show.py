"""`study show RUN`: one run as text, or as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RUNS, Parser, runs_folder
from study.errors import InputError
from study.records import Record
from study.run_names import RUN, find

DESCRIPTION = """\
Print one run: the fields that differ from the defaults, its scores, its learning curve and one attention map.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: no such run, or a record that cannot be read.
    """
    args = _parser().parse_args(argv)
    store, identity = find(args.run, runs_folder(args.runs))
    if args.json:
        print(store.text(identity), end="")
        return 0
    from study.analysis import run_text

    record, attention = store.record(identity), store.attention(identity)
    if args.png:
        _draw(record, attention, args.png)
    print("\n".join(run_text.describe(record, attention)))
    if args.png:
        print(f"\nfigure  {args.png}")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study show", description=DESCRIPTION)
    add = parser.add_argument
    add("run", metavar="RUN", help=RUN)
    add("--png", type=Path, metavar="FILE", help="also draw the learning curve and the attention map into FILE")
    add("--json", action="store_true", help="print the record as JSON, byte for byte as the run wrote it")
    add("--runs", metavar="DIR", help=RUNS)
    return parser


def _draw(record: Record, attention: dict[str, object] | None, png: Path) -> None:
    from study.analysis.figures import run, style

    try:
        style.write_png(run.draw_run(record, attention), png)
    except OSError as problem:
        raise InputError(f"{png}: cannot be written ({problem.strerror}). Name another file with --png.") from None
