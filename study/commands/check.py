"""`study check`: the standard tests on a mechanism of a user's own."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from study.commands.options import Parser
from study.config import plugins
from study.errors import InputError

DESCRIPTION = """\
Run the tests that built-in mechanisms pass on a mechanism of your own: shapes, gradients of every parameter and head,
rows without a slot, padding, causality, decoding token by token, every reach, removal of every head, its facts, models
of both families, another device, a step of training in float32, and its own reference in float64 if it has one. Takes
seconds. Exit status: 0 all pass, 1 one fails, 2 the file cannot be used.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; return the exit status.

    Raises:
        InputError: a wrong option, or a file or class that cannot be used.
    """
    args = _parser().parse_args(argv)
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
    return "model.mixing" if axis == "mixing" else f"model.attention.{axis}"


def _parser() -> Parser:
    parser = Parser(prog="study check", description=DESCRIPTION)
    parser.add_argument("mechanism", metavar="FILE.py[:CLASS]", help="a Python file, and the class if it has several")
    return parser
