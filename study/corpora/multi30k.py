"""Multi30k German→English, task 1, raw text: read from a folder, or downloaded once and kept in a cache.

The text is for research and education and is never part of this project; cite Elliott, Frank, Sima'an and Specia 2016
(W16-3210) and Elliott et al. 2017 (W17-4718). Every file is checked against its SHA-256 wherever it comes from.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import os
import sys
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from study import files
from study.corpora.cache import folder
from study.corpora.corpus import Corpus, Pair, Section, derive_vocabulary
from study.errors import InputError
from study.schema import Name, Size

COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
ADDRESS = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw"
SPLITS = {
    "train": "train",
    "valid": "val",
    "test_2016_flickr": "test_2016_flickr",
    "test_2017_flickr": "test_2017_flickr",
}
"""Splits and the stems of their files."""
SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
}
"""Checksums of the compressed files."""
LARGEST = 2**28
"""Bytes of one side of a corpus, as it is and unpacked."""
TIMEOUT = 60
"""Seconds without an answer after which a download is given up."""


class Multi30k(Section):
    """Multi30k German→English, task 1, raw text. Downloaded and checked, or read from a folder."""

    name: Literal["multi30k"] = Field("multi30k", description="Corpus or probe.")
    version: Literal[1] = Field(1, description="Version of the reading of the files; part of the identity.")
    folder: Name | None = Field(
        None, description="Folder with the corpus files (else $STUDY_MULTI30K, else the download cache)."
    )
    tokens: Literal["words", "subwords"] = Field("subwords", description="Unit of a token.")
    vocabulary: Size | None = Field(
        None, description="Subword vocabulary, shared by both languages (derived: 8000 with subwords)."
    )

    title: ClassVar[str] = "Multi30k"
    tier: ClassVar[str] = "multi30k"

    @model_validator(mode="after")
    def _vocabulary(self) -> Self:
        derive_vocabulary(self, 8000)
        return self

    @property
    def scored(self) -> tuple[str, ...]:
        return tuple(split for split in SPLITS if split != "train")

    def at_hand(self) -> bool:
        if self.folder or os.environ.get("STUDY_MULTI30K"):
            return True
        return all((cache() / name).is_file() for name in SHA256)

    def read(self) -> Corpus:
        return read(self)


def read(data: Multi30k) -> Corpus:
    """The corpus, with its two test splits; the sentences as they are.

    Raises:
        InputError: a file is absent and cannot be downloaded, has a wrong checksum, or is not two equally long sides.
    """
    given = data.folder or os.environ.get("STUDY_MULTI30K")
    folder = _given(given, "data.folder" if data.folder else "STUDY_MULTI30K") if given else _downloaded()
    for name in SHA256:
        _check(folder / name)
    return Corpus(
        name="multi30k",
        version=data.version,
        splits={
            split: read_sides(folder / f"{stem}.de.gz", folder / f"{stem}.en.gz") for split, stem in SPLITS.items()
        },
        files=dict(SHA256),
    )


def read_sides(source: Path, target: Path) -> list[Pair]:
    """Sentence pairs from two files, one sentence a line, gzip or plain.

    Raises:
        InputError: a file is absent, unreadable, empty or not UTF-8, or they differ in length.
    """
    german, english = _lines(source), _lines(target)
    if len(german) != len(english):
        raise InputError(
            f"{source} has {len(german)} lines and {target} has {len(english)}; "
            "both sides need one sentence a line, in the same order: get both files anew"
        )
    return [Pair(*pair) for pair in zip(german, english, strict=True)]


def _lines(path: Path) -> list[str]:
    """Only the newline is taken off, and only a newline ends a sentence; a byte order mark is no part of the text."""
    try:
        content = files.read(path, LARGEST)
        if content[:2] == b"\x1f\x8b":
            with gzip.open(io.BytesIO(content)) as file:
                content = file.read(LARGEST + 1)
            if len(content) > LARGEST:
                raise InputError(f"{path} unpacks to more than {LARGEST // 2**20} MiB; give a smaller file")
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; expected a file with one sentence a line: check the folder") from None
    except UnicodeDecodeError as problem:
        raise InputError(
            f"{path} is not UTF-8 (byte {problem.start}); expected UTF-8 text, plain or gzip: convert it or get it anew"
        ) from None
    except (OSError, EOFError, zlib.error) as problem:
        raise InputError(f"cannot read {path} ({problem}); expected text, plain or gzip: get it anew") from None
    if "\0" in text:
        raise InputError(f"{path} has a null byte; expected text with one sentence a line: get it anew")
    if not text.strip():
        raise InputError(f"{path} is empty; expected one sentence a line: get it anew")
    return text.removesuffix("\n").split("\n")


def _given(folder: str, origin: str) -> Path:
    try:
        path = Path(folder).expanduser()
    except RuntimeError:
        raise InputError(f"the Multi30k folder {folder} ({origin}): there is no such user; mend {origin}") from None
    if not path.is_dir():
        raise InputError(
            f"the Multi30k folder {path} ({origin}) does not exist; expected one with {', '.join(SHA256)}: "
            f"mend {origin}, or leave it out to download them"
        )
    for name in SHA256:
        if not (path / name).is_file():
            raise InputError(
                f"{path / name} does not exist ({origin}); expected all of {', '.join(SHA256)}: "
                f"copy it there, or leave {origin} out to download them"
            )
    return path


def _check(path: Path) -> None:
    found = _sha256(path)
    if found != SHA256[path.name]:
        raise InputError(
            f"{path} has the wrong checksum: SHA-256 {found[:12]}…, expected {SHA256[path.name][:12]}…; "
            f"delete it and get it from {ADDRESS}/{path.name}"
        )


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(files.read(path, LARGEST)).hexdigest()
    except OSError as problem:
        raise InputError(f"cannot read {path} ({problem.strerror}); expected a readable file: mend it") from None


def cache() -> Path:
    """Where downloads are kept."""
    return folder() / "multi30k"


def _downloaded() -> Path:
    kept = cache()
    missing = [name for name in SHA256 if not (kept / name).is_file()]
    try:
        kept.mkdir(parents=True, exist_ok=True)
        for i, name in enumerate(missing, start=1):
            print(f"Multi30k: downloading {name} ({i}/{len(missing)}) to {kept}", file=sys.stderr, flush=True)
            _download(f"{ADDRESS}/{name}", kept / name)
    except OSError as problem:
        raise InputError(
            f"cannot write to {kept} ({problem.strerror}); expected a writable folder for downloads: "
            "set XDG_CACHE_HOME, or STUDY_MULTI30K to a folder with the files"
        ) from None
    return kept


def _download(address: str, path: Path) -> None:
    """Fetch, check, and only then give the file its name, so that a file of that name is always whole."""
    content = _fetch(address)
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[path.name]:
        raise InputError(
            f"{address} came with the wrong checksum: SHA-256 {found[:12]}…, expected {SHA256[path.name][:12]}…; "
            "try again, or set STUDY_MULTI30K to a folder with the files"
        )
    files.write(path, content)


def _fetch(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:
            content: bytes = answer.read()
            return content
    except (urllib.error.URLError, http.client.HTTPException, OSError) as problem:
        raise InputError(
            f"cannot download {address} ({problem}); expected network access or the files: "
            "connect, or set data.folder or STUDY_MULTI30K to a folder with them"
        ) from None
