"""`study check`: the standard tests on a mechanism of a user's own, or a check of text of a user's own."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser
from study.config import plugins
from study.errors import InputError

DESCRIPTION = """\
Run the tests that built-in mechanisms pass on a mechanism of your own: shapes, gradients of every parameter and head,
rows without a slot, padding, causality, decoding token by token, every reach, removal of every head, its facts, models
of both families, another device, a step of training in float32, and its own reference in float64 if it has one. Takes
seconds. Exit status: 0 all pass, 1 one fails, 2 the file cannot be used.

Of a FOLDER with parallel text of your own (data.name files): sizes and lengths of every split, repeated pairs, the
overlap with train, and every line that cannot be used. It has train, valid and test splits, each a pair of files
(train.cs, train.en) or a table with tabs (train.tsv), plain or gzip. Gold alignments stand in train.align or in the
third column: 0-0 is a sure link, 0?0 a possible one, counted in tokens between blanks.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; return the exit status.

    Raises:
        InputError: a wrong option, or a file or class that cannot be used.
    """
    args = _parser().parse_args(argv)
    if (folder := Path(args.mechanism)).is_dir():
        from study.commands import own_text

        if args.source is None or args.target is None:
            raise InputError("--source, --target: expected two languages, got none. They are the endings of the files.")
        return own_text.check(folder, args.source, args.target, args.all)
    try:
        plugin = plugins.read(args.mechanism)
    except ValueError as problem:
        raise InputError(f"{problem}.") from None
    import torch

    from study.attention.part import Part
    from study.models.conformance import check

    torch.set_num_threads(1)  # the models are small
    written = Part.named(plugin.value)
    axis, place = written.axis, f"{plugins.place(plugin)}:{inspect.getsourcelines(written)[1]}"
    print(f"{plugin.name}, a value of {axis} ({place})")
    failed = 0
    for found in check(axis, plugin.value):
        word = "fail" if found.problem else "–" if found.note else "ok"
        print(f"{word:<5} {found.name}", flush=True)
        if found.problem or found.note:
            print(f"      {found.problem or found.note}")
        failed += bool(found.problem)
    fails = "1 check fails" if failed == 1 else f"{failed} checks fail"
    print(fails if failed else f"all checks pass; use it with --{_field(axis)} {args.mechanism}")
    return 1 if failed else 0


def _field(axis: str) -> str:
    return f"model.{axis}" if axis in ("mixing", "positions") else f"model.attention.{axis}"


def _parser() -> Parser:
    parser = Parser(prog="study check", description=DESCRIPTION)
    text = "a Python file, and the class if it has several; or a folder of text"
    parser.add_argument("mechanism", metavar="FILE.py[:CLASS]|FOLDER", help=text)
    parser.add_argument("--source", metavar="LANGUAGE", help="source language of text: the ending of its files, as cs")
    parser.add_argument("--target", metavar="LANGUAGE", help="its target language")
    parser.add_argument("--all", action="store_true", help="print every problem of text (default: the first ones)")
    return parser
