"""Base of every section of an experiment: frozen models, and numbers and names that are checked."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator


class Frozen(BaseModel):
    """The base of every section: immutable, unknown keys refused, defaults checked like any other value."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, given: Any) -> Any:
        """Python counts true as 1: `seed: true` would be seed 1."""
        for name, value in given.items() if isinstance(given, dict) else ():
            if isinstance(value, bool) and name in cls.model_fields and cls.model_fields[name].annotation is not bool:
                raise ValueError(f"{name} is no question of true or false; give its value, not {str(value).lower()}")
        return given

    @field_validator("*")
    @classmethod
    def _one_zero(cls, value: Any) -> Any:
        """−0.0 is 0.0: one number has one identity."""
        return 0.0 if isinstance(value, float) and value == 0 else value


Size = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


def _writable(name: str) -> str:
    if not name or "\0" in name:
        raise ValueError(f"{name!r} is no name of a folder; give one without a null byte")
    return name


Name = Annotated[str, AfterValidator(_writable)]
"""The name of a folder."""
