"""Runs are found by their id, working or published, with the files beside their records."""

import json

import pytest

from study import records
from study.errors import InputError
from study.records import Record
from study.store import Store

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
        records.write(folder / "record.json", records.dumps(one))
        records.write(folder / "test.hyp.txt", f"ein Hund\n\nseed {seed}\n")
        records.write(folder / "attention.json", json.dumps(MAP) + "\n")
    (tmp_path / "runs" / "started-s1").mkdir()
    (tmp_path / "runs" / "started-s1" / "checkpoint.ckpt").touch()
    return Store(tmp_path / "runs")


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
    with pytest.raises(InputError, match=r"no translations of long"):
        store.hypotheses(first, "long")


def test_working_runs_are_found_by_id(working):
    check(working)
    assert working.state("started-s1") == "started"


@pytest.mark.parametrize(
    "changes",
    [{"gold": [[1]]}, {"gold": [[5, 0]]}, {"weights": ["ab"]}, {"weights": [[1.0]]}, {"target": 3}, {"layer": 1.5}],
)
def test_a_map_of_another_shape_is_refused(working, changes):
    name = record(1).id
    (working.folder / name / "attention.json").write_text(json.dumps(MAP | changes))
    with pytest.raises(InputError, match=r"attention\.json: expected source"):
        working.attention(name)


def test_translations_that_are_no_text_are_refused(working):
    name = record(1).id
    (working.folder / name / "test.hyp.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"test\.hyp\.txt: not UTF-8"):
        working.hypotheses(name, "test")
