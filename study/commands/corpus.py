"""`study corpus NAME`: sentence pairs of a corpus, their gold links, its vocabulary, and which words it knows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from study.commands.options import RUNS, Parser, natural, runs_folder, table_lines
from study.config import Data, experiment_from
from study.corpora import Corpus, Pair, load, words
from study.corpora.catalogue import KINDS
from study.corpora.corpus import tokens_of
from study.errors import InputError
from study.run_names import find

DESCRIPTION = """\
Print the splits of a corpus, its vocabulary, and some sentence pairs with their gold links. NAME is a corpus or probe
(`study ls corpora`), a folder with text of your own (with --source and --target), or a RUN, whose corpus it is.

--sentence prints which words of a sentence the training split has. Needs no torch, except to count subwords.
"""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such corpus or split, or text that cannot be read.
    """
    args = _parser().parse_args(argv)
    data = _section(args)
    corpus = load(data)
    split = args.split or corpus.tests[0]
    if split not in corpus.splits:
        raise InputError(f"--split: expected {', '.join(corpus.splits)}, got {split}.")
    size = len(corpus.splits[split])
    if args.pairs and args.start >= size:
        raise InputError(f"--start: expected less than {size}, the number of pairs of {split}, got {args.start}.")
    pairs = corpus.splits[split][args.start : args.start + args.pairs]
    known = {form for pair in corpus.splits["train"] for form, _, _ in words(pair.source)}
    written = list(dict.fromkeys(form for form, _, _ in words(args.sentence or "")))
    facts: dict[str, Any] = {
        "corpus": corpus.name,
        "languages": list(corpus.languages),
        "splits": list(_splits(corpus)),
        "vocabulary": _vocabulary(data, corpus),
        "pairs": [_pair(split, args.start + i, pair) for i, pair in enumerate(pairs, 1)],
    }
    if args.sentence is not None:
        facts["known"] = [form for form in written if form in known]
        facts["unknown"] = [form for form in written if form not in known]
    print(json.dumps(facts, ensure_ascii=False, indent=1) if args.json else "\n".join(_text(facts)))
    return 0


def _section(args: Any) -> Data:
    """Return the declaration of the corpus that NAME names."""
    own = {"source": args.source, "target": args.target}
    if args.name in KINDS and args.name != "files":
        return experiment_from({"data.name": args.name}).data
    folder = Path(args.name)
    if folder.is_dir() and not (folder / "record.json").is_file():
        if None in own.values():
            raise InputError("--source, --target: expected the languages of the folder, such as cs and en, got none.")
        fields = {f"data.{name}": value for name, value in own.items()}
        fields |= {"data.name": "files", "data.folder": str(folder), "data.tokens": args.tokens}
        return experiment_from(fields).data
    if args.name == "files" or args.source or args.target:
        raise InputError(
            f"{args.name}: expected a folder with text of your own, got none. Write `study corpus FOLDER --source cs "
            "--target en`, or a RUN without languages."
        )
    try:
        store, identity = find(args.name, runs_folder(args.runs))
    except InputError as problem:
        raise InputError(f"{problem} `study ls corpora` lists the corpora.") from None
    return experiment_from(store.record(identity).config).data


def _splits(corpus: Corpus) -> Iterator[dict[str, Any]]:
    for name, pairs in corpus.splits.items():
        sides = ([pair.source for pair in pairs], [pair.target for pair in pairs])
        means = [round(sum(len(words(text)) for text in texts) / max(len(texts), 1), 1) for texts in sides]
        gold = any(pair.alignment is not None for pair in pairs)
        yield {"split": name, "pairs": len(pairs), "source words": means[0], "target words": means[1], "gold": gold}


def _vocabulary(data: Data, corpus: Corpus) -> dict[str, Any]:
    """Return the number of tokens and, of each side, of different words with the most frequent ones."""
    train = corpus.splits["train"]
    if data.tokens == "words":
        size = 4 + len({token for pair in train for text in (pair.source, pair.target) for token in tokens_of(text)})
    else:
        from study.training.vocabulary import vocabulary_for

        size = len(vocabulary_for(data, corpus))
    sides = {}
    for side in ("source", "target"):
        counts = Counter(form for pair in train for form, _, _ in words(getattr(pair, side)))
        sides[side] = {"words": len(counts), "frequent": [word for word, _ in counts.most_common(12)]}
    return {"tokens": size, "unit": data.tokens, **sides}


def _pair(split: str, line: int, pair: Pair) -> dict[str, Any]:
    row: dict[str, Any] = {"split": split, "line": line, "source": pair.source, "target": pair.target}
    if pair.alignment is not None:
        sides = [[form for form, _, _ in words(text)] for text in (pair.source, pair.target)]
        row["gold"] = [f"{sides[0][s]}{'–' if sure else '?'}{sides[1][t]}" for s, t, sure in pair.alignment]
    return row


def _text(facts: dict[str, Any]) -> Iterator[str]:
    vocabulary = facts["vocabulary"]
    yield f"{facts['corpus']}: {' → '.join(facts['languages'])}"
    yield from table_lines(facts["splits"])
    yield f"vocabulary: {vocabulary['tokens']:,} tokens of both sides, {vocabulary['unit']}"
    for side in ("source", "target"):
        found = vocabulary[side]
        yield f"  {side}: {found['words']:,} different words in train, most often {' '.join(found['frequent'])}"
    for pair in facts["pairs"]:
        yield from ["", f"{pair['split']} {pair['line']}", f"  source  {pair['source']}", f"  target  {pair['target']}"]
        if "gold" in pair:
            yield f"  gold    {' '.join(pair['gold']) or 'no link'}"
    if "known" in facts:
        yield from ["", f"known:   {' '.join(facts['known']) or 'none'}"]
        yield f"unknown: {' '.join(facts['unknown']) or 'none'}"


def _parser() -> Parser:
    parser = Parser(prog="study corpus", description=DESCRIPTION)
    add = parser.add_argument
    add("name", metavar="NAME", help="a corpus, a folder with text of your own, or a RUN")
    add("--sentence", metavar="TEXT", help="print which words of this source sentence the training split has")
    add("--split", metavar="NAME", help="split of the pairs (default: the first test split)")
    add("--pairs", type=natural, metavar="N", default=3, help="number of pairs (default: 3)")
    add("--start", type=natural, metavar="N", default=0, help="pairs to leave out before them (default: 0)")
    add("--source", metavar="LANGUAGE", help="of your own text: language of the source, the ending of its files")
    add("--target", metavar="LANGUAGE", help="of your own text: language of the target, the ending of its files")
    tokens = "of your own text: unit of a token (default: words)"
    add("--tokens", choices=("subwords", "words"), default="words", help=tokens)
    add("--json", action="store_true", help="print JSON")
    add("--runs", metavar="DIR", help=RUNS)
    return parser
