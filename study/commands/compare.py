"""`study compare RUN … "Ein Mann …"`: one sentence by several trained models, side by side."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from study import attention_map
from study.analysis import labels, run_text
from study.commands.options import RUNS, Parser, add_site, named_as_flags, picture, positive, runs_folder, write_picture
from study.commands.translate import load, warn_of_unknown
from study.config.words import differing
from study.errors import InputError
from study.run_names import RUN

if TYPE_CHECKING:
    from study.training.translation import Translation

DESCRIPTION = """\
Translate one sentence with several trained models and show their attention maps side by side: above each map the fields
in which the models differ, the id, the translation, and the entropy of the weights, from 0 (one token) to 1 (uniform).
Rows are target tokens, columns source tokens; in self-attention both are of one sentence. --plot draws the maps.
"""
MOST = 12
"""Models that are compared at once: each gets a panel."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, site, layer or head, a sentence that cannot be translated, or a file that cannot be
            written.
    """
    args = _parser().parse_args(argv)
    if len(args.run) > MOST:
        raise InputError(f"RUN: expected at most {MOST} runs, got {len(args.run)}. Give fewer.")
    from study.config import experiment_id
    from study.training.translation import translate

    models = [load(run, runs_folder(args.runs)) for run in args.run]
    ids = [experiment_id(model.experiment) for model in models]
    words = differing([model.experiment.model_dump(mode="json") for model in models])
    place = (args.beam, args.layer, args.site, args.head)
    with named_as_flags("site", "layer", "head"):
        found = [translate(model, args.sentence, *place) for model in models]
    for model, identity in zip(models, ids, strict=True):
        warn_of_unknown(model, args.sentence, identity)
    if args.json:
        print(json.dumps(list(map(_row, ids, words, found)), ensure_ascii=False, indent=1))
    else:
        first = next((one.attention for one in found if one.attention), None)
        print(f"{' '.join(args.sentence.split())}   ({attention_map.title(first) if first else 'no attention map'})\n")
        width = shutil.get_terminal_size((120, 24)).columns
        print(
            "\n".join(run_text.side_by_side([list(_block(*one)) for one in zip(ids, words, found, strict=True)], width))
        )
    if args.plot is not None:
        from study.analysis.figures import run as figures

        maps = [(one.attention, words[i] or ids[i]) for i, one in enumerate(found) if one.attention is not None]
        if not maps:
            raise InputError("--plot: expected attention over tokens, got none. Remove it, or choose other runs.")
        write_picture(figures.draw_translations(maps), args.plot)
    return 0


def _row(identity: str, words: str, found: Translation) -> dict[str, Any]:
    attention = found.attention or {}
    shown = {name: attention.get(name) for name in ("site", "layer", "head", "source", "target", "weights")}
    spread = attention_map.entropy(found.attention) if found.attention else None
    return {"id": identity, "differs": words, "translation": found.text, "entropy": spread, **shown}


def _block(identity: str, words: str, found: Translation) -> Iterator[str]:
    """Lines of one model; the translation is as wide as its map."""
    attention = found.attention
    map_lines = ["no map: no slot is a token"] if attention is None else list(attention_map.cells(attention))
    spread = attention_map.entropy(attention) if attention is not None else None
    width = max(len(identity), *map(len, map_lines))
    for text in (words, identity, f"→ {found.text}", f"entropy {labels.number(spread, 2)}"):
        yield from textwrap.wrap(text, width)
    yield from ["", *map_lines]


def _parser() -> Parser:
    parser = Parser(prog="study compare", description=DESCRIPTION)
    add = parser.add_argument
    add("run", nargs="+", metavar="RUN", help=f"{RUN}; repeatable")
    add("sentence", metavar="SENTENCE", help="a source sentence, in quotes")
    add("--plot", type=picture, metavar="FILE", help="draw the maps side by side into FILE, a .png or .svg")
    parser.alias("--png", "--plot", type=picture)
    add("--beam", type=positive, metavar="K", help="beam width (default: as in the test of each run)")
    add_site(parser)
    add("--json", action="store_true", help="print JSON: a list with the translation and the weights of each run")
    add("--runs", metavar="DIR", help=RUNS)
    return parser
