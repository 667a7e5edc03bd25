"""The attention sites of a family, each resolved to one complete `Attention`.

What a user gives, `model.attention.*` for all sites and `model.attention.<site>.*` for one, is merged and laid over the
base arm of the family.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator

from study.config.attention import Attention
from study.config.mechanisms import SCORE
from study.config.refusals import SCORING, scores_matter
from study.schema import Frozen


class Sites(Frozen):
    """One complete attention per site of a family."""

    BASE: ClassVar[dict[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def _lay_out(cls, given: Any) -> Any:
        """Base arm of the family ← `model.attention.*` ← `model.attention.<site>.*`."""
        if not isinstance(given, dict):
            return given
        shared = {name: value for name, value in given.items() if name in Attention.model_fields}
        laid = {name: value for name, value in given.items() if name not in Attention.model_fields}
        for site in cls.model_fields:
            if isinstance(own := given.get(site) or {}, dict):
                laid[site] = cls._over_base(given, _set(shared), _set(own))
        return laid

    @classmethod
    def _over_base(cls, given: dict[str, Any], shared: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of one site.

        Drop inherited `maps` for a score that has none, unless no site uses them: then the site reports the error.
        """
        laid = {**cls.BASE, **shared, **own}
        if _content_free(laid.get("score")) and "maps" not in own:
            others = [given.get(site) for site in cls.model_fields]
            scores = [(_set(o) if isinstance(o, dict) else {}).get("score", shared.get("score")) for o in others]
            if "maps" not in shared or not all(map(_content_free, scores)):
                del laid["maps"]
        return laid


def _content_free(score: Any) -> bool:
    row = SCORE.find(score)
    return row is not None and row.content_free


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the given fields, without those left at None, which are derived."""
    return {name: value for name, value in fields.items() if value is not None}


def without_unused_scores(attention: dict[str, Any], slots: int | None, others: tuple[str, ...]) -> dict[str, Any]:
    """The fields with those that decide scores at all sites given to the `others` alone, if they mean nothing at cross.

    Args:
        attention: fields for all sites, and sections of fields for one.
        slots: number of slots that cross-attention looks at; None if the sentence decides.
        others: the other sites.
    """
    cross = attention.get("cross") or {}
    weights = cross.get("weights") or attention.get("weights") or "softmax" if isinstance(cross, dict) else ""
    if scores_matter(weights, slots):
        return attention
    shared = {name: attention[name] for name in SCORING if attention.get(name) is not None}
    rest = {name: value for name, value in attention.items() if name not in SCORING}
    for site in others:
        own = rest.get(site) or {}
        if shared and isinstance(own, dict):
            rest[site] = shared | _set(own)
    return rest


class RecurrentSites(Sites):
    """Attention of the recurrent family. Base arm: raw states, one head, nothing projected."""

    BASE: ClassVar[dict[str, Any]] = {"maps": "raw", "values": "raw", "output": "raw", "heads": 1}

    cross: Attention = Field(default_factory=lambda: Attention(**RecurrentSites.BASE))


class TransformerSites(Sites):
    """Attention of the transformer. Base arm: separate maps, projected values and output, four heads."""

    BASE: ClassVar[dict[str, Any]] = {"maps": "separate", "values": "projected", "output": "projected", "heads": 4}

    encoder_self: Attention | None = Field(default_factory=lambda: Attention(**TransformerSites.BASE))
    decoder_self: Attention = Field(default_factory=lambda: Attention(**TransformerSites.BASE))
    cross: Attention = Field(default_factory=lambda: Attention(**TransformerSites.BASE))
