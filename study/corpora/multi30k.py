"""Multi30k German→English, task 1, raw text: read from a folder, or downloaded once and kept in a cache.

The text is for research and education and is never part of this project; cite Elliott, Frank, Sima'an and Specia 2016
(W16-3210) and Elliott et al. 2017 (W17-4718). Every file is checked against its SHA-256 wherever it comes from.
"""

import hashlib
import os
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from study.corpora import parallel
from study.corpora.cache import folder
from study.corpora.corpus import Corpus, First, Section, Unit, Vocabulary
from study.errors import InputError
from study.schema import Name

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
TIMEOUT = 60
"""Seconds without an answer after which a download is given up."""


class Multi30k(Section):
    """Multi30k German→English, task 1, raw text. Downloaded and checked, or read from a folder."""

    name: Literal["multi30k"] = Field("multi30k", description="Corpus or probe.")
    version: First = 1
    folder: Name | None = Field(
        None, description="Folder with the corpus files (else $STUDY_MULTI30K, else the download cache)."
    )
    tokens: Unit = "subwords"
    vocabulary: Vocabulary = None

    tier: ClassVar[str] = "multi30k"
    shipped: ClassVar[bool] = False

    @property
    def scored(self) -> tuple[str, ...]:
        return tuple(split for split in SPLITS if split != "train")

    def at_hand(self) -> bool:
        if self.folder or os.environ.get("STUDY_MULTI30K"):
            return True
        return all((cache() / name).is_file() for name in SHA256)

    def read(self) -> Corpus:
        """Return the corpus, with its two test splits; the sentences as they are.

        Raises:
            InputError: a file is absent and cannot be downloaded, or has a wrong checksum.
        """
        given = self.folder or os.environ.get("STUDY_MULTI30K")
        folder = Path(given).expanduser() if given else _downloaded()
        for name, expected in SHA256.items() if given else ():
            path, digest = folder / name, "none"
            if path.is_file():
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
            if digest != expected:
                raise InputError(
                    f"data.folder or STUDY_MULTI30K: expected {path} with SHA-256 {expected}, got {digest}. "
                    f"Get it from {ADDRESS}/{name}, or name no folder to download all files."
                )
        stems = {split: folder / stem for split, stem in SPLITS.items()}
        splits = {split: parallel.read((Path(f"{stem}.de.gz"), Path(f"{stem}.en.gz"))) for split, stem in stems.items()}
        return Corpus("multi30k", self.version, splits, files=dict(SHA256))


def cache() -> Path:
    """Return the folder of downloads."""
    return folder() / "multi30k"


def _downloaded() -> Path:
    """Return the cache with every file in it. pooch compares checksums and downloads what is missing or damaged."""
    import pooch
    import requests

    store = pooch.create(cache(), f"{ADDRESS}/", registry=SHA256)
    try:
        for name in SHA256:
            store.fetch(name, downloader=pooch.HTTPDownloader(timeout=TIMEOUT))
    except (requests.RequestException, OSError, ValueError) as problem:
        error = " ".join(str(problem).split())[-160:]
        raise InputError(
            f"Multi30k: {name}: expected a download from {ADDRESS} into {cache()}, got none ({error}). Connect to the "
            "network, or set STUDY_MULTI30K to a folder with the files."
        ) from None
    return cache()
