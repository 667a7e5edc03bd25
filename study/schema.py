"""Base of every section of an experiment: frozen models, and numbers and names that are checked."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from study.files import is_text, local


class Frozen(BaseModel):
    """Base of every section: immutable. It refuses unknown keys and checks defaults like other values."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, given: Any) -> Any:
        """Refuse true and false for a number. Python counts true as 1."""
        for name, value in given.items() if isinstance(given, dict) else ():
            kind: Any = cls.model_fields[name].annotation if name in cls.model_fields else bool
            if isinstance(value, bool) and kind is not bool:
                wanted = {int: "an integer", float: "a number"}.get(kind, "one of its values")
                raise ValueError(f"{name}: expected {wanted}, got {str(value).lower()}.")
        return given

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


def _title(text: str) -> str:
    """Check a name that W&B accepts."""
    if not is_text(text) or not re.fullmatch(r"[^/\\#?%:\x00-\x1f]{1,128}", text) or text != text.strip():
        raise ValueError(f"expected a name of 1 to 128 characters without / \\ # ? % :, got {text[:60]!r}.")
    return text


def _tag(text: str) -> str:
    if not is_text(text) or not 1 <= len(text) <= 64:
        raise ValueError(f"expected a tag of 1 to 64 characters, got {text[:60]!r}.")
    return text


Title = Annotated[str, AfterValidator(_title)]
Tag = Annotated[str, AfterValidator(_tag)]
"""Names and tags in W&B."""


def _folder(name: str) -> str:
    """Return the name of a folder, with a leading ~ expanded."""
    try:
        local(name, "folder")
    except ValueError as problem:
        raise ValueError(f"{problem}.") from None
    return os.path.expanduser(name)


Name = Annotated[str, AfterValidator(_folder)]
"""The name of a folder."""
