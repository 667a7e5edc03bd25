"""`study data check FOLDER`: a check of own parallel text before training."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from study.commands.options import Parser
from study.corpora import Pair, words
from study.corpora.parallel import Rows, Split, content, find, read
from study.errors import InputError

DESCRIPTION = """\
Check parallel text of your own (data.name files) before training on it. The folder has train, valid and
test splits. Each split is a pair of files (train.cs, train.en) or a table with tabs (train.tsv), plain or gzip. Gold
alignments stand in train.align or in the third column: 0-0 is a sure link, 0?0 a possible one, counted in tokens
between blanks.

The report has sizes and lengths of every split, repeated pairs, sentences that are the same on both sides, the overlap
of every split with train, and every line that cannot be used, such as an empty one or one that is not UTF-8.
"""
SHOWN = 5
"""Problems of a split that are printed without --all."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status: 2 if the text cannot be used as it is.

    Raises:
        InputError: a wrong option, or a folder that has no splits.
    """
    args = _parser().parse_args(argv)
    found = find(args.folder, args.source, args.target)
    if not found:
        raise InputError(
            f"{args.folder}: expected files such as train.{args.source} and train.{args.target}, or train.tsv, got "
            "none. Check --source and --target."
        )
    rows = {name: _read(split) for name, split in found.items()}
    usable = {name: one.pairs for name, one in rows.items()}
    print(f"{args.folder}: {args.source} → {args.target}")
    for line in _table(rows, usable.get("train", [])):
        print(line)
    missing = [name for name in ("train", "valid") if name not in found]
    missing += ["a test split"] if not found.keys() - {"train", "valid"} else []
    count = sum(len(one.problems) for one in rows.values())
    for name, one in rows.items():
        shown = one.problems if args.all else one.problems[:SHOWN]
        for problem in shown:
            print(f"  {problem}")
        if len(shown) < len(one.problems):
            print(f"  and {len(one.problems) - len(shown)} more in {name}; --all lists them")
    if missing or count:
        lacking = [f"{' and '.join(missing)} missing"] * bool(missing)
        wrong = [f"{count} problem{'s' * (count > 1)}"] * bool(count)
        print(
            f"study: {', '.join([*lacking, *wrong])}; training refuses this text until it is corrected", file=sys.stderr
        )
        return 2
    print(f"content {content(usable)}: usable with --data.name files --data.folder {args.folder}", end=" ")
    print(f"--data.source {args.source} --data.target {args.target}")
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study data", description=DESCRIPTION)
    parser.add_argument("what", choices=("check",), help="read every split and report")
    add = parser.add_argument
    add("folder", type=Path, metavar="FOLDER", help="folder with the files of the splits")
    add("--source", required=True, metavar="LANGUAGE", help="source language: the ending of its files, such as cs")
    add("--target", required=True, metavar="LANGUAGE", help="target language: the ending of its files, such as en")
    add("--all", action="store_true", help=f"print every problem (default: {SHOWN} per split)")
    return parser


def _read(split: Split) -> Rows:
    """Return a split; one that cannot be read at all is its problem."""
    try:
        return read(split)
    except InputError as problem:
        return Rows(problems=[str(problem)])


def _table(rows: dict[str, Rows], train: list[Pair]) -> Iterator[str]:
    """One line a split, and what the columns mean."""
    sizes = ("split", "pairs", "source words", "target words")
    heads = (*sizes, "repeated", "same", "in train", "source in train", "gold", "empty", "problems")
    lines: list[tuple[str, ...]] = [heads, *(_row(name, one, train) for name, one in rows.items())]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        yield f"  {first.strip():<{widths[0]}}  {'  '.join(others)}"
    yield "  words: mean (longest); repeated: pairs that stand above in the split; same: source and target are one text"


def _row(name: str, rows: Rows, train: list[Pair]) -> tuple[str, ...]:
    pairs = [(pair.source, pair.target) for pair in rows.pairs]
    sides = (_lengths([pair[side] for pair in pairs]) for side in (0, 1))
    known = {(pair.source, pair.target) for pair in train}
    sources = {source for source, _ in known}
    overlap = ["", ""]
    if name != "train":
        overlap = [str(sum(pair in known for pair in pairs)), str(sum(source in sources for source, _ in pairs))]
    gold = bool(rows.pairs) and rows.pairs[0].alignment is not None
    counts = (len(pairs) - len(set(pairs)), sum(source == target for source, target in pairs))
    return (
        *(name, str(len(pairs)), *sides, *map(str, counts), *overlap),
        *("yes" if gold else "no", str(rows.empty), str(len(rows.problems))),
    )


def _lengths(texts: list[str]) -> str:
    lengths = [len(words(text)) for text in texts]
    return f"{sum(lengths) / len(lengths):.1f} ({max(lengths)})" if lengths else "–"
