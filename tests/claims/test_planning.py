"""Lines that a sweep prints of the claims that ask it: the power of its seeds, and first answers."""

import yaml
from claim_cases import CLAIM, SEEDS, Study

from study.analysis.power import power, seeds_for
from study.claims import planning, predictions, schema
from study.records import Score

VALID = {"dot": (80.0, 82.0, 81.0, 79.0, 83.0), "bilinear": (70.0, 74.0, 72.0, 71.0, 73.0)}
"""Variances 2.5 and 2.5: an sd of 1.58."""


def test_the_power_of_a_sweep_and_its_first_answer(tmp_path, monkeypatch):
    made, text = Study(tmp_path), yaml.safe_dump({"claims": [CLAIM]})
    (tmp_path / "claims.yaml").write_text(text)
    monkeypatch.setattr(schema, "HERE", tmp_path / "claims.yaml")
    monkeypatch.setattr(planning, "sweeps_folder", lambda: tmp_path / "sweeps")
    monkeypatch.setattr(planning, "published", lambda: tmp_path / "none")
    assert planning.power_lines(made.spec, made.runs) == [], "no run says how far seeds are apart"
    for score, values in VALID.items():
        for seed, value in zip(SEEDS, values, strict=True):
            more = [Score(split="valid", metric="exact", value=value, n=50)]
            made.write(score, 0.001, {seed: value}, more=lambda _, more=more: more)
    effect = 2 / 2.5**0.5
    told, line = planning.power_lines(made.spec, made.runs)
    assert told == "claim mine: superiority on grammar/recurrent, margin 2 in exact match, %"
    share, need = power("superiority", effect, 5), seeds_for("superiority", effect)
    assert line == f"  5 seeds have power {share:.2f}, 0.80 needs {need}: see `study plan --help`"
    head, answer = planning.answers(made.spec, made.runs)
    assert head == "claim mine: dot beats bilinear"
    assert answer.startswith("  holds        +9.0 [")
    (tmp_path / "claims.yaml").write_text(text.replace("margin: 2", "margin: 2\n    no_vote: a control"))
    assert planning.power_lines(made.spec, made.runs) == [], "a question without a vote plans nothing"
    assert not planning.blind(made.spec)
    (tmp_path / "claims.yaml").write_text(text.replace("margin: 2", "margin: 2\n    blind: true"))
    assert planning.blind(made.spec), "a question asks that no test score is seen yet"
    (tmp_path / "claims.yaml").write_text(text.replace("sweep: wide", "sweep: other"))
    assert not planning.blind(made.spec)
    told = predictions.Predictions(sweeps=("other", "wide"), breaks=1.0, arms={}, blind=True)
    monkeypatch.setattr(predictions, "read", lambda: told)
    assert planning.blind(made.spec), "so does a prediction for this sweep"
    assert list(planning.answers(made.spec, made.runs)) == []
