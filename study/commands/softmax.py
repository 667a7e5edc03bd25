"""`study softmax`: why dot products are scaled, as one figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import Parser, runs_folder
from study.errors import InputError

DESCRIPTION = """\
Draw the textbook curves behind 1/√d from random numbers, in three panels: the largest weight of a softmax and its
entropy, both against the standard deviation of the logits; and the variance of a dot product against its size, sampled
and exact. Writes softmax.svg, .png and .csv within seconds. Needs no torch and no runs.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: a wrong option, or a folder that cannot be written.
    """
    args = _parser().parse_args(argv)
    folder = args.out or runs_folder(None) / "report"
    from study.analysis.figures import softmax, style

    table = softmax.points()
    try:
        written = style.write(softmax.draw(table), table, folder / "softmax", float_format="%.6g")
    except OSError as problem:
        raise InputError(f"{folder}: cannot be written ({problem.strerror}). Name another folder with --out.") from None
    print("\n".join(f"figure  {path}" for path in written))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study softmax", description=DESCRIPTION)
    told = "folder to write to (default: $STUDY_RUNS/report, else runs/report)"
    parser.add_argument("--out", type=Path, metavar="DIR", help=told)
    return parser
