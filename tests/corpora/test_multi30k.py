"""Multi30k: the folder, the download, and the real files where they are at hand."""

import gzip
import hashlib
import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from study.config import Multi30k
from study.corpora import Pair, multi30k
from study.errors import InputError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Small files in place of the real ones, with checksums to match."""
    path = tmp_path / "corpus"
    path.mkdir()
    for name in multi30k.SHA256:
        (path / name).write_bytes(gzip.compress(f"{name}\n".encode(), mtime=0))
        monkeypatch.setitem(multi30k.SHA256, name, hashlib.sha256((path / name).read_bytes()).hexdigest())
    monkeypatch.delenv("STUDY_MULTI30K", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


def refused(action, *parts):
    with pytest.raises(InputError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert all(part in message for part in parts), message


def test_a_folder_is_looked_up_in_order_and_checked(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("STUDY_MULTI30K", str(tmp_path / "none"))
    data = Multi30k(folder=str(folder))
    corpus = data.read()
    assert corpus.splits["valid"][0] == Pair("val.de.gz", "val.en.gz")
    assert corpus.files == multi30k.SHA256
    refused(Multi30k().read, "STUDY_MULTI30K: expected", "train.de.gz with SHA-256", "got none")
    monkeypatch.setenv("STUDY_MULTI30K", str(folder))
    assert Multi30k().read().tests == ["test_2016_flickr", "test_2017_flickr"]
    (folder / "val.en.gz").write_bytes(b"other")
    refused(data.read, "val.en.gz with SHA-256", f"got {hashlib.sha256(b'other').hexdigest()}")


@pytest.fixture
def served(folder, monkeypatch):
    """A server of the folder on this machine, in place of the real one; the paths that it was asked for."""
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(multi30k, "ADDRESS", f"http://127.0.0.1:{server.server_port}")
    yield asked
    server.shutdown()
    server.server_close()


def test_downloads_are_checked_and_kept(folder, served):
    good = (folder / "val.de.gz").read_bytes()
    (folder / "val.de.gz").write_bytes(b"cut")
    refused(Multi30k().read, "Multi30k: val.de.gz", "hash")
    assert sorted(path.name for path in multi30k.cache().iterdir()) == ["train.de.gz", "train.en.gz"]
    assert not Multi30k().at_hand()
    (folder / "val.de.gz").unlink()
    refused(Multi30k().read, "Multi30k: val.de.gz", "404 Client Error", "Connect", "STUDY_MULTI30K")
    (folder / "val.de.gz").write_bytes(good)
    assert len(Multi30k().read().splits) == 4
    assert sorted(path.name for path in multi30k.cache().iterdir()) == sorted(multi30k.SHA256)
    assert Multi30k().at_hand()
    before = len(served)
    Multi30k().read()
    assert len(served) == before, "what is there is not fetched again"


def test_the_real_files():
    place = os.environ.get("STUDY_MULTI30K")
    if place is None:
        pytest.skip("the Multi30k files are not at hand; set STUDY_MULTI30K to their folder")
    corpus = Multi30k(folder=place).read()
    sizes = {name: len(split) for name, split in corpus.splits.items()}
    assert sizes == {"train": 29000, "valid": 1014, "test_2016_flickr": 1000, "test_2017_flickr": 1000}
    assert not any("\n" in pair.source + pair.target for pair in corpus.splits["train"])
