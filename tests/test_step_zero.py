"""Step 0 of a published record is that of its seed; every published record is checked by hand (`step_zero.py`)."""

import step_zero

from study.store import Store


def test_step_zero_follows_from_the_seed() -> None:
    store = Store(step_zero.RESULTS)
    names = (name for name in store.ids() if name.startswith("grammar-transformer-dot-"))
    record = next(one for name in names if step_zero.has_start(one := store.record(name)))
    again = step_zero.recomputed(record)
    assert step_zero.differences(record, again) == []
    gradients = record.diagnostics["gradients"]
    gradients["start"] = {**gradients["middle"], "step": 0}  # of trained weights
    assert any("gradients.start.norm" in line for line in step_zero.differences(record, again))
