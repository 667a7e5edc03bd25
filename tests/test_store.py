"""Runs are found by their id, working or published, with the files beside their records."""

import io
import json
import tarfile

import pytest

from study import files, records
from study.errors import InputError
from study.records import Record, Score
from study.store import NewRun, Store

MAP = {
    "site": "cross",
    "layer": 0,
    "head": None,
    "source": ["a", "b"],
    "target": ["x"],
    "weights": [[0.25, 0.75]],
    "gold": [[1, 0]],
}


def record(seed, **facts):
    config = {"seed": seed, "training": {"steps": 3}}
    known = {"protocol": 1, "id": f"grammar-recurrent-dot-0123abcd-s{seed}", "status": "finished", "seed": seed}
    return Record(config=config, config_hash="0123abcd" * 8, **(known | facts))


@pytest.fixture
def working(tmp_path):
    """Two runs of one arm, and one that was interrupted."""
    for seed in (1, 2):
        one = record(seed)
        folder = tmp_path / "runs" / one.id
        files.write(folder / "record.json", records.dumps(one))
        files.write(folder / "test.hyp.txt", f"ein Hund\n\nseed {seed}\n")
        files.write(folder / "attention.json", json.dumps(MAP) + "\n")
    (tmp_path / "runs" / "started-s1").mkdir()
    (tmp_path / "runs" / "started-s1" / "checkpoint.ckpt").touch()
    return Store(tmp_path / "runs")


@pytest.fixture
def published(working, tmp_path):
    """The same two runs in the files of their arm, added one after the other."""
    store = Store(tmp_path / "published")
    for identity in reversed(working.ids()):
        names = ("test.hyp.txt", "attention.json")
        files = {name: working.content(identity, name) for name in names}
        store.add("grammar-recurrent-dot-0123abcd", [NewRun(json.loads(working.text(identity)), files)])
    return Store(tmp_path / "published")


def check(store):
    first, second = store.ids()
    assert (first, second) == (record(1).id, record(2).id)
    assert store.record(second) == record(2)
    assert store.hypotheses(second, "test") == ["ein Hund", "", "seed 2"]
    assert store.content(first, "test.hyp.txt") == b"ein Hund\n\nseed 1\n"
    assert store.content(first, "long.hyp.txt") is None
    assert store.attention(first) == MAP
    assert [store.state(name) for name in (first, "absent-s1")] == ["finished", "missing"]
    assert first in store
    assert "absent-s1" not in store
    with pytest.raises(InputError, match="absent-s1"):
        store.record("absent-s1")
    with pytest.raises(InputError, match=r"expected the translations long"):
        store.hypotheses(first, "long")


def test_working_runs_are_found_by_id(working):
    check(working)
    assert working.state("started-s1") == "started"


def test_published_runs_are_found_by_id_in_the_two_files_of_their_arm(published, working):
    check(published)
    names = ["grammar-recurrent-dot-0123abcd.json", "grammar-recurrent-dot-0123abcd.tar.xz"]
    assert sorted(path.name for path in published.folder.iterdir()) == names
    for identity in working.ids():
        assert published.text(identity) == working.text(identity)
        assert published.digests(identity) == working.digests(identity)
        assert published.names(identity) == ["attention.json", "test.hyp.txt"]


def test_published_files_are_plain_json_and_a_plain_tar(published):
    """One line for each score and each validation, so that a reader of a difference sees which one changed."""
    text = (published.folder / "grammar-recurrent-dot-0123abcd.json").read_text()
    assert [tree["id"] for tree in json.loads(text)] == published.ids()
    one = record(3, scores=[Score(split="test", metric=m, value=1.0, n=2) for m in ("bleu", "exact")])
    published.add("grammar-recurrent-dot-0123abcd", [NewRun(json.loads(records.dumps(one)))])
    longer = (published.folder / "grammar-recurrent-dot-0123abcd.json").read_text()
    assert longer.startswith(text.removesuffix("\n]\n"))
    assert [line.count('"metric"') for line in longer.splitlines() if '"metric"' in line] == [1, 1]
    with tarfile.open(published.folder / "grammar-recurrent-dot-0123abcd.tar.xz") as tar:
        assert [entry.name.partition(".")[2] for entry in tar] == ["attention.json"] * 2 + ["test.hyp.txt"] * 2


def test_a_path_in_an_archive_leads_nowhere(published):
    """Members are read by name, never unpacked onto the disk."""
    path = published.folder / "grammar-recurrent-dot-0123abcd.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        entry = tarfile.TarInfo("../outside")
        tar.addfile(entry, io.BytesIO())
        link = tarfile.TarInfo(f"{record(1).id}.test.hyp.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    store = Store(published.folder)
    assert store.foreign("grammar-recurrent-dot-0123abcd") == ["../outside"]
    assert store.content(record(1).id, "test.hyp.txt") is None


@pytest.mark.parametrize(
    "changes",
    [{"gold": [[1]]}, {"gold": [[5, 0]]}, {"weights": ["ab"]}, {"weights": [[1.0]]}, {"target": 3}, {"layer": 1.5}],
)
def test_a_map_of_another_shape_is_refused(working, changes):
    name = record(1).id
    (working.folder / name / "attention.json").write_text(json.dumps(MAP | changes))
    with pytest.raises(InputError, match=r"attention\.json: expected source"):
        working.attention(name)


def test_a_weight_of_many_digits_is_a_number(working):
    name = record(1).id
    (working.folder / name / "attention.json").write_text(json.dumps(MAP | {"weights": [[10**300, 0.75]]}))
    assert working.attention(name)["weights"] == [[1e300, 0.75]]
    assert type(working.attention(name)["weights"][0][0]) is float


def test_translations_that_are_no_text_are_refused(working):
    name = record(1).id
    (working.folder / name / "test.hyp.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"test\.hyp\.txt: expected UTF-8"):
        working.hypotheses(name, "test")
