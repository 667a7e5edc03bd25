"""Test a mechanism of your own (FILE.py), or text of your own (FOLDER).

A mechanism takes the tests that built-in ones pass: shapes, gradients of every parameter and head, rows without a slot,
padding, causality, decoding token by token, every reach, removal of every head, its facts, models of both families,
another device, a step of training in float32, and its own reference in float64 if it has one. Takes seconds. Exit
status: 0 all pass, 1 one fails, 2 the file cannot be used.

Of text (data.name files): sizes and lengths of every split, repeated pairs, the overlap with train, and every line that
cannot be used. It has train, valid and test splits, each a pair of files (train.cs, train.en) or a table with tabs
(train.tsv), plain or gzip. Gold alignments stand in train.align or in the third column: 0-0 is a sure link, 0?0 a
possible one, counted in tokens between blanks.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser
from study.config import plugins
from study.errors import InputError


def main(argv: Sequence[str]) -> int:
    """Run the verb; return the exit status.

    Raises:
        InputError: a wrong option, or a file or class that cannot be used.
    """
    parser = Parser(prog="study check", description=__doc__)
    text = "a Python file, and the class if it has several; or a folder of text"
    parser.add_argument("mechanism", metavar="FILE.py[:CLASS]|FOLDER", help=text)
    for name, text in (("source", "source language of text: the ending of its files, as cs"), ("target", "its target")):
        parser.add_argument(f"--{name}", metavar="LANGUAGE", help=text)
    parser.add_argument("--all", action="store_true", help="print every problem of text (default: the first ones)")
    args = parser.parse_args(argv)
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
    own = Part.named(plugin.value)
    print(f"{plugin.name}, a value of {own.axis} ({plugin.path}:{inspect.getsourcelines(own)[1]})")
    failed = 0
    for found in check(own.axis, plugin.value):
        print("fail " if found.problem else "ok   ", found.name, flush=True)
        if found.problem:
            print(f"      {found.problem}")
            failed += 1
    field = f"model.{own.axis}" if own.axis in ("mixing", "positions") else f"model.attention.{own.axis}"
    fails = "1 check fails" if failed == 1 else f"{failed} checks fail"
    print(fails if failed else f"all checks pass; use it with --{field} {args.mechanism}")
    return min(failed, 1)
