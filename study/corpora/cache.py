"""Cache folder, and generated corpora in it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from study import files
from study.corpora.corpus import Contrast, Corpus, Link, Pair

LARGEST = 2**30
"""Bytes of a cached corpus."""

Checksum = Callable[[list[Pair]], str]


def folder() -> Path:
    """$XDG_CACHE_HOME or ~/.cache, /attention-ablation; for a user without a home, a folder beside temporary files."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # HOME is not set, and the user is in no list of users, as in many containers
        base = Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"
    return base / "attention-ablation"


def put(path: Path, content: bytes) -> None:
    """Write a file of the cache whole or not at all. A cache that cannot be written costs time, not correctness."""
    with suppress(OSError):
        files.write(path, content, durable=False)


def cached(kind: str, declared: str, generator: Path, generate: Callable[[], Corpus], checksum: Checksum) -> Corpus:
    """Return a generated corpus, from the cache if declaration and generator are unchanged.

    The file and each split are compared with their checksums. The checksums of splits go into records.
    """
    path = folder() / kind / f"{_key(declared, generator)}.json"
    try:
        return _checked(files.read(path, LARGEST), checksum)
    except Exception:  # no file yet, or a damaged one, whose ways to fail have no end
        corpus = generate()
        put(path, _dump(corpus))
        return corpus


def _key(declared: str, generator: Path) -> str:
    digest = hashlib.sha256(declared.encode())
    for path in sorted(generator.iterdir()):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _dump(corpus: Corpus) -> bytes:
    """Return a line with the SHA-256 of the rest, then JSON."""
    splits = {name: [(p.source, p.target, p.alignment) for p in pairs] for name, pairs in corpus.splits.items()}
    contrasts = [(c.source, c.right, c.wrong, c.pair) for c in corpus.contrasts]
    head = {"name": corpus.name, "version": corpus.version, "files": corpus.files}
    body = json.dumps({**head, "splits": splits, "contrasts": contrasts}, ensure_ascii=False, separators=(",", ":"))
    return f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}".encode()


def _checked(content: bytes, checksum: Checksum) -> Corpus:
    """Return the corpus in a file of the cache.

    Raises:
        ValueError: the file or a split has another checksum than it says.
    """
    digest, _, body = content.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError("the file is not what was written")
    tree = json.loads(body)
    splits = {
        name: [Pair(source, target, tuple(Link(*link) for link in links)) for source, target, links in pairs]
        for name, pairs in tree["splits"].items()
    }
    if tree["files"] != {name: checksum(pairs) for name, pairs in splits.items()}:
        raise ValueError("a split is not what was generated")
    contrasts = [Contrast(*row) for row in tree["contrasts"]]
    return Corpus(tree["name"], tree["version"], splits, contrasts, tree["files"])
