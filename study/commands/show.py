"""Print one run, its translations, or a corpus.

Of a run: the fields that differ from the defaults, its scores and one attention map. --plot draws the map and the
learning curve. --maps draws the attention map of one sentence at each validation: a strip (.svg, .png), or an animation
(.gif); with --versus, those of another run as well.

--sentences prints its translations with source and reference, the worst first; with --versus, those that lose most
against another run. The score is chrF of one sentence, or accuracy in a corpus without sentences. Generated corpora are
generated again; Multi30k needs the variable STUDY_MULTI30K or --data, and text of your own its folder (--data).

A CORPUS (`study ls corpora`) instead of a run prints the sizes of its splits and some sentence pairs with their gold
links. Needs no torch and no model.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from study import api
from study.commands.options import Parser, record_lines, say, table_lines, write_picture
from study.corpora.catalogue import KINDS
from study.errors import InputError

WORST, PAIRS = 20, 3
"""Sentences of the text, and pairs of a corpus."""


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: no such run, corpus or split, or a record or corpus that cannot be read.
    """
    parser = Parser("show", __doc__, "run", "--plot")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--sentences", action="store_true", help="print the translations instead, the worst first")
    instead.add_argument("--json", action="store_true", help="print the record instead")
    text = "also draw the attention maps of training, a .svg, .png or .gif"
    parser.add_argument("--maps", type=Path, metavar="FILE", help=text)
    text = "another run on the same corpus, to compare the translations or maps with"
    parser.add_argument("--versus", metavar="RUN", help=text)
    parser.share("--split", "--csv", "--data", "--runs")
    args = parser.parse_args(argv)
    corpus = args.run in KINDS and args.run != "files"
    versus = args.versus and not args.maps
    if not args.sentences and (versus or args.csv or ((args.split or args.data) and not corpus)):
        raise InputError("--versus, --csv, --split, --data: expected with --sentences, got none. Add --sentences.")
    if corpus and (args.sentences or args.json):
        raise InputError(f"RUN: expected a run with --sentences and --json, got the corpus {args.run}. Name a run.")
    if (args.plot or args.maps) and (corpus or args.sentences or args.json):
        option = "--plot" if args.plot else "--maps"
        raise InputError(f"{option}: expected with a run alone, which has an attention map, got more. Remove it.")
    if corpus:
        _corpus(args)
        return 0
    run = api.load(args.run, runs=args.runs)
    if args.sentences:
        _sentences(run, args)
    elif args.json:
        print(run.store.text(run.id), end="")
    else:
        from study.analysis.run_text import describe

        if args.plot:
            write_picture(run.plot(), args.plot)
        if args.maps:
            _maps(run, args)
        say(*describe(run.record, run.store.attention(run.id)))
    return 0


def _maps(run: api.Run, args: Namespace) -> None:
    others = [api.load(args.versus, runs=args.runs)] if args.versus else []
    if args.maps.suffix == ".gif":
        run.animate_maps(args.maps, *others)
        print(f"picture  {args.maps}", file=sys.stderr)
    else:
        write_picture(run.plot_maps(*others), args.maps, "--maps")


def _sentences(run: api.Run, args: Namespace) -> None:
    versus = None if args.versus is None else api.load(args.versus, runs=args.runs)
    frame = run.sentences(versus, args.split, data_folder=args.data)
    if args.csv:
        print(frame.to_csv(index=False, lineterminator="\n"), end="")
        return
    against = f"; vs: {versus.id}" if versus else ""
    say(f"{run.id}, {frame.attrs['split']}: {frame.attrs['score']} of each sentence, the worst first{against}")
    for row in frame[:WORST].to_dict("records"):
        say("", *record_lines(row))
    if len(frame) > WORST:
        say("", f"and {len(frame) - WORST} more of {len(frame)}; print all with --csv")


def _corpus(args: Namespace) -> None:
    from study.config import experiment_from
    from study.corpora import load, mean_words, words

    folder = {"data.folder": str(args.data)} if args.data else {}
    corpus = load(experiment_from({"data.name": args.run, "training.select": "last", **folder}).data)
    split = args.split or corpus.tests[0]
    if split not in corpus.splits:
        raise InputError(f"--split: expected {', '.join(corpus.splits)}, got {split}.")
    sizes = [
        {"split": name, "pairs": len(pairs)}
        | {f"{side} words": mean_words(getattr(pair, side) for pair in pairs) for side in ("source", "target")}
        for name, pairs in corpus.splits.items()
    ]
    say(f"{corpus.name}: {' → '.join(corpus.languages)}", *table_lines(sizes))
    for line, pair in enumerate(corpus.splits[split][:PAIRS], 1):
        source, target = ([form for form, _, _ in words(text)] for text in (pair.source, pair.target))
        links = [f"{source[s]}{'–' if sure else '?'}{target[t]}" for s, t, sure in pair.alignment or ()]
        row = {"split": split, "line": line, "source": pair.source, "target": pair.target, "gold": links}
        say("", *record_lines(row))
