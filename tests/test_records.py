import json

import pytest

from study import files
from study.errors import InputError
from study.scores.score import RecordedScore
from study.store import records
from study.store.records import Record

TINY = Record(
    protocol=1,
    id="x-s1",
    status="finished",
    config={"z": 0.1234567890123, "a": {"ü": None}},
    config_hash="ab",
    seed=1,
    scores=[
        RecordedScore(split="test", metric="exact", value=2 / 3, n=3),
        RecordedScore(split="test", metric="bleu", value=None, n=3),
    ],
    history=[{"step": 1, "valid_loss": float("nan"), "valid_bleu": 12.3456789}],
)


def test_bytes_are_canonical_and_survive_a_round_trip(tmp_path):
    text = records.dumps(TINY)
    assert text.endswith("}\n")
    assert text == json.dumps(json.loads(text), sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    assert '"ü": null' in text
    assert '"z": 0.1234567890123' in text
    assert '"value": 0.666667' in text
    files.write(tmp_path / "run" / "record.json", text)
    assert records.dumps(records.read(tmp_path / "run" / "record.json")) == text
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["record.json"]


def test_nan_and_infinity_become_null():
    point = json.loads(records.dumps(TINY))["history"][0]
    assert point == {"step": 1, "valid_bleu": 12.3457, "valid_loss": None}
    assert records.rounded([float("inf"), (1.0, -float("inf"))]) == [None, [1.0, None]]
    assert TINY.score("test", "exact") == 2 / 3
    assert TINY.score("test", "exact", "length 4-7") is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": True}, "schema_version: expected 1 to 2, got True"),
        ({"schema_version": 99}, r"schema_version: expected 1 to 2, got 99\. Restore the record, or use the program"),
        ({"surplus": 1}, "surplus: .*changed by hand"),
        ({"scores": [{"split": "test"}]}, r"scores\.0\.metric: "),
        ({"config": {"score": "theirs.py:Score"}}, r"config\.score: expected a mechanism"),
    ],
)
def test_what_is_no_record_is_refused_with_file_and_field(tmp_path, change, said):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(json.loads(records.dumps(TINY)) | change))
    with pytest.raises(InputError, match=rf"record\.json: {said}") as refusal:
        records.read(path)
    assert "\n" not in str(refusal.value)


def test_a_record_of_version_1_is_migrated(tmp_path):
    tree = json.loads(records.dumps(TINY)) | {"schema_version": 1}
    del tree["per_sentence"]
    (tmp_path / "record.json").write_text(records.canonical(tree))
    assert records.read(tmp_path / "record.json") == Record.model_validate(json.loads(records.dumps(TINY)))


def test_what_cannot_be_looked_at_is_not_missing(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "run").mkdir()
    assert [records.state(tmp_path / name) for name in ("absent", "run")] == ["missing"] * 2
    (tmp_path / "run" / "record.json").mkdir()
    assert records.state(tmp_path / "run") == "unreadable"
    with pytest.raises(InputError, match="Is a directory"):
        records.read(tmp_path / "run" / "record.json")
    with pytest.raises(InputError, match="Not a directory"):
        records.state(tmp_path / "file")
