"""Cache folder, and generated corpora in it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter

from study import files
from study.corpora.corpus import Corpus

LARGEST = 2**30
"""Bytes of a cached corpus."""


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


def cached(kind: str, declared: str, generator: Path, generate: Callable[[], Corpus]) -> Corpus:
    """Return a generated corpus, from the cache if declaration and generator are unchanged.

    A file has the SHA-256 of the rest in its first line.
    """
    sources = [path.read_bytes() for path in sorted(generator.iterdir()) if path.is_file()]
    path = folder() / kind / f"{_sha256(b''.join([declared.encode(), *sources])).decode()}.json"
    with suppress(Exception):  # no file yet, or a damaged one, whose ways to fail have no end
        digest, _, body = files.read(path, LARGEST).partition(b"\n")
        if _sha256(body) == digest:
            return TypeAdapter(Corpus).validate_json(body)
    corpus = generate()
    body = TypeAdapter(Corpus).dump_json(corpus)
    put(path, _sha256(body) + b"\n" + body)
    return corpus


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
