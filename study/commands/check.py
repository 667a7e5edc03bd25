"""Test a mechanism of your own (FILE.py), or text of your own (FOLDER).

A mechanism takes the tests that built-in ones pass: gradients of every parameter and head, rows without a slot,
padding, causality, decoding token by token, every reach, removal of the first and the last head, facts, another device,
and a step of training in float32, in models of each family that takes it. Gradients are tested at the initial values,
all else at random values of every parameter, because a factor of 0 would hide a mistake. Takes seconds. Exit status: 0
all pass, 1 one fails, 2 the file cannot be used.

Of text (data.name files): sizes and lengths of every split, repeated pairs, the overlap with train, and lines that
cannot be used. It has train, valid and test splits, each a pair of files (train.cs, train.en) or a table with tabs
(train.tsv), plain or gzip. Gold alignments stand in train.align or in the third column: 0-0 is a sure link, 0?0 a
possible one, counted in tokens between blanks.
"""

import inspect
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from study.commands.options import Parser, say, table_lines
from study.config import plugins
from study.corpora import Pair, mean_words
from study.corpora.corpus import Splits
from study.corpora.parallel import content, find, read, with_links
from study.corpora.text import alike, remarks
from study.errors import InputError

HEADERS = {"source", "target", "src", "tgt", "trg", "sentence", "text", "translation"}
"""Words that are no sentences in the first line of a table."""


def main(argv: Sequence[str]) -> int:
    """Run the verb; return the exit status.

    Raises:
        InputError: a wrong option, or a file, class or folder that cannot be used.
    """
    parser = Parser("check", __doc__)
    text = "a Python file, and the class if it has several; or a folder of text"
    parser.add_argument("mechanism", metavar="FILE.py[:CLASS]|FOLDER", help=text)
    for name, text in (("source", "source language of text: the ending of its files, as cs"), ("target", "its target")):
        parser.add_argument(f"--{name}", metavar="LANGUAGE", help=text)
    args = parser.parse_args(argv)
    if (folder := Path(args.mechanism)).is_dir():
        if args.source is None or args.target is None:
            raise InputError("--source, --target: expected two languages, got none. They are the endings of the files.")
        return _check_text(folder, args.source, args.target)
    try:
        plugin = plugins.read(args.mechanism)
    except ValueError as problem:
        raise InputError(f"{problem}.") from None
    import torch

    from study.attention.part import Part
    from study.models.conformance import check

    torch.set_num_threads(1)  # the models are small
    try:
        part = Part.named(plugin.value)
    except ValueError as problem:
        raise InputError(f"{problem}. docs/own-mechanisms.md lists the facts of every axis.") from None
    print(f"{plugin.name}, a value of {part.axis} ({plugin.path}:{inspect.getsourcelines(part)[1]})")
    failed = 0
    for outcome in check(part.axis, plugin.value):
        print("fail " if outcome.problem else "ok   ", outcome.name, flush=True)
        if outcome.problem:
            print(f"      {outcome.problem}")
            failed += 1
    field = f"model.{part.axis}" if part.axis in ("mixing", "positions") else f"model.attention.{part.axis}"
    fails = "1 check fails" if failed == 1 else f"{failed} checks fail"
    print(fails if failed else f"all checks pass; use it with --{field} {args.mechanism}")
    return min(failed, 1)


def _check_text(folder: Path, source: str, target: str) -> int:
    """Print a table of the splits and all that cannot be used; return the exit status."""
    if not (paths_of := find(folder, source, target)):
        names = f"train.{source} and train.{target}, or train.tsv"
        raise InputError(f"{folder}: expected files such as {names}, got none. Check --source and --target.")
    splits: Splits = {}
    problems = [f"{folder}: expected a split {name}, got none." for name in ("train", "valid") if name not in paths_of]
    if not paths_of.keys() - {"train", "valid"}:
        problems.append(f"{folder}: expected a test split beside train and valid, got none.")
    for name, paths in paths_of.items():
        try:
            splits[name] = read(paths)
        except InputError as problem:
            problems.append(str(problem))
    splits = with_links(splits)
    say(f"{folder}: {source} → {target}", *table_lines([_row(name, splits) for name in splits]))
    say("words: mean of a sentence; repeated: pairs that stand above in the split; same: source and target are equal")
    say("source in train: without regard to case, blanks, zero-width marks and Unicode form")
    for name, pairs in splits.items():
        for remark in _remarks(pairs, source, target):
            say(f"{name}, {remark}")
    if problems:
        say(*(f"  {problem}" for problem in problems))
        print(f"study: {len(problems)} problems; training refuses this text until they are mended", file=sys.stderr)
        return 2
    flags = f"--data.name files --data.folder {folder} --data.source {source} --data.target {target}"
    say(f"content {content(splits)}: usable with {flags}")
    return 0


def _row(name: str, splits: Splits) -> dict[str, Any]:
    pairs = [(pair.source, pair.target) for pair in splits[name]]
    sources = {alike(pair.source) for pair in splits.get("train", splits[name])}
    return {
        "split": name,
        "pairs": len(pairs),
        "source words": mean_words(source for source, _ in pairs),
        "target words": mean_words(target for _, target in pairs),
        "repeated": len(pairs) - len(set(pairs)),
        "same": sum(source == target for source, target in pairs),
        "source in train": None if name == "train" else sum(alike(source) in sources for source, _ in pairs),
        "gold": "no" if splits[name][0].alignment is None else "yes",
    }


def _remarks(pairs: Sequence[Pair], source: str, target: str) -> Iterator[str]:
    """Yield remarks on what a reader does not see in a split, and on a first line that looks like a header."""
    for side, texts in (("source", [pair.source for pair in pairs]), ("target", [pair.target for pair in pairs])):
        yield from (f"{side}: {remark}" for remark in remarks(texts))
    first = pairs[0]
    if first.source.casefold() in HEADERS | {source} and first.target.casefold() in HEADERS | {target}:
        yield f"line 1: {first.source}, {first.target}. If it is a header, remove it."
