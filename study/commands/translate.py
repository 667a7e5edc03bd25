"""Translate a sentence, or align sentence pairs, with a trained model.

The attention of a translation is drawn as a heat map: one column per source token, one row per target token. The map
shows cross-attention, the mean over heads, unless --site, --layer or --head choose another.

--align prints word alignments instead: the model reads the sentence pairs of a split, and every target word is linked
to the source word that it attends to most. A line such as `0-0 2-1` has links source word - target word, both counted
from 0. A word is a run of letters and digits, or one punctuation mark.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from study import api
from study.commands.options import Parser, translation_options, write_picture
from study.errors import InputError


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, an empty sentence, no such layer, or a file that cannot be written.
    """
    parser = Parser("translate", __doc__, "run")
    parser.add_argument("sentence", nargs="?", metavar="SENTENCE", help="a source sentence, in quotes")
    text = "align the pairs of a split of the run's corpus (default: its first test split)"
    parser.add_argument("--align", nargs="?", const="", metavar="SPLIT", help=text)
    parser.share("--plot", "--beam", "--site", "--layer", "--head", "--runs")
    args = parser.parse_intermixed_args(argv)
    if (args.sentence is None) == (args.align is None):
        raise InputError("SENTENCE: expected a sentence or --align, got neither or both. See `study translate --help`.")
    if args.align is not None and (args.plot or args.beam or args.site):
        raise InputError("--align: expected none of --plot, --beam and --site, which are of a sentence. Remove them.")
    run = api.load(args.run, runs=args.runs)
    if args.align is not None:
        _align(run, args)
        return 0
    translation = run.translate(args.sentence, **translation_options(args))
    warn_of_unknown(run, args.sentence)
    print(translation.text)
    if translation.attention is None:
        print("alignment  none: this model has no weights over source tokens")
    else:
        write_picture(translation.plot(), args.plot or Path("alignment.png"))
    return 0


def _align(run: api.Run, args: Namespace) -> None:
    from study.training.translation import align

    layer, links = align(run.trained, args.align or None, args.layer, args.head)
    for pairs in links:
        print(*(f"{source}-{target}" for source, target in sorted(pairs)))
    head = "mean over heads" if args.head is None else f"head {args.head}"
    print(f"{len(links)} pairs, layer {layer}, {head}", file=sys.stderr)


def warn_of_unknown(run: api.Run, sentence: str) -> None:
    """Print the words of a sentence that a model does not know, in one line of stderr."""
    from study.training.translation import unknown

    if strange := dict.fromkeys(unknown(run.trained.vocabulary, sentence).values()):
        print(f"study: not in the vocabulary of {run.id}: {', '.join(strange)}", file=sys.stderr)
