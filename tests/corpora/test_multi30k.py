"""Multi30k: the reading of files, what a user can get wrong, and the real files where they are at hand."""

from __future__ import annotations

import gzip
import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from study.config import Multi30k
from study.corpora import Pair, multi30k, text
from study.errors import InputError


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "a.de.gz", tmp_path / "a.en"
    source.write_bytes(gzip.compress("Ein Hund \n\u2028Zwei,  Hünde.\n".encode()))
    target.write_bytes("A dog \n\u2028Two,  dogs.\n".encode())
    return source, target


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small files in place of the real ones, with checksums to match."""
    path = tmp_path / "corpus"
    path.mkdir()
    for name in multi30k.SHA256:
        (path / name).write_bytes(gzip.compress(f"{name}\n".encode(), mtime=0))
        monkeypatch.setitem(multi30k.SHA256, name, hashlib.sha256((path / name).read_bytes()).hexdigest())
    monkeypatch.delenv("STUDY_MULTI30K", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


def refused(action: object, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        action()  # type: ignore[operator]
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in parts), message


def test_sentences_are_kept_as_they_are(sides: tuple[Path, Path]) -> None:
    pairs = text.read_sides(*sides)
    assert [(p.source, p.target) for p in pairs] == [
        ("Ein Hund ", "A dog "),
        ("\u2028Zwei,  Hünde.", "\u2028Two,  dogs."),
    ]


def test_bad_files_are_refused(sides: tuple[Path, Path], tmp_path: Path) -> None:
    source, target = sides
    bad = tmp_path / "bad"
    for content, reason in (
        (b"one\n", "1"),
        (b"", "empty"),
        (b"caf\xe9\n", "UTF-8"),
        (b"\x1f\x8bxx", "cannot be read"),
    ):
        bad.write_bytes(content)
        refused(lambda: text.read_sides(source, bad), str(bad), "expected" if reason != "1" else "one sentence")
        refused(lambda: text.read_sides(bad, target), reason)
    refused(lambda: text.read_sides(source, tmp_path / "none"), "no such file")


def test_a_folder_is_looked_up_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STUDY_MULTI30K", str(tmp_path / "none"))
    corpus = multi30k.read(Multi30k(folder=str(folder)))
    assert corpus.splits["valid"][0] == Pair("val.de.gz", "val.en.gz")
    assert corpus.files == multi30k.SHA256
    refused(lambda: multi30k.read(Multi30k()), "STUDY_MULTI30K: expected a folder with")
    monkeypatch.setenv("STUDY_MULTI30K", str(folder))
    assert multi30k.read(Multi30k()).tests == ["test_2016_flickr", "test_2017_flickr"]


def test_a_bad_folder_is_refused(folder: Path) -> None:
    data = Multi30k(folder=str(folder))
    (folder / "val.en.gz").write_bytes(b"other")
    refused(lambda: multi30k.read(data), "val.en.gz", "expected SHA-256")
    (folder / "val.en.gz").unlink()
    refused(lambda: multi30k.read(data), "val.en.gz", "data.folder: expected a folder with")
    refused(lambda: multi30k.read(Multi30k(folder=str(folder / "train.de.gz"))), "data.folder: expected a folder")


@pytest.fixture
def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A server of the folder on this machine, in place of the real one; the paths that it was asked for."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_request(self, *_: object) -> None:
            asked.append(self.path)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(multi30k, "ADDRESS", f"http://127.0.0.1:{server.server_port}")
    yield asked
    server.shutdown()
    server.server_close()


def test_downloads_are_checked_and_kept(folder: Path, served: list[str]) -> None:
    good = (folder / "val.de.gz").read_bytes()
    (folder / "val.de.gz").write_bytes(b"cut")
    refused(lambda: multi30k.read(Multi30k()), "Multi30k: val.de.gz", "hash")
    assert sorted(path.name for path in multi30k.cache().iterdir()) == ["train.de.gz", "train.en.gz"]
    assert not Multi30k().at_hand()
    (folder / "val.de.gz").unlink()
    refused(lambda: multi30k.read(Multi30k()), "Multi30k: val.de.gz", "404 Client Error", "Connect")
    (folder / "val.de.gz").write_bytes(good)
    assert len(multi30k.read(Multi30k()).splits) == 4
    assert sorted(path.name for path in multi30k.cache().iterdir()) == sorted(multi30k.SHA256)
    assert Multi30k().at_hand()
    multi30k.read(Multi30k())
    assert len(served) == 3 + 1 + 6


def test_no_network_and_no_place_are_told(
    folder: Path, served: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(multi30k, "ADDRESS", "http://127.0.0.1:9")  # the port of `discard`, where nobody listens
    refused(
        lambda: multi30k.read(Multi30k()),
        "Connection refused",
        "STUDY_MULTI30K",
    )
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    refused(lambda: multi30k.read(Multi30k()), "expected a download")
    assert served == []


def test_the_real_files() -> None:
    place = os.environ.get("STUDY_MULTI30K")
    if place is None:
        pytest.skip("the Multi30k files are not at hand; set STUDY_MULTI30K to their folder")
    corpus = multi30k.read(Multi30k(folder=place))
    sizes = {name: len(split) for name, split in corpus.splits.items()}
    assert sizes == {"train": 29000, "valid": 1014, "test_2016_flickr": 1000, "test_2017_flickr": 1000}
    assert not any("\n" in pair.source + pair.target for pair in corpus.splits["train"])


def test_what_is_no_text_of_sentences_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "LARGEST", 10_000)
    target = tmp_path / "target"
    target.write_text("a\n")
    (tmp_path / "mark").write_bytes(b"\xef\xbb\xbfein\n")
    assert text.read_sides(tmp_path / "mark", target)[0].source == "ein"  # a BOM would shift every link by a word
    (tmp_path / "null").write_bytes(b"ein\0\n")
    (tmp_path / "return").write_bytes(b"ein\r\nzwei\rdrei\n")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "bomb").write_bytes(gzip.compress(bytes(text.LARGEST + 1), 1))
    (tmp_path / "windows").write_bytes(b"ein\r\n")
    assert text.read_sides(tmp_path / "windows", target)[0].source == "ein"
    returned = ("return", "return:2: expected one sentence per line, got a carriage return")
    for name, reason in (
        ("null", "null:1: expected one sentence per line, got a null byte"),
        returned,
        ("pipe", "got a pipe"),
        ("bomb", "MiB of text, got more"),
    ):
        with pytest.raises(InputError, match=reason):
            text.read_sides(tmp_path / name, target)
