"""Runs are found by their id, working or published, with the files beside their records."""

import hashlib
import json
from pathlib import Path

import pandas as pd
import pytest
from tiny_sweep import MAP

from study import files
from study.errors import InputError
from study.scores.score import RecordedScore
from study.store import records, tables
from study.store.folder import Store
from study.store.records import Record
from study.store.rows import COUNTS

FILES = ("test.hyp.txt", "test.nll.txt", "attention.json")
HISTORY = [
    {"step": 4, "tokens": 100, "valid_loss": 2.5, "valid_aer": None, "diagnostics": {"cross": {"entropy": 0.5}}},
    {"step": 8, "tokens": 200, "valid_loss": 1.25, "valid_aer": 0.25, "diagnostics": {"cross": {"entropy": 0.25}}},
]


def sha(content):
    return hashlib.sha256(content).hexdigest()


def record(seed, **facts):
    config = {"seed": seed, "training": {"steps": 3}, "data": {"name": "grammar"}}
    known = {"protocol": 1, "id": f"grammar-recurrent-dot-0123abcd-s{seed}", "status": "finished", "seed": seed}
    return Record(config=config, config_hash="0123abcd" * 8, **(known | facts))


@pytest.fixture
def working(tmp_path):
    """Two runs of one arm, and one that was interrupted."""
    for seed in (1, 2):
        scores = [RecordedScore(split="test", metric=m, value=99.5, n=3, signature="x") for m in ("bleu", "exact")]
        one = record(seed, scores=scores, history=HISTORY)
        folder = tmp_path / "runs" / one.id
        files.write(folder / "record.json", records.dumps(one))
        files.write(folder / "test.hyp.txt", f"ein Hund\n\nseed {seed}\n")
        files.write(folder / "test.nll.txt", "0.5\n12.34567\n1.234567e-05\n")
        files.write(folder / "attention.json", json.dumps(MAP) + "\n")
    (tmp_path / "runs" / "started-s1").mkdir()
    (tmp_path / "runs" / "started-s1" / "checkpoint.ckpt").touch()
    return Store(tmp_path / "runs")


@pytest.fixture
def published(working, tmp_path):
    """The same two runs in tables, added one after the other, the later one first."""
    for identity in reversed(working.ids()):
        files = {name: working.content(identity, name) for name in FILES}
        run = tables.NewRun(json.loads(working.text(identity)), files, {"test": {"exact": [False, False, True]}})
        tables.add(tmp_path / "published", [run], {"one": {identity: f"arm of {identity}"}})
    return Store(tmp_path / "published")


@pytest.mark.parametrize("kind", ["working", "published"])
def test_runs_are_found_by_id(kind, working, request):
    store = request.getfixturevalue(kind)
    first, second = store.ids()
    assert (first, second) == (record(1).id, record(2).id)
    assert store.record(second).scores[1].value == 99.5
    assert store.record(second).history == HISTORY
    assert store.hypotheses(second, "test") == ["ein Hund", "", "seed 2"]
    assert store.content(first, "long.hyp.txt") is None
    assert store.attention(first) == MAP
    assert [store.state(name) for name in (first, "absent-s1")] == ["finished", "missing"]
    assert (first in store, "absent-s1" in store) == (True, False)
    for identity in working.ids():
        assert store.text(identity) == working.text(identity)
        assert [store.content(identity, name) for name in FILES] == [working.content(identity, n) for n in FILES]
    with pytest.raises(InputError, match="absent-s1"):
        store.record("absent-s1")
    with pytest.raises(InputError, match=r"long.hyp.txt: expected translations"):
        store.hypotheses(first, "long")


def test_frames_of_working_and_published_runs_agree(published, working):
    for frame in ("scores", "curves"):
        ours, theirs = getattr(published, frame), getattr(working, frame)
        ours = ours.astype({"id": str}).sort_values("id", kind="stable")  # parts stand as they were published
        assert ours.astype(object).where(ours.notna(), None).values.tolist() == (
            theirs.astype(object).where(theirs.notna(), None).values.tolist()
        )
    for name in ("id", "arm", "seed", "training.steps", "config_hash"):
        assert published.runs[name].tolist() == working.runs[name].tolist()
    assert [list(labels) for labels in published.runs.labels] == [[f"arm of {record(n).id}"] for n in (1, 2)]


