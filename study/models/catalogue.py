"""The table of all mechanisms, made from the code: every value of every axis with its formula, parameters and source.

Formulas and sources are those of `study.config.mechanisms`, parameters are read off parts that were built.
`python -m study.models.catalogue` writes docs/mechanisms.md; `study explain --all` prints the same.

Numbers of parameters are read off parts that are built with sizes told apart: a tensor of shape (3, 13, 51) in a part
built with H = 3, K = 13 and D = 51 has K·D parameters per head.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any, NamedTuple

import torch
from pydantic import BaseModel
from torch import nn

from study.attention import Attention as Site
from study.attention import Lengths
from study.attention.formula import combined, mapped
from study.attention.mixing import build_mixing
from study.attention.positions import build_positions
from study.config import TEXTBOOK, Attention, Recurrent, Transformer
from study.config.mechanisms import AXES, MIXING, SCORE, SIZES, choices
from study.files import CHECKOUT
from study.models.bridge import build_memory

H = 3
NAMES = {51: "D", 57: "Dk", 58: "D", 17: "Kq", 19: "Kk", 36: "(Kq + Kk)", 13: "K", 11: "V", 23: "A", 29: "R"}
NAMES |= {31: "S_max", 41: "U", 7: "r", 5: "w", 1: "H", 3: "H", 4: "4", 32: "32"}
"""Sizes ↦ symbols. D = 3·17 and Dk = 3·19, for raw maps of 3 heads; an even D of 58 outside attention."""
LENGTHS = Lengths(longest=31, typical=29)
SIZED = {field: next(size for size, name in NAMES.items() if name == symbol) for field, symbol in SIZES.items()}
MAPS: tuple[dict[str, Any], ...] = ({"maps": "raw"}, {"key_width": SIZED["key_width"]}, {})
VALUES: tuple[dict[str, Any], ...] = ({"value_width": SIZED["value_width"]}, {"values": "raw"}, {})
SCORES: tuple[dict[str, Any], ...] = (*({field: size} for field, size in SIZED.items() if SCORE.taking(field)), {})
SCORES += tuple({"score": score} for score in SCORE.those(lambda row: row.positive))
MODELS: tuple[dict[str, Any], ...] = ({"annotations": 7, "annotation_width": 41}, {"convolution_width": 5}, {})
OUTSIDE: dict[str, Callable[[Any], nn.Module]] = {
    "memory": lambda config: build_memory(config, 58),
    "positions": lambda config: build_positions(config, config.attention.decoder_self, True, LENGTHS),
    "mixing": lambda config: build_mixing(config, LENGTHS),
}
"""Axes of a model beside its attention, and what builds the part."""


def site(**fields: Any) -> Site:
    """An attention with these fields; all others are what the configuration takes with them, told apart if it can."""
    maps = [context for context in MAPS if not fields.keys() & context.keys()]
    for memory, *parts in product((57, 51), maps, VALUES, SCORES):
        given = {"heads": H, **parts[0], **parts[1], **parts[2], **fields}
        try:
            config = Attention.model_validate(given).resolved(51, memory)
        except ValueError:
            continue
        with torch.device("meta"):
            return Site(config, 51, memory, LENGTHS)
    raise AssertionError(fields)


def outside(axis: str, value: str) -> nn.Module:
    """The part of a model that is no attention and that `axis` chooses."""
    family: type[Recurrent | Transformer] = Recurrent if axis in Recurrent.model_fields else Transformer
    for extra in MODELS:
        try:
            config = family.model_validate({"width": 58, "attention": {"heads": 1}, axis: value, **extra})
        except ValueError:
            continue
        with torch.device("meta"):
            return OUTSIDE[axis](config)
    raise AssertionError((axis, value))


def in_symbols(parts: Iterable[nn.Module], heads: bool) -> str:
    """Parameters of the parts; with `heads` per head, or for all where a tensor has nothing of its own for each."""
    own: Counter[str] = Counter()
    shared: Counter[str] = Counter()
    for parameter in {id(p): p for part in parts for p in part.parameters()}.values():
        if heads and parameter.shape[0] == H:
            own[_product(parameter.shape[1:])] += 1
        else:
            shared[_product(parameter.shape)] += 1
    texts = [*_terms(own), *(f"{term}{' for all heads' if heads else ''}" for term in _terms(shared))]
    return " + ".join(texts) or "0"


def _product(shape: Iterable[int]) -> str:
    counted = Counter(NAMES[size] for size in shape)
    return "·".join(name + ("²" if count == 2 else "") for name, count in counted.items()) or "1"


def _terms(terms: Counter[str]) -> Iterator[str]:
    for term, count in terms.items():
        yield term if count == 1 else f"{count}·{term}"


PAGE = CHECKOUT / "docs" / "mechanisms.md"
INTRODUCTION = (
    "This page has every value of every axis. The code makes it: `python -m study.models.catalogue`. `study explain "
    "--all` prints the same. `study explain` with the flags of `study train` prints formulas, parameters and FLOPs "
    "of one configuration. Axes can be combined freely; a combination without meaning is refused with the reason."
)
LEGEND = (
    ("t, s", "index of a query and of a slot of the memory; L queries, S visible slots"),
    ("S_max", "length of the longest training sentence"),
    ("H, n", "number of heads, and index of a head; x, m and c belong to a site, other symbols to a head"),
    ("D, Dk", "width of the model's states x, from which queries come, and of the memory's states m"),
    ("Kq, Kk, K", "width of a head's query, of its key, and of both if they are equal"),
    ("V, A, R", "width of a head's value; additive width; rank"),
    ("q, k, v", "query, key and value of a head, mapped from x and m"),
    ("d", "number of terms that a score sums over; 1/√d and 1/d scale by it"),
    ("e, a", "scaled score, and weight"),
    ("o, c", "output of a head, Σ_s a_s v_s unless the reach defines another, and output of the site"),
    ("w, p, z", "half-width of a window, or tokens under a convolution; centre of a window; chosen slot"),
    ("S′", "number of the S visible slots that a window and a hidden own position leave"),
    ("s_t, y_t", "state of the recurrent decoder and target token at query t"),
    ("h_s, M, r, U", "encoder states; r annotations of them; hidden width U of the annotations"),
    ("W, U, V, P, T, b, v, g, τ", "inside a formula: parameters (T is frozen)"),
)


class Built(NamedTuple):
    """The formula of a value, and the parts of a built site that it chose."""

    formula: str
    parts: tuple[nn.Module, ...]


def _maps(of: Site) -> Built:
    return Built(", ".join(line for line in mapped(of) if line[0] in "qk"), (of.map_query, of.map_key))


BUILT: dict[str, Callable[[Site], Built]] = {
    "score": lambda of: Built(of.score.formula, (of.score,)),
    "scale": lambda of: Built(of.scale.formula, (of.scale,)),
    "logits": lambda of: Built(of.logits.formula, (of.logits,)),
    "weights": lambda of: Built(of.weights.formula, (of.weights,)),
    "reach": lambda of: Built(of.reach.formula, (of.reach,)),
    "maps": _maps,
    "norm": lambda of: Built(of.norm.formula or "q, k", (of.norm,)),
    "values": lambda of: Built(mapped(of)[-1], (of.map_value,)),
    "combine": lambda of: Built(combined(of), (of.combine,)),
    "output": lambda of: Built(combined(of), (of.combine,)),
}
"""Axes of attention with a table of their own; `OUTSIDE` are those of a model."""

OWNERS: tuple[tuple[str, type[BaseModel], str], ...] = (
    ("model.", Recurrent, "recurrent"),
    ("model.", Transformer, "transformer"),
    ("model.attention.", Attention, "every site"),
)
"""Classes that declare the fields of a model."""


class Table(NamedTuple):
    """A table of texts."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


