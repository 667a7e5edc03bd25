"""Step 0 of a published record is that of its seed; every published record is checked by hand (`step_zero.py`)."""

import step_zero

from study.store import Store


def test_step_zero_follows_from_the_seed() -> None:
    store = Store(step_zero.RESULTS)
    names = (name for name in store.ids() if name.startswith("grammar-transformer-dot-"))
    record = next(one for name in names if step_zero.has_start(one := store.record(name)))
    again = step_zero.recomputed(record)
    assert step_zero.differences(record, again) == []
    (layer, *_), gradients = record.diagnostics["cross"], record.diagnostics["gradients"]
    layer["logit_sd_step_0"] = layer["logit_sd"]  # of trained weights
    gradients["start"] = {**gradients["middle"], "step": 0}
    found = step_zero.differences(record, again)
    assert any("cross.0.logit_sd_step_0" in line for line in found)
    assert any("gradients.start.norm" in line for line in found)
