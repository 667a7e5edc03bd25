"""Bases of the sections of experiments and records: frozen models, and numbers and names that are checked."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from study.files import SPLIT, local


class Frozen(BaseModel):
    """Base of every section: immutable. It refuses unknown keys and checks defaults like other values."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, given: Any) -> Any:
        """Refuse true and false for a number. Python counts true as 1."""
        for name, value in given.items() if isinstance(given, dict) else ():
            if isinstance(value, bool) and name in cls.model_fields and cls.model_fields[name].annotation is not bool:
                raise ValueError(f"{name}: expected a value that is not true or false, got {str(value).lower()}.")
        return given

    @model_validator(mode="before")
    @classmethod
    def _numbers_of_text(cls, given: Any) -> Any:
        """Read the text of a flag as a number where a field takes few whole numbers. Pydantic reads the others."""
        if not isinstance(given, dict):
            return given
        texts = [name for name, value in given.items() if isinstance(value, str) and name in cls.model_fields]
        choices = {name: get_args(cls.model_fields[name].annotation) for name in texts}
        numbers = {
            name: choice
            for name, values in choices.items()
            for choice in values
            if isinstance(choice, int) and given[name] == str(choice)
        }
        return given | numbers

    @field_validator("*")
    @classmethod
    def _one_zero(cls, value: Any) -> Any:
        """Convert −0.0 to 0.0, so that one number has one identity."""
        return 0.0 if isinstance(value, float) and value == 0 else value


Size = Annotated[int, Field(ge=1, le=10**8)]
Pairs = Annotated[int, Field(ge=1, le=10**7)]
"""A number of sentence pairs: a process holds them all in memory."""
Layers = Annotated[int, Field(ge=1, le=100)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Title = Annotated[str, Field(pattern=r"^[^/\\#?%:\x00-\x1f]{1,128}$")]
Tag = Annotated[str, Field(min_length=1, max_length=64)]
"""Names and tags in W&B."""
Name = Annotated[str, AfterValidator(lambda name: str(local(name)))]
"""The name of a folder."""
Identifier = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
Count = Annotated[int, Field(ge=0)]
Split = Annotated[str, Field(pattern=f"^{SPLIT.pattern}$")]


class Section(BaseModel):
    """Base of the sections of a record: immutable. It refuses unknown keys and NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)