CODE = ("symbol", "value", "formula", "field", "preset", "differs from the default arm in")
"""Columns that are written as code."""


def tables() -> list[Table]:
    """Symbols, every axis of attention, what lies beside it, the other fields of a model, and the textbook arms."""
    symbols = Table("Symbols", ("symbol", "meaning"), LEGEND)
    return [symbols, *_axes(), _others(), _textbook()]


def _axes() -> Iterator[Table]:
    for axis, look in BUILT.items():
        sized = any(getattr(row, "d", "") for row in AXES[axis].values())
        head = ("value", "formula", *(("d",) if sized else ()), "parameters per head", "source")
        rows = [_row(axis, value, look(site(**{axis: value})), sized) for value in AXES[axis]]
        yield Table(f"model.attention.{axis}", head, tuple(rows))
    for axis in OUTSIDE:
        rows = [_row(axis, value, _beside(outside(axis, value)), False) for value in AXES[axis]]
        yield Table(f"model.{axis}", ("value", "formula", "parameters", "source"), tuple(rows))


def _row(axis: str, value: str, seen: Built, sized: bool) -> tuple[str, ...]:
    facts = AXES[axis][value]
    notes = [facts.source, facts.control]
    if axis == "scale" and facts.divides:
        notes.append(f"over-scaled, a control, on {', '.join(SCORE.those(lambda row: row.unit_logits))}")
    source = "; ".join(note for note in notes if note) or "–"
    size = (facts.d or "–",) if sized else ()
    return value, seen.formula, *size, in_symbols(seen.parts, heads=axis in BUILT), source


