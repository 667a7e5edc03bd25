"""`study translate RUN SENTENCE`: one sentence by a trained model, and where it looked; with --align, many pairs."""

from __future__ import annotations

import re
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.commands.options import Parser, runs_folder, write_picture
from study.errors import InputError
from study.run_names import find, model_of

if TYPE_CHECKING:
    from study.training.translation import Trained
    from study.training.word_links import WordLinks

DESCRIPTION = """\
Translate one sentence with a trained model and draw its attention as a heat map: one column per source token, one row
per target token. The map shows cross-attention, the mean over heads, unless --site, --layer or --head choose another.

--align prints word alignments instead: the model reads sentence pairs of a split, or of two files with one sentence a
line, and every target word is linked to the source word that it attends to most. A line such as `0-0 2-1` has links
source word - target word, both counted from 0. A word is a run of letters and digits, or one punctuation mark. If the
correct links are known, the alignment error rate (AER) and the attention mass on them go to stderr, by layer and head.
"""
PLOT = Path("alignment.png")


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such checkpoint, an empty sentence, no such layer, or a file that cannot be written.
    """
    parser = Parser(prog="study translate", description=DESCRIPTION)
    parser.share("run")
    parser.add_argument("sentence", nargs="?", metavar="SENTENCE", help="a source sentence, in quotes")
    text = "align the pairs of a split of the run's corpus (default: its first test split), or of two files"
    parser.add_argument("--align", nargs="*", metavar="SPLIT|FILE", help=text)
    parser.share("--plot", "--beam", "--site", "--layer", "--head", "--runs")
    args = parser.parse_args(argv)
    if (args.sentence is None) == (args.align is None):
        raise InputError(
            "SENTENCE: expected a sentence, or --align, got neither or both. See `study translate --help`."
        )
    trained = load(args.run, runs_folder(args.runs))
    if args.align is not None:
        _align(trained, args)
    else:
        _translate(trained, args)
    return 0


def _translate(trained: Trained, args: Namespace) -> None:
    from study.config import experiment_id
    from study.training.translation import translate

    found = translate(trained, args.sentence, args.beam, args.layer, args.site, args.head)
    warn_of_unknown(trained, args.sentence, "this model")
    print(found.text)
    if found.attention is not None:
        if absent := draw(found.attention, args.plot or PLOT, experiment_id(trained.experiment)):
            print(f"study: the font lacks {absent}; boxes are drawn instead", file=sys.stderr)
    elif any(site == args.site for site, _, _ in trained.model.sites()):
        print(f"alignment  none: memory {trained.experiment.model.memory} has no source tokens")
    elif trained.experiment.model.attention.cross.whole:
        print("alignment  none: a class of its own computes cross-attention, and shows no weights")
    else:
        print("alignment  none: this model has no head of cross-attention left")


def _align(trained: Trained, args: Namespace) -> None:
    from study.corpora.parallel import read_sides
    from study.training.word_links import align, pharaoh

    if len(args.align) > 2:
        raise InputError(
            f"--align: expected a split or two files, got {len(args.align)} words. Give SENTENCE before it."
        )
    files = len(args.align) == 2 and [(p.source, p.target) for p in read_sides(*map(Path, args.align))]
    pairs = files or " ".join(args.align) or None
    found = align(trained, pairs, args.layer, args.head)
    sys.stdout.writelines(f"{pharaoh(links)}\n" for links in found.links)
    head = "mean over heads" if found.head is None else f"head {found.head}"
    print(f"{len(found.links)} pairs, layer {found.layer}, {head}", file=sys.stderr)
    if found.scores:
        print(*_rows(found), sep="\n", file=sys.stderr)


def _rows(found: WordLinks) -> Iterator[str]:
    """The table of layers and heads; an arrow marks what was written. The floor is what one link a word can reach."""
    yield "  layer  head    AER  mass on gold"
    for row in found.scores:
        head, mass = "mean" if row.head is None else str(row.head), "–" if row.mass is None else f"{row.mass:.3f}"
        mark = "  ←" if (row.layer, row.head) == (found.layer, found.head) else ""
        yield f"  {row.layer:>5}  {head:>4}  {row.aer:.3f}  {mass:>12}{mark}"
    yield f"  lowest possible AER with one link per target word: {found.floor:.3f}"


def load(run: str, runs: Path) -> Trained:
    """Return the trained model of a run; RUN may also be the file of a model.

    Raises:
        InputError: no run, or several runs, have this name, or the run has no model.
    """
    from study.training import translation

    if (path := Path(run)).exists() and path.name != "record.json":
        return translation.load(path)
    store, identity = find(run, runs)
    return translation.read(model_of(store, identity), identity)


def warn_of_unknown(trained: Trained, sentence: str, name: str) -> None:
    """Print the words of a sentence that a model does not know, in one line of stderr."""
    from study.training.translation import unknown

    if strange := dict.fromkeys(unknown(trained.vocabulary, sentence).values()):
        print(f"study: not in the vocabulary of {name}: {', '.join(strange)}", file=sys.stderr)


def draw(attention: dict[str, Any], path: Path, model: str) -> str:
    """Write one attention map as a picture and return the characters that the font lacks."""
    from study.analysis.figures.run import draw_translation

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        write_picture(draw_translation(attention, model), path)
    codes = (re.match(r"Glyph (\d+) ", str(warning.message)) for warning in told)
    return " ".join(dict.fromkeys(chr(int(code[1])) for code in codes if code))
