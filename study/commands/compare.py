"""`study compare RUN … "Ein Mann …"`: one sentence by several trained models, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from study.commands.options import RUNS, Parser, positive, runs_folder
from study.commands.translate import load
from study.errors import InputError
from study.run_names import RUN

DESCRIPTION = """\
Translate one sentence with several trained models. A line per model has the entropy of its cross-attention, from 0 (one
token) to 1 (all alike), and its translation. --png draws the attention maps side by side.
"""
MOST = 12
"""Models that are compared at once: each gets a panel."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run or layer, a sentence that cannot be translated, or a file that cannot be written.
    """
    args = _parser().parse_args(argv)
    if len(args.run) > MOST:
        raise InputError(f"RUN: expected at most {MOST} runs, got {len(args.run)}. Give fewer.")
    from study.analysis.figures.run import entropy
    from study.config import experiment_id
    from study.training.translation import translate

    maps, rows = [], []
    for run in args.run:
        trained = load(run, runs_folder(args.runs))
        name, found = experiment_id(trained.experiment), translate(trained, args.sentence, args.beam, args.layer)
        shown = "–" if found.attention is None else f"{entropy(found.attention):.2f}"
        rows.append((name, shown, found.text))
        if found.attention is not None:
            maps.append((found.attention, name))
    width = max(len(name) for name, _, _ in rows)
    print(f"{'':{width}}  entropy  translation")
    for name, shown, text in rows:
        print(f"{name:{width}}  {shown:>7}  {text}")
    if args.png is not None:
        _draw(maps, args.png)
    return 0


def _draw(maps: list[tuple[dict[str, object], str]], png: Path) -> None:
    from study.analysis.figures import run, style

    if not maps:
        raise InputError("--png: expected attention over source tokens, got none. Remove it, or choose other runs.")
    figure = run.draw_translations(maps)
    try:
        style.write_png(figure, png, dpi=min(style.DPI, 8000 / max(figure.get_size_inches())))
    except OSError as problem:
        raise InputError(f"{png}: cannot be written ({problem.strerror}). Name another file with --png.") from None
    print(f"maps  {png}")


def _parser() -> Parser:
    parser = Parser(prog="study compare", description=DESCRIPTION)
    add = parser.add_argument
    add("run", nargs="+", metavar="RUN", help=f"{RUN}; repeatable")
    add("sentence", metavar="SENTENCE", help="a source sentence, in quotes")
    add("--png", type=Path, metavar="FILE", help="draw the attention maps side by side into FILE")
    add("--beam", type=positive, metavar="K", help="beam width (default: as in the test of each run)")
    add("--layer", type=int, metavar="N", help="layer of cross-attention, from 0 (default: the last)")
    add("--runs", metavar="DIR", help=RUNS)
    return parser
