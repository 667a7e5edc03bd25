"""The encoder–decoder that has the fields of a decoder-only arm."""

from collections.abc import Mapping
from typing import Any

from study.config.experiment import Experiment
from study.config.overrides import experiment_from
from study.errors import InputError

ENCODER_DECODER = {"model.family": "transformer", "model.layers": 1}
"""One layer in each half stands for two layers of the stack."""
CHOICE = "training.select"
"""The choice of the tested update, which may differ."""


def encoder_decoder(overrides: Mapping[str, Any]) -> Experiment | None:
    """Return the transformer that has these dotted fields at all of its sites, with one layer in each half.

    None if a field is one of the decoder-only family alone, such as `model.attention.joint.score`.
    """
    shared = {name: value for name, value in overrides.items() if name != CHOICE}
    try:
        return experiment_from(shared | ENCODER_DECODER)
    except InputError:
        return None
