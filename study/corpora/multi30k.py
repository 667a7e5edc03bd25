"""Multi30k German→English, task 1, raw text: read from a folder, or downloaded once and kept in a cache.

The text is for research and education and is never part of this project; cite Elliott, Frank, Sima'an and Specia 2016
(W16-3210) and Elliott et al. 2017 (W17-4718). Every file is checked against its SHA-256 wherever it comes from.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from study import files
from study.corpora.cache import folder
from study.corpora.corpus import SUBWORDS, VERSION, Corpus, Section, derive_vocabulary
from study.corpora.text import LARGEST, read_sides
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
UNPACKED = {
    "train.de.gz": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en.gz": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "val.de.gz": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en.gz": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "test_2016_flickr.de.gz": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en.gz": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2017_flickr.de.gz": "c3078bc3b36808bf9d20eb2347ed6137016179ef59ec0d2b9b8ecc3fb2880081",
    "test_2017_flickr.en.gz": "ce1450ddc5ab0834502579d77a170849952e15a2938b34cc503bdc25ebb4fb98",
}
"""Checksums of the same files unpacked."""
TIMEOUT = 60
"""Seconds without an answer after which a download is given up."""


class Multi30k(Section):
    """Multi30k German→English, task 1, raw text. Downloaded and checked, or read from a folder."""

    name: Literal["multi30k"] = Field("multi30k", description="Corpus or probe.")
    version: Literal[1] = Field(1, description=VERSION)
    folder: Name | None = Field(
        None, description="Folder with the corpus files (else $STUDY_MULTI30K, else the download cache)."
    )
    tokens: Literal["words", "subwords"] = Field("subwords", description="Unit of a token.")
    vocabulary: Size | None = Field(None, description=SUBWORDS)

    title: ClassVar[str] = "Multi30k"
    tier: ClassVar[str] = "multi30k"
    shipped: ClassVar[bool] = False

    @model_validator(mode="after")
    def _vocabulary(self) -> Self:
        derive_vocabulary(self)
        return self

    @property
    def subwords(self) -> int | None:
        return self.vocabulary

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
    """Return the corpus, with its two test splits; the sentences as they are.

    Its record names the checksums of the compressed files, also where it was read from unpacked ones: the text is one.

    Raises:
        InputError: a file is absent and cannot be downloaded, has a wrong checksum, or is not two equally long sides.
    """
    given = data.folder or os.environ.get("STUDY_MULTI30K")
    paths = _given(given, "data.folder" if data.folder else "STUDY_MULTI30K") if given else _downloaded()
    for name in SHA256:
        _check(name, paths[name])
    splits = {split: read_sides(paths[f"{stem}.de.gz"], paths[f"{stem}.en.gz"]) for split, stem in SPLITS.items()}
    return Corpus("multi30k", data.version, splits, files=dict(SHA256))


def _given(folder: str, origin: str) -> dict[str, Path]:
    """Return every file of a folder, compressed or unpacked, by its compressed name."""
    try:
        path = Path(folder).expanduser()
    except RuntimeError:
        raise InputError(
            f"{origin}: expected a folder with Multi30k, got {folder}, and there is no such user."
        ) from None
    if not path.is_dir():
        raise InputError(
            f"{origin}: expected a folder with {', '.join(SHA256)}, got {path}, which does not exist. "
            f"Correct it, or remove it to download the files."
        )
    found = {}
    for name in SHA256:
        forms = [one for one in (path / name, path / name.removesuffix(".gz")) if one.is_file()]
        if not forms:
            raise InputError(
                f"{origin}: expected all of {', '.join(SHA256)}, compressed or "
                f"unpacked, got no {path / name}. Copy it there, or remove {origin} to download it."
            )
        found[name] = forms[0]
    return found


def _check(name: str, path: Path) -> None:
    found, expected = _sha256(path), (SHA256 if path.name == name else UNPACKED)[name]
    if found != expected:
        raise InputError(
            f"{path}: expected SHA-256 {expected[:12]}…, got {found[:12]}…. "
            f"Delete the file and get it from {ADDRESS}/{name}"
        )


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(files.read(path, LARGEST)).hexdigest()
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror}). Check the file and your rights.") from None


def cache() -> Path:
    """Return the folder of downloads."""
    return folder() / "multi30k"


def _reason(problem: Exception) -> str:
    """Return the cause of a failed download in a few words: the system's error, the answer of the server, or a name."""
    system = re.findall(r"\[Errno -?\d+\] ([\w ]+)", str(problem))
    answer = re.match(r"\d{3} [^:]*", str(problem))
    return system[-1] if system else answer[0] if answer else type(problem).__name__


def _downloaded() -> dict[str, Path]:
    """Every file from the cache, those that are missing fetched first. pooch checks a file before it gets its name."""
    import pooch
    import requests

    kept = cache()
    missing = [name for name in SHA256 if not (kept / name).is_file()]
    pooch.get_logger().setLevel("WARNING")
    try:
        for i, name in enumerate(missing, start=1):
            print(f"Multi30k: downloading {name} ({i}/{len(missing)}) to {kept}", file=sys.stderr, flush=True)
            fetch = pooch.HTTPDownloader(timeout=TIMEOUT)
            pooch.retrieve(f"{ADDRESS}/{name}", SHA256[name], fname=name, path=kept, downloader=fetch)
    except requests.RequestException as problem:
        raise InputError(
            f"Multi30k: cannot be downloaded ({_reason(problem)}). Connect to the network, or set STUDY_MULTI30K to a "
            f"folder with the files. {name} is at {ADDRESS}/{name}"
        ) from None
    except OSError as problem:
        raise InputError(
            f"{kept}: cannot be written ({problem.strerror or problem}). "
            "Set XDG_CACHE_HOME to another folder, or STUDY_MULTI30K to a folder with the files."
        ) from None
    except ValueError:
        raise InputError(
            f"{ADDRESS}/{name}: expected SHA-256 {SHA256[name][:12]}…, got another. "
            "Try again, or set STUDY_MULTI30K to a folder with the files."
        ) from None
    return {name: kept / name for name in SHA256}
