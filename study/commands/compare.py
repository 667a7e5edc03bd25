"""Compare runs, or their translations of a sentence.

Print the fields of the configuration, the sizes, times and scores in which runs differ; of two runs also the first
number minus the second. Needs no torch.

With a sentence, translate it with the trained model of each run and show the attention maps side by side: above each
map the fields in which the models differ, the id, the translation, and the entropy of the weights, from 0 (one token)
to 1 (uniform). Rows are target tokens, columns source tokens; in self-attention both are of one sentence.
"""

import shutil
import textwrap
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace

from study import api, attention_map
from study.commands.options import Parser, say, table_lines, translation_options, write_picture
from study.errors import InputError
from study.store.find import RUN

MOST = 12
"""Runs that are compared at once."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, site, layer or head, a sentence that cannot be translated, or a file that cannot be
            written.
    """
    parser = Parser("compare", __doc__)
    text = f"{RUN}; last, if you like, a source sentence of two words or more, in quotes"
    parser.add_argument("run", nargs="+", metavar="RUN", help=text)
    parser.share("--plot", "--beam", "--site", "--layer", "--head", "--runs")
    args = parser.parse_intermixed_args(argv)
    sentence = args.run.pop() if len(args.run[-1].split()) > 1 else None
    least = 1 if sentence else 2
    if not least <= len(args.run) <= MOST:
        raise InputError(f"RUN: expected {least} to {MOST} runs, got {len(args.run)}. See `study compare --help`.")
    if args.plot and not sentence:
        raise InputError("--plot: expected with a sentence of two words or more, got none. Give one in quotes.")
    runs = [api.load(name, runs=args.runs) for name in args.run]
    if sentence:
        _side_by_side(runs, sentence, args)
        return 0
    frame = api.compare(runs)
    names = frame.columns.drop(["section", "field", "difference"], errors="ignore")
    say(*(f"{number}  {name}" for number, name in enumerate(names, 1)), "")
    numbered = frame.rename(columns={name: str(number) for number, name in enumerate(names, 1)})
    say(*table_lines(numbered.to_dict("records")) if len(frame) else ["no difference"])
    return 0


def _side_by_side(runs: Sequence[api.Run], sentence: str, args: Namespace) -> None:
    from study.analysis.run_text import side_by_side
    from study.commands.translate import warn_of_unknown
    from study.config.words import differing

    translations = [run.translate(sentence, **translation_options(args)) for run in runs]
    for run in runs:
        warn_of_unknown(run, sentence)
    words = differing([run.record.config for run in runs])
    maps = []
    for word, translation in zip(words, translations, strict=True):
        if translation.attention:
            maps.append(replace(translation, model=word or translation.model))
    if args.plot and not maps:
        raise InputError("--plot: expected attention over tokens, got none. Remove it, or choose other runs.")
    if args.plot:
        write_picture(maps[0].plot(*maps[1:]), args.plot)
    title = attention_map.title(maps[0].attention or {}) if maps else "no attention map"
    say(f"{' '.join(sentence.split())}   ({title})", "")
    blocks = [list(_block(*block)) for block in zip(words, translations, strict=True)]
    say(*side_by_side(blocks, shutil.get_terminal_size((120, 24)).columns))


def _block(words: str, found: api.Translation) -> Iterator[str]:
    """Lines of one model; the translation is as wide as its map."""
    from study.analysis.labels import number

    rows = list(attention_map.cells(found.attention)) if found.attention else ["no map: no slot is a token"]
    for text in (words, found.model, f"→ {found.text}", f"entropy {number(found.entropy, 2)}"):
        yield from textwrap.wrap(text, max(len(found.model), *map(len, rows)))
    yield from ["", *rows]
