"""Step 0 of published records is that of their seeds; every published record is checked by hand (`step_zero.py`)."""

import pytest
import step_zero

from study.store import Store

STORE = Store(step_zero.RESULTS)


@pytest.mark.parametrize("kind", ["grammar-recurrent-additive-", "grammar-transformer-dot-"])
def test_step_zero_follows_from_the_seed(kind: str) -> None:
    record = next(r for name in STORE.ids() if name.startswith(kind) and step_zero.has_start(r := STORE.record(name)))
    assert step_zero.differences(record) == []
    (layer, *_), gradients = record.diagnostics["cross"], record.diagnostics["gradients"]
    layer["logit_sd_step_0"] = layer["logit_sd"]  # of trained weights
    gradients["start"] = {**gradients["middle"], "step": 0}
    found = step_zero.differences(record)
    assert any("cross.0.logit_sd_step_0" in line for line in found)
    assert any("gradients.start.norm" in line for line in found)
