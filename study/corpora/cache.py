"""Cache folder, and generated corpora in it."""

import hashlib
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter

from study import files
from study.corpora.corpus import Corpus
from study.errors import InputError

LARGEST = 2**30
"""Bytes of a file of the cache."""


def folder() -> Path:
    """$XDG_CACHE_HOME or ~/.cache, /attention-ablation; for a user without a home, a folder beside temporary files."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # HOME is not set, and the user is in no list of users, as in many containers
        base = Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"
    return base / "attention-ablation"


def put(path: Path, content: bytes) -> None:
    """Write a file of the cache whole or not at all. A cache that cannot be written costs time, not correctness.

    A file has the SHA-256 of the rest in its first line.
    """
    with suppress(OSError):
        files.write(path, _sha256(content) + b"\n" + content, durable=False)


def kept(path: Path) -> bytes | None:
    """Return what `put` wrote into a file of the cache; None if there is none, or another content."""
    with suppress(OSError, InputError):
        digest, _, content = files.read(path, LARGEST).partition(b"\n")
        return content if _sha256(content) == digest else None
    return None


def cached(kind: str, declared: str, generator: Path, generate: Callable[[], Corpus]) -> Corpus:
    """Return a generated corpus, from the cache if declaration and generator are unchanged."""
    sources = [path.read_bytes() for path in sorted(generator.iterdir()) if path.is_file()]
    path = folder() / kind / f"{_sha256(b''.join([declared.encode(), *sources])).decode()}.json"
    if (content := kept(path)) is not None:
        with suppress(ValueError):
            return TypeAdapter(Corpus).validate_json(content)
    corpus = generate()
    put(path, TypeAdapter(Corpus).dump_json(corpus))
    return corpus


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
