"""The spread over seeds of a sweep's runs, and its first answers to the claims that ask it."""

import pytest
import yaml
from claim_cases import CLAIM, SEEDS, Study

from study.claims import planning, predictions, schema
from study.scores.score import RecordedScore

VALID = {"dot": (80.0, 82.0, 81.0, 79.0, 83.0), "bilinear": (70.0, 74.0, 72.0, 71.0, 73.0)}
"""Variances 2.5 and 2.5: an sd of 1.58."""


def test_the_spread_of_a_sweep_and_its_first_answer(tmp_path, monkeypatch):
    made, text = Study(tmp_path), yaml.safe_dump({"claims": [CLAIM]})
    (tmp_path / "claims.yaml").write_text(text)
    monkeypatch.setattr(schema, "HERE", tmp_path / "claims.yaml")
    monkeypatch.setattr(planning, "sweeps_folder", lambda: tmp_path / "sweeps")
    monkeypatch.setattr(planning, "published", lambda: tmp_path / "none")
    pairs = ["grammar/recurrent"]
    assert planning.spreads(made.spec, planning.sources(made.runs), "test/exact", pairs) == {}, "no runs of two seeds"
    for score, values in VALID.items():
        for seed, value in zip(SEEDS, values, strict=True):
            more = [RecordedScore(split="valid", metric="exact", value=value, n=50)]
            made.write(score, 0.001, {seed: value}, more=lambda _, more=more: more)
    ((spread, told),) = planning.spreads(made.spec, planning.sources(made.runs), "test/exact", pairs).values()
    assert spread.sd == pytest.approx(2.5**0.5)
    assert told == f"valid/exact on grammar/recurrent: 2 arms with 5 seeds in {made.runs}"
    head, answer = planning.answers(made.spec, made.runs)
    assert head == "claim mine: dot beats bilinear"
    assert answer.startswith("  holds        +9.0 [")
    assert not planning.blind(made.spec)
    (tmp_path / "claims.yaml").write_text(text.replace("margin: 2", "margin: 2\n    blind: true"))
    assert planning.blind(made.spec), "a question asks that no test score is seen yet"
    (tmp_path / "claims.yaml").write_text(text.replace("sweep: wide", "sweep: other"))
    assert not planning.blind(made.spec)
    told = predictions.Predictions(sweeps=("other", "wide"), breaks=1.0, arms={}, blind=True)
    monkeypatch.setattr(predictions, "read", lambda: {"": told})
    assert planning.blind(made.spec), "so does a prediction for this sweep"
    assert list(planning.answers(made.spec, made.runs)) == []
