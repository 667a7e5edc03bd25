"""`study show RUN`: one run, its translations, or a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.commands.options import (
    RUNS,
    Parser,
    add_formats,
    named_as_flags,
    picture,
    print_frame,
    print_json,
    runs_folder,
    say,
    table_lines,
    write_picture,
)
from study.corpora.catalogue import KINDS
from study.corpora.parallel import FOLDER
from study.errors import InputError
from study.run_names import RUN, find

if TYPE_CHECKING:
    from study.store import Store

DESCRIPTION = """\
Print one run: the fields that differ from the defaults, its scores, its learning curve and one attention map.

--sentences prints its translations with source and reference, the worst first; with --versus, those that lose most
against another run. Scores are of one sentence each. Generated corpora are generated again; Multi30k needs the variable
STUDY_MULTI30K, and text of your own its folder (--data-folder).

A CORPUS (`study ls corpora`) in place of a run prints the sizes of its splits and some sentence pairs with their gold
links. Needs no torch and no model.
"""
WORST, PAIRS = 20, 3
"""Sentences of the text, and pairs of a corpus."""
SENTENCES = ("versus", "split", "score", "data_folder")


def main(argv: Sequence[str]) -> int:
    """Run the verb and return the exit status.

    Raises:
        InputError: no such run, corpus, split or score, or a record or corpus that cannot be read.
    """
    args = _parser().parse_args(argv)
    corpus = args.run in KINDS and args.run != "files"
    for name in SENTENCES:
        if getattr(args, name) is not None and not args.sentences and not (corpus and name == "split"):
            raise InputError(f"--{name.replace('_', '-')}: expected with --sentences, got it alone. Add --sentences.")
    if corpus:
        _corpus(args)
        return 0
    store, identity = find(args.run, runs_folder(args.runs))
    if args.sentences:
        _sentences(args, (store, identity))
    elif args.json:
        print(store.text(identity), end="")
    elif args.csv:
        raise InputError("--csv: expected with --sentences, got it alone. --json prints the record.")
    else:
        from study.analysis import run_text

        record, attention = store.record(identity), store.attention(identity)
        if args.plot:
            from study.analysis.figures.run import draw_run

            write_picture(draw_run(record, attention), args.plot)
        say(*run_text.describe(record, attention))
    return 0


def _sentences(args: Any, run: tuple[Store, str]) -> None:
    from study.analysis.labels import number
    from study.analysis.sentences import sentences

    versus = find(args.versus, runs_folder(args.runs)) if args.versus is not None else None
    try:
        with named_as_flags("split", "score"):
            frame = sentences(run, versus, args.split, args.score, args.data_folder)
    except InputError as problem:
        if not str(problem).startswith("folder:") or args.data_folder is not None:
            raise
        raise InputError(
            f"--data-folder: expected the folder of the text, got none. Give it, or set {FOLDER}."
        ) from None
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


def _corpus(args: Any) -> None:
    from study.config import experiment_from
    from study.corpora import load, words

    corpus = load(experiment_from({"data.name": args.run}).data)
    split = args.split or corpus.tests[0]
    if split not in corpus.splits:
        raise InputError(f"--split: expected {', '.join(corpus.splits)}, got {split}.")
    sizes = []
    for name, pairs in corpus.splits.items():
        source, target = (
            round(sum(len(words(text)) for text in texts) / len(texts), 1)
            for texts in zip(*((pair.source, pair.target) for pair in pairs), strict=True)
        )
        gold = any(pair.alignment is not None for pair in pairs)
        sizes.append({"split": name, "pairs": len(pairs), "source words": source, "target words": target, "gold": gold})
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


def _parser() -> Parser:
    parser = Parser(prog="study show", description=DESCRIPTION)
    add = parser.add_argument
    add("run", metavar="RUN", help=f"{RUN}; or the name of a corpus")
    help_ = "also draw the learning curve and the attention map into FILE, a .png or .svg"
    add("--plot", type=picture, metavar="FILE", help=help_)
    parser.alias("--png", "--plot", type=picture)
    add("--sentences", action="store_true", help="print the translations instead, the worst first")
    add("--versus", metavar="RUN", help="another run on the same corpus, to compare the translations with")
    add("--split", metavar="NAME", help="split of the corpus (default: its first test split)")
    scores = "chrf, bleu, exact, prefix or accuracy (default: chrf; accuracy for a corpus without sentences)"
    add("--score", metavar="NAME", help=scores)
    add("--data-folder", type=Path, metavar="DIR", help="folder of the text, for a run on text of your own")
    add_formats(parser)
    add("--runs", metavar="DIR", help=RUNS)
    return parser
