"""`study show RUN`: one run as text, or as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from study.commands.options import RUNS, Parser, picture, runs_folder, write_picture
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
    if args.plot:
        from study.analysis.figures.run import draw_run

        write_picture(draw_run(record, attention), args.plot)
    print("\n".join(run_text.describe(record, attention)))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study show", description=DESCRIPTION)
    add = parser.add_argument
    add("run", metavar="RUN", help=RUN)
    help_ = "also draw the learning curve and the attention map into FILE, a .png or .svg"
    add("--plot", type=picture, metavar="FILE", help=help_)
    parser.alias("--png", "--plot", type=picture)
    add("--json", action="store_true", help="print the record as JSON, byte for byte as the run wrote it")
    add("--runs", metavar="DIR", help=RUNS)
    return parser
