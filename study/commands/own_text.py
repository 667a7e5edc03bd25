"""`study check FOLDER`: parallel text of a user's own, before training on it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from study.commands.options import say, table_lines
from study.corpora import mean_words
from study.corpora.parallel import Rows, content, find, read
from study.errors import InputError

SHOWN = 20
"""Problems that are printed without --all."""


def check(folder: Path, source: str, target: str, everything: bool) -> int:
    """Print a table of the splits and all that cannot be used; the exit status.

    Raises:
        InputError: the folder has no splits.
    """
    if not (found := find(folder, source, target)):
        names = f"train.{source} and train.{target}, or train.tsv"
        raise InputError(f"{folder}: expected files such as {names}, got none. Check --source and --target.")
    rows = {name: read(split) for name, split in found.items()}
    say(f"{folder}: {source} → {target}", *table_lines([_row(name, rows) for name in rows]))
    say("words: mean of a sentence; repeated: pairs that stand above in the split; same: source and target are equal")
    problems = [problem for one in rows.values() for problem in one.problems]
    problems += [f"{folder}: expected a split {name}, got none." for name in ("train", "valid") if name not in rows]
    if not rows.keys() - {"train", "valid"}:
        problems.append(f"{folder}: expected a test split beside train and valid, got none.")
    if problems:
        shown = problems if everything else problems[:SHOWN]
        rest = f"  and {len(problems) - len(shown)} more; --all lists them"
        say(*(f"  {problem}" for problem in shown), *[rest] * (len(shown) < len(problems)))
        print(f"study: {len(problems)} problems; training refuses this text until they are mended", file=sys.stderr)
        return 2
    flags = f"--data.name files --data.folder {folder} --data.source {source} --data.target {target}"
    say(f"content {content({name: one.pairs for name, one in rows.items()})}: usable with {flags}")
    return 0


def _row(name: str, rows: Mapping[str, Rows]) -> dict[str, Any]:
    pairs = [(pair.source, pair.target) for pair in rows[name].pairs]
    train = rows[name if "train" not in rows else "train"].pairs
    sources = {pair.source for pair in train}
    return {
        "split": name,
        "pairs": len(pairs),
        "source words": mean_words(source for source, _ in pairs),
        "target words": mean_words(target for _, target in pairs),
        "repeated": len(pairs) - len(set(pairs)),
        "same": sum(source == target for source, target in pairs),
        "source in train": None if name == "train" else sum(source in sources for source, _ in pairs),
        "gold": "yes" if pairs and rows[name].pairs[0].alignment is not None else "no",
        "problems": len(rows[name].problems),
    }
