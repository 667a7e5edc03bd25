"""Step 0 of a published record is that of its seed. Claim 22 rests on it."""

from pathlib import Path

import pytest

from study.config import experiment_from
from study.store.folder import Store
from study.training.diagnostics import brief
from study.training.run import Run

RESULTS = Path(__file__).parents[1] / "results"
NEAR = {"rel": 2e-3, "abs": 1e-6}
"""Distance of equal numbers: they have four digits, and processors differ in the last."""


def numbers(tree, name=""):
    """Every number of a tree by its place."""
    if isinstance(tree, dict | list):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {place: x for key, below in items for place, x in numbers(below, f"{name}.{key}").items()}
    return {name: tree} if isinstance(tree, float | int) else {}


def test_step_zero_follows_from_the_seed(tmp_path):
    store = Store(RESULTS)
    names = (name for name in store.ids() if name.startswith("grammar-transformer-dot-"))
    gradients = (store.record(name) for name in names)
    record = next(one for one in gradients if one.diagnostics.get("gradients", {}).get("start", {}).get("step") == 0)
    task = Run(experiment_from(record.config, {"trainer": {"device": "cpu", "threads": 1}}), tmp_path, print).task
    task.measure_gradients("start")
    again, said = numbers(brief(task.gradients["start"])), numbers(record.diagnostics["gradients"]["start"])
    assert len(again) > 4
    assert {name: said[name] for name in again} == pytest.approx(again, **NEAR)  # older records have more measures
    trained = numbers(record.diagnostics["gradients"]["middle"])
    assert trained[".norm"] != pytest.approx(again[".norm"], **NEAR)
