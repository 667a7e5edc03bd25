"""The attention sites of a family, each resolved to one complete `Attention`.

What a user gives, `model.attention.*` for all sites and `model.attention.<site>.*` for one, is merged and laid over the
base arm of the family.
"""

from typing import Any, ClassVar, NamedTuple

from pydantic import Field, model_validator

from study.config.attention import AttentionConfig
from study.schema import Frozen


class Reads(NamedTuple):
    """Languages, `source` or `target`, whose tokens are queries and slots of a site."""

    queries: tuple[str, ...]
    slots: tuple[str, ...]


READS = {
    "encoder_self": Reads(("source",), ("source",)),
    "decoder_self": Reads(("target",), ("target",)),
    "cross": Reads(("target",), ("source",)),
    "joint": Reads(("source", "target"), ("source", "target")),
}
"""Every site of a family ↦ the languages that it reads."""
ALIGNING = tuple(site for site, reads in READS.items() if "target" in reads.queries and "source" in reads.slots)
"""Sites at which target tokens see source tokens. A model has one of them."""


class Sites(Frozen):
    """One complete attention per site of a family."""

    BASE: ClassVar[dict[str, Any]] = {}
    """Fields in which the base arm differs from the defaults of an attention."""

    @property
    def aligning(self) -> AttentionConfig:
        """The site at which target tokens see source tokens."""
        return next(site for name, site in self.present.items() if name in ALIGNING)

    @property
    def present(self) -> dict[str, AttentionConfig]:
        """The sites that the model has, by name."""
        return {name: site for name in type(self).model_fields if (site := getattr(self, name))}

    @model_validator(mode="before")
    @classmethod
    def _lay_out(cls, given: Any) -> Any:
        """Base arm of the family ← `model.attention.*` ← `model.attention.<site>.*`."""
        if not isinstance(given, dict):
            return given
        shared = {name: value for name, value in given.items() if name in AttentionConfig.model_fields}
        laid = {name: value for name, value in given.items() if name not in shared}
        for site in cls.model_fields:
            if isinstance(own := given.get(site) or {}, dict):
                fields = {name: value for part in (shared, own) for name, value in part.items() if value is not None}
                laid[site] = cls.BASE | fields
        return laid


class RecurrentSites(Sites):
    """Attention of the recurrent family. Base arm: raw states, one head, nothing projected."""

    BASE: ClassVar[dict[str, Any]] = {"maps": "raw", "values": "raw", "output": "raw"}

    cross: AttentionConfig = Field(default_factory=lambda: AttentionConfig(**RecurrentSites.BASE))


class TransformerSites(Sites):
    """Attention of the transformer. Base arm: separate QK projections, projected values and output, four heads."""

    BASE: ClassVar[dict[str, Any]] = {"heads": 4}

    encoder_self: AttentionConfig | None = Field(default_factory=lambda: AttentionConfig(**TransformerSites.BASE))
    decoder_self: AttentionConfig = Field(default_factory=lambda: AttentionConfig(**TransformerSites.BASE))
    cross: AttentionConfig = Field(default_factory=lambda: AttentionConfig(**TransformerSites.BASE))


class JointSites(Sites):
    """Attention of the decoder-only family: one site. Base arm: that of the transformer."""

    BASE: ClassVar[dict[str, Any]] = TransformerSites.BASE

    joint: AttentionConfig = Field(default_factory=lambda: AttentionConfig(**JointSites.BASE))
