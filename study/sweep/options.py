"""Resources of an engine, as text on the command line: `gpus=1,time=4h`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection

from study.errors import InputError


def pairs(option: str, text: str | None, known: Collection[str], example: str) -> dict[str, str]:
    """Return the name=value pairs of an option.

    Raises:
        InputError: a part is no name=value, or a name is unknown or given twice.
    """
    given: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, equals, value = part.strip().partition("=")
        if not equals or not re.fullmatch(r"\S+", value):
            raise InputError(f"{option}: expected name=value, got {part!r}. {example}")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            also = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}."
            raise InputError(f"{option}: expected a known name, got {name!r}. {also}")
        if name in given:
            raise InputError(f"{option}: {name}: expected once, got it twice. Remove one.")
        given[name] = value
    return given


def number(option: str, name: str, text: str, whole: bool = False, least: float = 0) -> float:
    """Return a number from `least`.

    Raises:
        InputError: it is none.
    """
    if not re.fullmatch(r"\d{1,6}" if whole else r"\d{1,6}(\.\d+)?", text, re.ASCII) or float(text) < least:
        kind = "whole number" if whole else "number"
        raise InputError(f"{option}: {name}: expected a {kind} from {least:g}, got {text}.")
    return float(text)
