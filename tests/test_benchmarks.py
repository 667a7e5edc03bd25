"""The benchmarks run: what they measure is not asserted here, but for bounds that hold by far."""

import importlib.util
import json
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch

from study.claims.schema import HERE, read

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)

    def module(name):
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        loaded = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, loaded)
        spec.loader.exec_module(loaded)
        return loaded

    return module


@pytest.mark.parametrize("family", ["transformer", "decoder_only"])
def test_throughput_compares_the_two_loops(load, family):
    ours, theirs, ratio = load("throughput").compare(
        family, "embedded", segments=2, segment=1
    )  # the first one warms up
    assert ratio == pytest.approx(ours / theirs)


def test_peak_memory_by_hand(load):
    def work():
        x = torch.zeros(1000, dtype=torch.float64)  # 8,000 bytes
        y = x + 1  # 16,000
        del x
        y.add_(y + 1)  # 16,000 again

    assert load("measure").peak_memory(work) == pytest.approx(16_000, abs=200)


def test_a_validations_diagnosis_is_one_pass(load, monkeypatch):
    """And the gradient at the source is another. What they take is measured; that they stay few is asserted."""
    task, _ = load("diagnostics").prepared("transformer", pairs=80)
    calls = []
    for name in ("encode", "decode"):
        method = getattr(task.model, name)

        def counted(*given, name=name, method=method):
            calls.append(name)
            return method(*given)

        monkeypatch.setattr(task.model, name, counted)
    works = load("diagnostics").parts(task)
    works["diagnosis"]()
    assert calls == ["encode", "decode"]
    works["gradient"]()
    assert calls == ["encode", "decode"] * 2
    assert len(task.diagnosed) <= 64


def test_the_tables_are_those_of_the_numbers(load):
    attention, written = load("attention"), json.loads((FOLDER / "attention.json").read_text(encoding="utf-8"))
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert page == load("page").page()
    assert [table["name"] for table in written["tables"]] == [table.__name__ for table in attention.TABLES]


def test_costs_are_measured_of_every_site_by_every_process(load, monkeypatch):
    cost = load("cost")
    monkeypatch.setattr(cost, "LENGTHS", (16,))
    monkeypatch.setattr(cost, "HEADS", {64: (1, 4)})
    sites = [one for group in cost.groups() for one in group]
    assert len(sites) == len(set(sites)) == 13
    found = cost.measure(1, 1)
    assert list(found) == sites


def test_margins_follow_from_the_runs_of_the_first_edition(load):
    """The slope of three arms by hand, and the values that the claims have."""
    margins = load("margins")
    arms = pd.DataFrame(
        {"place": ["a"] * 3, "bleu": [90.0, 92.0, 94.0], "nll": [3.0, 2.4, 2.2], "s_nll": [0.1, 0.5, 0.2]}
    )
    assert margins.worth(arms, "a", "nll") == 0.2  # (−2 · 3 + 2 · 2.2) / 8
    assert margins.spread(arms, "a") == 0.2
    assert margins.shown(0.2, 5) == pytest.approx((2.306 + 0.889) * 0.2 * 0.4**0.5, abs=1e-4)
    found, (bleu,) = margins.arms(), read(HERE).margins.values()
    for place, values in bleu.values.items():
        corpus = place if place.startswith("grammar") else "multi30k"
        for score, value in values.items():
            name = score.partition("/")[0]
            assert value == (1 if name == "bleu" else margins.worth(found, corpus, name))
