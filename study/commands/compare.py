"""`study compare RUN RUN`: what differs between runs; with a sentence, their translations and maps side by side."""

from __future__ import annotations

import shutil
import textwrap
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from study import attention_map
from study.commands.options import Parser, print_json, runs_folder, say, table_lines, write_picture
from study.errors import InputError
from study.run_names import RUN, find

if TYPE_CHECKING:
    from study.training.translation import Translation

DESCRIPTION = """\
Print the fields of the configuration, the sizes, times and scores in which runs differ; of two runs also the first
number minus the second. Needs no torch.

With a sentence, translate it with the trained model of each run and show the attention maps side by side: above each
map the fields in which the models differ, the id, the translation, and the entropy of the weights, from 0 (one token)
to 1 (uniform). Rows are target tokens, columns source tokens; in self-attention both are of one sentence.
"""
MOST = 12
"""Runs that are compared at once."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, site, layer or head, a sentence that cannot be translated, or a file that cannot be
            written.
    """
    parser = Parser(prog="study compare", description=DESCRIPTION)
    text = f"{RUN}; last, if you like, a source sentence of two words or more, in quotes"
    parser.add_argument("run", nargs="+", metavar="RUN", help=text)
    parser.share("--plot", "--beam", "--site", "--layer", "--head", "--json", "--runs")
    args = parser.parse_args(argv)
    sentence = args.run.pop() if len(args.run[-1].split()) > 1 else None
    least = 1 if sentence else 2
    if not least <= len(args.run) <= MOST:
        raise InputError(f"RUN: expected {least} to {MOST} runs, got {len(args.run)}. See `study compare --help`.")
    if sentence is not None:
        _side_by_side(args, sentence)
        return 0
    if args.plot:
        raise InputError("--plot: expected with a sentence of two words or more, got none. Add one in quotes.")
    from study.analysis.ledger import differences

    found = [find(name, runs_folder(args.runs)) for name in args.run]
    frame = differences({identity: store.tree(identity) for store, identity in found})
    if args.json:
        print_json(frame.to_dict("records"))
        return 0
    ids = list(dict.fromkeys(identity for _, identity in found))
    say(*(f"{number}  {identity}" for number, identity in enumerate(ids, 1)), "")
    numbered = frame.rename(columns={identity: str(number) for number, identity in enumerate(ids, 1)})
    say(*table_lines(numbered.to_dict("records")) if len(frame) else ["no difference"])
    return 0


def _side_by_side(args: Namespace, sentence: str) -> None:
    from study.analysis import run_text
    from study.commands.translate import load, warn_of_unknown
    from study.config import experiment_id
    from study.config.words import differing
    from study.training.translation import translate

    models = [load(run, runs_folder(args.runs)) for run in args.run]
    ids = [experiment_id(model.experiment) for model in models]
    words = differing([model.experiment.model_dump(mode="json") for model in models])
    found = [translate(model, sentence, args.beam, args.layer, args.site, args.head) for model in models]
    for model, identity in zip(models, ids, strict=True):
        warn_of_unknown(model, sentence, identity)
    if args.json:
        parts = ("site", "layer", "head", "source", "target", "weights")
        print_json(
            [
                {"id": identity, "differs": word, "translation": one.text, "entropy": _entropy(one)}
                | {part: (one.attention or {}).get(part) for part in parts}
                for identity, word, one in zip(ids, words, found, strict=True)
            ]
        )
    else:
        first = next((one.attention for one in found if one.attention), None)
        say(f"{' '.join(sentence.split())}   ({attention_map.title(first) if first else 'no attention map'})", "")
        blocks = [list(_block(*one)) for one in zip(ids, words, found, strict=True)]
        say(*run_text.side_by_side(blocks, shutil.get_terminal_size((120, 24)).columns))
    if args.plot is not None:
        from study.analysis.figures import run as figures

        maps = [(one.attention, words[i] or ids[i]) for i, one in enumerate(found) if one.attention is not None]
        if not maps:
            raise InputError("--plot: expected attention over tokens, got none. Remove it, or choose other runs.")
        write_picture(figures.draw_translations(maps), args.plot)


def _entropy(found: Translation) -> float | None:
    return attention_map.entropy(found.attention) if found.attention else None


def _block(identity: str, words: str, found: Translation) -> Iterator[str]:
    """Lines of one model; the translation is as wide as its map."""
    from study.analysis.labels import number

    map_lines = list(attention_map.cells(found.attention)) if found.attention else ["no map: no slot is a token"]
    width = max(len(identity), *map(len, map_lines))
    for text in (words, identity, f"→ {found.text}", f"entropy {number(_entropy(found), 2)}"):
        yield from textwrap.wrap(text, width)
    yield from ["", *map_lines]
