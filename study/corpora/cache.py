"""The folder for what can be made or fetched again, and generated corpora kept in it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from study.config import Grammar
from study.corpora.corpus import Contrast, Corpus, Link, Pair

GENERATOR = Path(__file__).parent / "grammar"


def folder() -> Path:
    """$XDG_CACHE_HOME or ~/.cache, /attention-ablation."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attention-ablation"


def put(path: Path, content: bytes) -> None:
    """Write a file of the cache whole or not at all. A cache that cannot be written costs time, not correctness."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError:
        pass


def cached(data: Grammar, generate: Callable[[Grammar], Corpus]) -> Corpus:
    """The generated corpus, from the cache where the section and every file of the generator are the same."""
    path = folder() / "grammar" / f"{_key(data)}.json"
    try:
        return _load(json.loads(path.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        corpus = generate(data)
        put(path, json.dumps(_dump(corpus), ensure_ascii=False, separators=(",", ":")).encode())
        return corpus


def _key(data: Grammar) -> str:
    generated = data.model_dump_json(include={"version", "lexicon", "train_pairs", "test_pairs", "seed"})
    digest = hashlib.sha256(generated.encode())
    for path in sorted(GENERATOR.iterdir()):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _dump(corpus: Corpus) -> dict[str, object]:
    splits = {name: [(p.source, p.target, p.alignment) for p in pairs] for name, pairs in corpus.splits.items()}
    contrasts = [(c.source, c.right, c.wrong, c.pair) for c in corpus.contrasts]
    head = {"name": corpus.name, "version": corpus.version, "files": corpus.files}
    return {**head, "splits": splits, "contrasts": contrasts}


def _load(tree: Any) -> Corpus:
    splits = {
        name: [Pair(source, target, tuple(Link(*link) for link in links)) for source, target, links in pairs]
        for name, pairs in tree["splits"].items()
    }
    contrasts = [Contrast(*row) for row in tree["contrasts"]]
    return Corpus(tree["name"], tree["version"], splits, contrasts, tree["files"])
