"""`study diff RUN RUN`: fields, sizes and scores in which two runs differ."""

from __future__ import annotations

import json
from collections.abc import Sequence

from study.commands.options import RUNS, Parser, runs_folder, table_lines
from study.run_names import RUN, find

DESCRIPTION = """\
Print the fields of the configuration, the sizes, times and scores in which two runs differ. The difference is the first
value minus the second.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, or a record that cannot be read.
    """
    args = _parser().parse_args(argv)
    from study.analysis.ledger import differing_fields

    runs = runs_folder(args.runs)
    found = [find(name, runs) for name in (args.first, args.second)]
    rows = list(differing_fields(*(store.record(identity) for store, identity in found)))
    if args.json:
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return 0
    print(f"first   {found[0][1]}\nsecond  {found[1][1]}\n")
    print("\n".join(table_lines(rows)) if rows else "no difference")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study diff", description=DESCRIPTION)
    add = parser.add_argument
    add("first", metavar="RUN", help=RUN)
    add("second", metavar="RUN", help="the other run")
    add("--json", action="store_true", help="print JSON: a list of objects with the same keys as the columns")
    add("--runs", metavar="DIR", help=RUNS)
    return parser