@pytest.mark.parametrize("history", [HISTORY, [{"step": 1, "heads": [[0.5]]}], [{"step": 1, "tokens": 1.5}], []])
def test_all_files_of_a_run_come_back_as_they_were_written(published, history):
    """Whole numbers, null, nested sections, a list."""
    one = record(3, history=history, scores=[RecordedScore(split="test", metric="bleu", value=1.0, n=2)])
    curve = b'{"step": 20, "train/loss": 2.5, "train/lr": 0.001}\n{"step": 40, "train/loss": 2.25, "train/lr": 0.002}\n'
    maps = b'{"step": 4, "weights": [[1.0]]}\n{"step": 8, "weights": [[0.5]]}\n'
    files = {"training.jsonl": curve, "maps.jsonl": maps, "test.hyp.txt": b"a b\n"}
    counts = {name: [number] for name, number in zip(COUNTS, (2, True, 3, 3, 3, 2, 1, 0), strict=True)}
    tables.add(published.folder, [tables.NewRun(json.loads(records.dumps(one)), files, {"test": counts})], {})
    store = Store(published.folder)
    assert store.text(one.id) == records.dumps(one)
    assert {name: store.content(one.id, name) for name in files} == files
    assert store.counts(one.id, "test") == [(2, 1, 3, 3, 3, 2, 1, 0)]
    assert store.frame("maps", ["id", "file", "step"]).query("id == @one.id").step.tolist() == [4, 8]
    assert store.curves.query("name == 'train/loss'").value.tolist() == [2.5, 2.25]


def test_published_records_and_files_are_those_that_runs_wrote():
    """Records have their SHA-256, one of each sweep; so have the translations and NLL of some runs of each corpus."""
    store = Store(Path(__file__).parents[1] / "results")
    runs = store.runs
    assert len(runs) >= 1688
    some = runs.groupby(runs["sweeps"].map(" ".join)).head(1).itertuples()
    assert [one.id for one in some if sha(store.text(one.id).encode()) != one.sha256] == []
    for one in runs.groupby("corpus").head(2).itertuples():
        tree = store.tree(one.id)
        named = {score["hypotheses"]: score["hypotheses_sha256"] for score in tree["scores"] if score["hypotheses"]}
        for name, digest in (named | tree.get("per_sentence", {})).items():
            assert sha(store.content(one.id, name)) == digest, (one.id, name)


def test_what_a_stranger_may_write_beside_a_record(working):
    name = record(1).id
    (working.folder / name / "attention.json").write_text(
        json.dumps(MAP | {"weights": [[10**300, 0.75, 0], [0, 0, 1]]})
    )
    assert [type(weight) for weight in working.attention(name)["weights"][0]] == [float] * 3
    (working.folder / name / "test.hyp.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"test\.hyp\.txt: expected UTF-8"):
        working.hypotheses(name, "test")
    assert working.state("started-s1") == "started"


def test_a_publication_adds_parts_and_rewrites_none(published):
    """Results only grow; a part without its runs, as an interrupted call leaves it, does not count and is replaced."""
    before = {path: path.read_bytes() for path in published.folder.rglob("*.parquet")}
    assert {path.name for path in before} == {"0001.parquet", "0002.parquet"}
    files.write(published.folder / "scores" / "0003.parquet", (published.folder / "scores/0001.parquet").read_bytes())
    left = Store(published.folder)
    assert left.scores["id"].value_counts().to_dict() == {record(1).id: 2, record(2).id: 2}
    new = record(3, scores=[RecordedScore(split="test", metric="bleu", value=1.0, n=2)])
    run = tables.NewRun(json.loads(records.dumps(new)), {"test.hyp.txt": b"a\n"}, {})
    tables.add(published.folder, [run], {"two": {new.id: "new", record(1).id: "old"}})
    assert {path: path.read_bytes() for path in before} == before
    store = Store(published.folder)
    assert store.scores["id"].value_counts().to_dict() == {record(1).id: 2, record(2).id: 2, new.id: 1}
    assert [list(sweeps) for sweeps in store.runs.sweeps] == [["one", "two"], ["one"], ["two"]]
    read = pd.read_parquet(published.folder / "runs")
    assert [sha(text.encode()) for text in read.record] == read.sha256.tolist()
    assert len(pd.read_parquet(published.folder / "sentences" / "grammar")) == 7
    tables.add(published.folder, [run], {"two": {new.id: "new"}})  # all is there: nothing is written
    assert len([*published.folder.rglob("*.parquet")]) == len(before) + 6


def test_a_damaged_page_is_refused(published):
    path = published.folder / "runs" / "0001.parquet"
    content = bytearray(path.read_bytes())
    place = content.find(b"\x28\xb5\x2f\xfd") + 12  # in the first compressed page
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"0001.parquet: expected a Parquet file of the study"):
        Store(published.folder).runs  # noqa: B018
