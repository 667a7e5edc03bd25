"""Tables of all mechanisms, made from the code: values of every axis, other fields of a model, textbook arms.

`python -m study.publish.catalogue` writes them into docs/mechanisms.md, below the marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pydantic import BaseModel

from study.analysis import tables
from study.config import TEXTBOOK, AttentionConfig, DecoderOnly, Recurrent, Transformer
from study.config.mechanisms import AXES, SCORE, choices
from study.folders import CHECKOUT

PAGE = CHECKOUT / "docs" / "mechanisms.md"
MARKER = "<!-- Below this line, `python -m study.publish.catalogue` writes the page. -->\n"
OWNERS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("recurrent: model.", Recurrent),
    ("transformer: model.", Transformer),
    ("decoder_only: model.", DecoderOnly),
    ("model.attention.", AttentionConfig),
)
"""Classes that declare the fields of a model."""


def markdown() -> str:
    """Return all tables as Markdown."""
    parts = []
    for axis, rows in AXES.items():
        if any(row.formula or row.source for row in rows.values()):
            prefix = "model.attention." if axis in AttentionConfig.model_fields else "model."
            parts.append(_table(f"`{prefix}{axis}`", ("value", "formula", "source"), _axis(axis)))
    for prefix, section in OWNERS:
        parts.append(_table(f"Other fields, {prefix}*", ("field", "values", "meaning"), _fields(section)))
    presets = []
    for name, arm in TEXTBOOK.items():
        fields = [f"{field.removeprefix('model.')}={value}" for field, value in arm.overrides.items()]
        presets.append((name, " ".join(fields), *arm[1:]))
    parts.append(_table("Textbook arms", ("preset", "fields", "source", "differs from the paper"), presets))
    return "\n".join(parts)


def _axis(axis: str) -> Iterator[tuple[str, ...]]:
    for value, row in AXES[axis].items():
        formula = f"`{row.formula}`" if row.formula else row.help
        size = f", d = {row.d}" if getattr(row, "d", "") else ""
        notes = [row.source, row.control]
        if axis == "scale" and row.divides:
            notes.append(f"over-scaled, a control, on {', '.join(SCORE.those(lambda score: score.unit_logits))}")
        yield f"`{value}`", formula + size, "; ".join(filter(None, notes))


def _fields(section: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """Yield the fields that are no axis with a table of their own."""
    for name, field in section.model_fields.items():
        has_table = any(row.formula for row in AXES.get(name, {}).values())
        if name not in ("family", "attention") and not has_table:
            values = " | ".join(choices(field)) or ("true | false" if field.annotation is bool else "a number")
            yield f"`{name}`", values, field.description or ""


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    import pandas as pd

    texts = pd.DataFrame(list(rows), columns=list(head)).replace(r"\|", r"\\|", regex=True)
    return f"## {title}\n\n{tables.markdown(texts)}\n"


if __name__ == "__main__":
    head, marker, _ = PAGE.read_text(encoding="utf-8").partition(MARKER)
    PAGE.write_text(head + marker + "\n" + markdown(), encoding="utf-8")