def _beside(part: nn.Module) -> Built:
    if isinstance(part, Site):
        return Built(next(row.formula for row in MIXING.values() if row.attends), ())
    return Built(str(part.formula), (part,))


def _others() -> Table:
    """The fields of a model and of its attention that are no axis above."""
    rows: dict[str, tuple[str, str, str, str]] = {}
    for prefix, section, owner in OWNERS:
        for name, field in section.model_fields.items():
            if name in ("family", "attention", *(BUILT if section is Attention else OUTSIDE)):
                continue
            values = " | ".join(choices(field)) or ("true | false" if field.annotation is bool else "a number")
            said, where = field.description or "", owner
            if prefix + name in rows:
                before = rows[prefix + name][-1]
                where, said = "both", before if said == before else f"{OWNERS[0][2]}: {before} {owner}: {said}"
            rows[prefix + name] = (prefix + name, values, where, said)
    return Table("Other fields", ("field", "values", "where", "meaning"), tuple(rows.values()))


def _textbook() -> Table:
    """Table of presets: fields in which each differs from the default arm of its family."""
    rows = []
    for name, arm in TEXTBOOK.items():
        family = Recurrent() if arm.overrides["model.family"] == "recurrent" else Transformer()
        usual = {f"model.{name}": value for name, value in family}
        usual |= {f"model.attention.{name}": value for name, value in family.attention.cross}
        said = {field: value for field, value in arm.overrides.items() if value != usual[field]}
        fields = " ".join(f"{field.removeprefix('model.')}={json.dumps(value)}" for field, value in said.items())
        rows.append((name, f"family={family.family} {fields}".replace('"', ""), arm.source, arm.differs))
    head = ("preset", "differs from the default arm in", "source", "differs from the paper")
    return Table("Textbook arms", head, tuple(rows))


def markdown() -> str:
    """The page."""
    lines = ["# Mechanisms: every axis, its formulas, parameters and sources", "", INTRODUCTION]
    for table in tables():
        title = f"`{table.title}`" if table.title.startswith("model.") else table.title
        lines += ["", f"## {title}", "", _pipes(table.head), _pipes("---" for _ in table.head)]
        lines += [_pipes(_cell(*cell) for cell in zip(table.head, row, strict=True)) for row in table.rows]
    return "\n".join(lines) + "\n"


def _cell(column: str, text: str) -> str:
    text = text.replace("|", "\\|")
    return f"`{text}`" if text and column in CODE else text


def _pipes(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(markdown(), encoding="utf-8")
