"""`study show RUN`: one run, its translations, or a corpus."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.commands.options import (
    Parser,
    print_frame,
    print_json,
    runs_folder,
    say,
    table_lines,
    write_animation,
    write_picture,
)
from study.corpora.catalogue import KINDS
from study.errors import InputError
from study.run_names import find

if TYPE_CHECKING:
    from study.store import Store

DESCRIPTION = """\
Print one run: the fields that differ from the defaults, its scores, its learning curve and one attention map. --plot
draws curve and map.

--maps prints what attention looks at while the model learns: the map of one sentence at each validation. --plot draws
them in a strip, or one after another if FILE ends in .gif.

--sentences prints its translations with source and reference, the worst first; with --versus, those that lose most
against another run. Scores are of one sentence each. Generated corpora are generated again; Multi30k needs the variable
STUDY_MULTI30K, and text of your own its folder (--data-folder).

A CORPUS (`study ls corpora`) in place of a run prints the sizes of its splits and some sentence pairs with their gold
links. Needs no torch and no model.
"""
WORST, PAIRS = 20, 3
"""Sentences of the text, and pairs of a corpus."""


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: no such run, corpus, split or score, or a record or corpus that cannot be read.
    """
    parser = Parser(prog="study show", description=DESCRIPTION)
    add = parser.add_argument
    parser.share("run", "--plot")
    add("--maps", action="store_true", help="print the attention map of each validation instead")
    add("--sentences", action="store_true", help="print the translations instead, the worst first")
    add("--versus", metavar="RUN", help="another run on the same corpus, to compare the translations with")
    scores = "chrf, bleu, exact, prefix or accuracy (default: chrf; accuracy for a corpus without sentences)"
    add("--score", metavar="NAME", help=scores)
    add("--data-folder", type=Path, metavar="DIR", help="folder of the text, for a run on text of your own")
    parser.share("--split", "--json", "--csv", "--runs")
    args = parser.parse_args(argv)
    corpus = args.run in KINDS and args.run != "files"
    if not args.sentences and (args.versus or args.score or args.csv or (args.split and not corpus)):
        raise InputError("--versus, --score, --csv, --split: expected with --sentences, got none. Add --sentences.")
    if corpus:
        _corpus(args)
        return 0
    store, identity = find(args.run, runs_folder(args.runs))
    if args.sentences:
        _sentences(args, (store, identity))
    elif args.maps:
        _maps(args, store.learning(identity))
    elif args.json:
        print(store.text(identity), end="")
    else:
        from study.analysis import run_text

        record, attention = store.record(identity), store.attention(identity)
        if args.plot:
            from study.analysis.figures.run import draw_run

            write_picture(draw_run(record, attention), args.plot)
        say(*run_text.describe(record, attention))
    return 0


def _sentences(args: Namespace, run: tuple[Store, str]) -> None:
    from study.analysis.labels import number
    from study.analysis.sentences import sentences

    versus = find(args.versus, runs_folder(args.runs)) if args.versus is not None else None
    frame = sentences(run, versus, args.split, args.score, args.data_folder)
    if print_frame(frame, args):
        return
    names = {"source": "source", "reference": "reference", "hypothesis": run[1]}
    names |= {"hypothesis_vs": versus[1]} if versus else {}
    width = max(map(len, names.values()))
    other = f" − that of {versus[1]}" if versus else ""
    say(f"{frame.attrs['split']}: {frame.attrs['score']} of each sentence{other}", "")
    for row in frame[:WORST].to_dict("records"):
        scores = [number(row["score"])]
        scores += [f"− {number(row['score_vs'])} = {number(row['difference'], sign=True)}"] if versus else []
        lines = (f"  {name:<{width}}  {row[column]}" for column, name in names.items())
        say(f"line {row['line']}   {' '.join(scores)}", *lines, "")
    if len(frame) > WORST:
        say(f"and {len(frame) - WORST} more of {len(frame)}; print all with --csv or --json")


def _maps(args: Namespace, maps: list[dict[str, Any]]) -> None:
    from study import attention_map
    from study.analysis.figures import run

    if args.json:
        print_json(maps)
        return
    if args.plot and args.plot.suffix == ".gif":
        write_animation(run.animate_learning(maps), args.plot)
    elif args.plot:
        write_picture(run.draw_learning(maps), args.plot)
    say(f"Attention: {attention_map.title(maps[0])}", *(f"  {text}" for text in (maps[0].get("text") or {}).values()))
    for one in maps:
        say("", run.learned(one), *attention_map.cells(one))


def _corpus(args: Namespace) -> None:
    from study.config import experiment_from
    from study.corpora import load, mean_words, words

    corpus = load(experiment_from({"data.name": args.run}).data)
    split = args.split or corpus.tests[0]
    if split not in corpus.splits:
        raise InputError(f"--split: expected {', '.join(corpus.splits)}, got {split}.")
    sizes = [
        {
            "split": name,
            "pairs": len(pairs),
            "source words": round(mean_words(pair.source for pair in pairs), 1),
            "target words": round(mean_words(pair.target for pair in pairs), 1),
            "gold": any(pair.alignment is not None for pair in pairs),
        }
        for name, pairs in corpus.splits.items()
    ]
    shown = []
    for line, pair in enumerate(corpus.splits[split][:PAIRS], 1):
        sides = [[form for form, _, _ in words(text)] for text in (pair.source, pair.target)]
        links = [f"{sides[0][s]}{'–' if sure else '?'}{sides[1][t]}" for s, t, sure in pair.alignment or ()]
        shown.append({"split": split, "line": line, "source": pair.source, "target": pair.target, "gold": links})
    if args.json:
        print_json({"corpus": corpus.name, "languages": list(corpus.languages), "splits": sizes, "pairs": shown})
    else:
        say(f"{corpus.name}: {' → '.join(corpus.languages)}", *table_lines(sizes), *_pairs(shown))


def _pairs(shown: list[dict[str, Any]]) -> Iterator[str]:
    for pair in shown:
        yield from ["", f"{pair['split']} {pair['line']}", f"  source  {pair['source']}", f"  target  {pair['target']}"]
        if pair["gold"]:
            yield f"  gold    {' '.join(pair['gold'])}"
