"""Identities are pinned: everything published is found by them."""

import pytest
from pydantic import Field

from study.config import Experiment, config_hash, experiment_from, experiment_id
from study.config.experiment import Training

GOLDEN = {
    "recurrent": "f8eb0603b61deba4b979c031b9a9066ea5ad45b1249e7736d93ff4e23777643c",
    "transformer": "58eb1d999982e2ec84f5a73f81eba90ee04f0a214a0357dde3b274174db58637",
}
ID = "grammar-recurrent-dot-f8eb0603"
FIRST = {
    "recurrent": "91aab5262b4d0b620affff18b6f0bad1cf1ca8434d3a737208ecedb85804cd89",
    "transformer": "81c8165c0b28260962687a55eeaa34d2a22dce42301dd7e18e45ae6e81f46395",
}
"""Under protocol 1."""


@pytest.mark.parametrize("family", GOLDEN)
def test_the_defaults_keep_their_identity(family: str) -> None:
    experiment = experiment_from({"model.family": family})
    assert config_hash(experiment) == GOLDEN[family], "published runs would not be found; raise PROTOCOL instead"
    assert experiment_id(experiment) == f"grammar-{family}-dot-{GOLDEN[family][:8]}-s1"
    assert config_hash(experiment_from({"model.family": family, "protocol": 1})) == FIRST[family]


@pytest.mark.parametrize(
    "derived",
    [
        {"model.attention.cross.scale": "rsqrt", "model.encoder_width": 64},
        {"model.attention.maps": "raw", "model.attention.cross.heads": 1},
        {"model.attention.additive_width": None, "data.name": "grammar"},
        {"model.family": "transformer", "model.attention.key_width": 16, "model.feedforward": 256},
    ],
    ids=str,
)
def test_a_derived_value_that_is_given_changes_nothing(derived: dict[str, object]) -> None:
    assert config_hash(experiment_from(derived)) == GOLDEN[str(derived.get("model.family", "recurrent"))]


def test_what_decides_no_number_is_not_hashed() -> None:
    here = {"trainer.device": "cpu", "trainer.devices": 2, "trainer.threads": 3, "out": "elsewhere", "seed": 2}
    other = here | {"tracking.project": "p", "tracking.tags": ["a"]}
    assert config_hash(experiment_from(other)) == GOLDEN["recurrent"]
    assert experiment_id(experiment_from(other)) == f"{ID}-s2"
    one, there = (experiment_from({"data.name": "multi30k", "data.folder": folder}) for folder in (None, "there"))
    assert config_hash(one) == config_hash(there) != GOLDEN["recurrent"]


@pytest.mark.parametrize("field", ["model.dropout", "decoding.length_penalty", "training.label_smoothing"])
def test_a_negative_zero_is_zero(field: str) -> None:
    zero, negative = (experiment_from({field: value}) for value in (0.0, -0.0))
    assert config_hash(zero) == config_hash(negative) != GOLDEN["recurrent"]
    assert str(negative.model_dump(mode="json")) == str(zero.model_dump(mode="json"))


def test_what_decides_a_number_is_hashed() -> None:
    fields = {"model.width": 32, "training.steps": 1501, "decoding.beam": 1, "data.seed": 1, "protocol": 1}
    fields |= {"model.attention.scale": "none", "training.precision": "bfloat16"}
    hashes = {config_hash(experiment_from({name: value})) for name, value in fields.items()}
    assert len({*hashes, GOLDEN["recurrent"]}) == len(fields) + 1


def with_training(training: Training) -> str:
    return config_hash(Experiment().model_copy(update={"training": training}))


def test_a_new_field_at_its_default_leaves_old_identities_alone() -> None:
    class Newer(Training):
        decay: float = Field(0.0)
        window: int | None = Field(None)

    assert with_training(Newer()) == GOLDEN["recurrent"]
    assert len({with_training(Newer()), with_training(Newer(decay=0.1)), with_training(Newer(window=3))}) == 3


def test_a_changed_default_keeps_old_identities_through_the_introduced_one() -> None:
    class Changed(Training):
        steps: int = Field(3000, json_schema_extra={"introduced": 1500})

    assert with_training(Changed(steps=1500)) == GOLDEN["recurrent"]
    assert with_training(Changed()) == with_training(Training(steps=3000))
