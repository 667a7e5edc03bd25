"""`study align RUN`: attention as a word alignment, in Pharaoh's format."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from study import files
from study.commands.options import RUNS, WHOLE, Parser, runs_folder
from study.commands.translate import load
from study.errors import InputError
from study.run_names import RUN

if TYPE_CHECKING:
    from study.corpora import Corpus, Pair
    from study.training.alignment import Row, Words
    from study.training.translation import Trained

DESCRIPTION = """\
Align the words of sentence pairs by the cross-attention of a trained model. The model reads both sentences (forced
decoding). The output has one line per pair, such as `0-0 2-1`: source word - target word, both counted from 0. Every
target word is linked to the source word that it attends to most. A word is a run of letters and digits, or one
punctuation mark.

The lines go to stdout or to --out. If the correct alignment is known, the alignment error rate (AER) and the attention
mass on the correct links go to stderr, by layer and head.
"""


class Place(NamedTuple):
    """Layer and head whose attention is read, and the reason for the choice."""

    layer: int
    head: int | None
    why: str


def main(argv: Sequence[str]) -> int:
    """Run the verb; the exit status.

    Raises:
        InputError: no such run, split, layer or head, files that cannot be used, or a memory without source tokens.
    """
    args = _parser().parse_args(argv)
    _check(args)
    trained = load(args.run, runs_folder(args.runs))
    from study.training.alignment import alignments, error_floor, gold_of, links, table
    from study.training.batches import examples
    from study.training.decode import fits

    own = args.source is not None
    corpus = None if own and args.layer is not None else _corpus(trained, own)
    if own:
        name, pairs = f"{args.source} – {args.target}", _files(args.source, args.target)
    else:
        assert corpus is not None
        name, pairs = _split(corpus, args.split)
    data = examples(pairs, trained.vocabulary)
    found = alignments(trained.model, data, trained.vocabulary)
    if not found:
        memory = trained.experiment.model.memory
        raise InputError(f"{args.run}: expected a memory of source tokens, got {memory}. Choose another run.")
    place = _place(trained, corpus, found, args.layer, args.head)
    lines = [pharaoh(links(reading.of(place.head))) for reading in found[place.layer]]
    gold = gold_of(data)
    if args.json:
        scores = [row._asdict() for row in table(found, gold)] if gold is not None else []
        floor = error_floor(data, gold) if gold is not None else None
        facts = {"data": name, **place._asdict(), "scores": scores, "aer_floor": floor, "links": lines}
        _write([json.dumps(facts, ensure_ascii=False, indent=1)], args.out)
        return 0
    _write(lines, args.out)
    said = [f"{name}: {len(data)} pairs, layer {place.layer}, {_head(place.head)} ({place.why})"]
    unread = sum(not fits(trained.model, example) for example in data)
    if unread:
        said.append(f"{unread} pairs are longer than the model can read; their lines are empty")
    if gold is not None:
        said += rows(table(found, gold), place, error_floor(data, gold))
    print("\n".join(said), file=sys.stderr)
    return 0


def _parser() -> Parser:
    parser = Parser(prog="study align", description=DESCRIPTION)
    add = parser.add_argument
    add("run", metavar="RUN", help=RUN)
    add("--split", metavar="NAME", help="split of the run's corpus (default: its first test split)")
    add("--source", type=Path, metavar="FILE", help="your own source sentences instead, one per line")
    add("--target", type=Path, metavar="FILE", help="their translations, one per line")
    add(
        "--layer",
        type=int,
        metavar="N",
        help="layer, from 0 (default: lowest AER on validation, else the last)",
    )
    add(
        "--head",
        type=_head_of,
        metavar="N",
        help="mean, a number from 0, or best: lowest AER on validation (default: mean)",
    )
    add("--out", type=Path, metavar="FILE", help="write the lines to this file")
    add("--json", action="store_true", help="print JSON: layer and head, AER and mass on gold of each, and all links")
    add("--runs", metavar="DIR", help=RUNS)
    return parser


def _head_of(text: str) -> int | str:
    if text in ("mean", "best"):
        return text
    if not WHOLE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected mean, best or a number from 0, got {text!r}")
    return int(text)


def _check(args: argparse.Namespace) -> None:
    if (args.source is None) != (args.target is None):
        raise InputError("--source, --target: expected both, got one. Give two files, one sentence per line.")
    if args.source is not None and args.split is not None:
        raise InputError("--split: expected without --source, got both. Remove one of them.")
    if args.layer is not None and args.head == "best":
        raise InputError("--layer: expected without --head best, which chooses the layer, got both. Remove --layer.")


def _corpus(trained: Trained, own: bool) -> Corpus:
    """Return the pairs to align, and the validation pairs that choose layer and head."""
    from study.corpora import load as read

    try:
        return read(trained.experiment.data)
    except InputError as problem:
        hint = " Or give --layer, which needs no validation pairs." if own else ""
        raise InputError(f"{problem}{hint}") from None


def _split(corpus: Corpus, split: str | None) -> tuple[str, list[Pair]]:
    name = split or corpus.tests[0]
    if name not in corpus.splits:
        raise InputError(f"--split: expected {_or(corpus.splits)}, got {name}.")
    return name, corpus.splits[name]


def _files(source: Path, target: Path) -> list[Pair]:
    """Read sentence pairs of the user, with plain white space."""
    from study.corpora import Pair
    from study.corpora.text import read_sides
    from study.training.translation import LONGEST

    pairs = [Pair(" ".join(p.source.split()), " ".join(p.target.split())) for p in read_sides(source, target)]
    for line, pair in enumerate(pairs, start=1):
        for path, text in ((source, pair.source), (target, pair.target)):
            if text.count(" ") >= LONGEST:
                raise InputError(f"{path}: line {line}: expected at most {LONGEST} words, got more. Split it.")
    return pairs


def _place(
    trained: Trained, corpus: Corpus | None, found: dict[int, list[Words]], layer: int | None, head: int | str | None
) -> Place:
    """Return the layer and head that were given, or those that are best on validation."""
    from study.training.alignment import alignments, choose
    from study.training.batches import examples

    if layer is not None and layer not in found:
        raise InputError(f"--layer: expected {_or(found)}, got {layer}.")
    heads = len(next(iter(found.values()))[0].weights)
    if isinstance(head, int) and head >= heads:
        raise InputError(f"--head: expected {_or(range(heads))}, got {head}.")
    number = head if isinstance(head, int) else None
    if layer is not None:
        return Place(layer, number, "as given")
    assert corpus is not None
    valid = examples(corpus.splits["valid"], trained.vocabulary)
    choice = choose(alignments(trained.model, valid, trained.vocabulary), valid)
    if choice is None and head == "best":
        raise InputError("--head: expected mean or a number, got best. Validation has no known alignment.")
    if choice is None:
        return Place(max(found), number, "the last layer; no correct alignment is known on validation")
    if head == "best":
        return Place(*choice.best, "the best head on validation")
    return Place(choice.layer, number, "the best layer on validation")


def pharaoh(links: Collection[tuple[int, int]]) -> str:
    """One line: {(0, 0), (2, 1)} ↦ `0-0 2-1`."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def _write(lines: list[str], out: Path | None) -> None:
    text = "".join(line + "\n" for line in lines)
    if out is None:
        sys.stdout.write(text)
        return
    try:
        files.write(out.resolve(), text)
    except OSError as problem:
        raise InputError(f"{out}: cannot be written ({problem.strerror}). Name another file with --out.") from None


def _or(values: Iterable[object]) -> str:
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


def _head(head: int | None) -> str:
    return "mean over heads" if head is None else f"head {head}"


def rows(scores: Sequence[Row], place: Place, floor: float) -> list[str]:
    """The table of layers and heads; an arrow marks what was written. The floor is what one link a word can reach."""
    lines = ["  layer  head    AER  mass on gold"]
    for row in scores:
        head, mass = "mean" if row.head is None else str(row.head), "–" if row.mass is None else f"{row.mass:.3f}"
        mark = "  ←" if (row.layer, row.head) == (place.layer, place.head) else ""
        lines.append(f"  {row.layer:>5}  {head:>4}  {row.aer:.3f}  {mass:>12}{mark}")
    return [*lines, f"  lowest possible AER with one link per target word: {floor:.3f}"]
