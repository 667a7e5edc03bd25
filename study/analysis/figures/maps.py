"""Figure of attention maps: cross-attention of one sentence and its gold alignment, one panel an arm, weights 0–1."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from study.analysis.figures import style
from study.analysis.figures.source import CROSS, Sweep, arm, base_of, first_of_family
from study.analysis.labels import arm_words
from study.analysis.runs import DeclaredRun
from study.analysis.tables import DECIMALS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "scores": (
        f"{CROSS}.score",
        (f"{CROSS}.bilinear_init", "model.init"),
        ("score", "scale", "bilinear_init", "init", "key_width", "additive_width", "rank"),
    ),
    "scaling": (f"{CROSS}.scale", (f"{CROSS}.logit_init",), ("scale", "logit_init")),
    "rank": (
        f"{CROSS}.score",
        (f"{CROSS}.rank", f"{CROSS}.additive_width"),
        ("score", "scale", "rank", "additive_width", "key_width"),
    ),
    "reach": (f"{CROSS}.reach", (), ("reach", "window", "entropy_bonus")),
    "normaliser": (f"{CROSS}.weights", (), ("weights",)),
    "collapse": ("model.init", ("model.width",), ("init", "width", "encoder_width", "key_width", "value_width")),
}
"""Sweep ↦ the field that tells its arms apart, those that make variants of them, and all that may differ with these."""

GOLD = "gold"


def points(sweeps: Sequence[Sweep]) -> pd.DataFrame:
    """Return every weight of the maps of one sentence: of each arm the first seed that has one, gold before all.

    The sentence is that of the first map found; an arm whose map is of another sentence, or that has none, is a
    line without weights.
    """
    import pandas as pd

    (sweep,) = sweeps
    main, variants, free = AXES[sweep.spec.name]
    runs = sweep.comparable(*free)
    bases = first_of_family(runs)
    arms: dict[str, list[DeclaredRun]] = {}
    for run in runs:
        family = f"family={run.at('model.family')} " if len(bases) > 1 else ""
        arms.setdefault(family + arm(run, base_of(run, bases), main, *variants), []).append(run)
    found = {line: _first_map(sweep, among) for line, among in arms.items()}
    shown = next((seen for _, seen in found.values() if seen), None)
    if shown is None:
        return pd.DataFrame()
    gold = {tuple(link) for link in shown.get("gold") or []}
    rows = _weights(GOLD, None, shown, _as_weights(gold, shown), gold) if gold else []
    for line, (one, seen) in found.items():
        if seen and (seen["source"], seen["target"]) == (shown["source"], shown["target"]):
            rows += _weights(line, one, seen, seen["weights"], gold)
        else:
            rows.append({"line": line, "id": one.id, "seed": one.experiment.seed})
    return pd.DataFrame(rows).astype(dict.fromkeys(("seed", "t", "s"), "Int64") | {"gold": "boolean"})


def _first_map(sweep: Sweep, runs: Sequence[DeclaredRun]) -> tuple[DeclaredRun, dict[str, Any] | None]:
    """Return the first run with a map, working (`<id>/attention.json`) or published (`<id>.attention.json`)."""
    for run in runs:
        seen = sweep.store.attention(run.id) if sweep.store else None
        if seen:
            return run, seen
    return runs[0], None


def _as_weights(gold: set[tuple[Any, ...]], shown: dict[str, Any]) -> list[list[float]]:
    """Gold links as a map: 1 for every link."""
    return [[float((s, t) in gold) for s in range(len(shown["source"]))] for t in range(len(shown["target"]))]


def _weights(
    line: str, run: DeclaredRun | None, seen: dict[str, Any], weights: Any, gold: set[Any]
) -> list[dict[str, Any]]:
    facts: dict[str, Any] = {"line": line, "id": run.id if run else "", "seed": run.experiment.seed if run else None}
    facts |= {"layer": seen["layer"], "aer": run.score("test/aer") if run else None}
    return [
        facts
        | {"t": t, "target": target, "s": s, "source": source}
        | {"weight": round(weights[t][s], DECIMALS), "gold": (s, t) in gold}
        for t, target in enumerate(seen["target"])
        for s, source in enumerate(seen["source"])
    ]


@style.styled()
def draw(table: pd.DataFrame) -> Figure:
    """Panels four in a row (three of longer sentences), words at the left and at the bottom, one bar of colours."""
    lines = list(dict.fromkeys(table["line"]))
    sentence = table.dropna(subset=["t"])
    height, width = (int(sentence[name].max()) + 1 for name in ("t", "s"))
    across = min(len(lines), 4 if width <= 14 else 3)
    down = -(-len(lines) // across)
    size = (style.PAGE, (1.35 * height / width + 0.4) * down + 0.55)
    figure, grid = style.subplots(down, across, figsize=size, sharex=True, sharey=True, squeeze=False)
    for i, axes in enumerate(grid.flat):
        axes.set_visible(i < len(lines))
        if i < len(lines):
            image = _panel(axes, table[table["line"] == lines[i]], sentence)
            axes.tick_params(labelleft=i % across == 0, labelbottom=i // across == down - 1, left=False, bottom=False)
    bar = figure.colorbar(image, ax=grid, fraction=0.02, pad=0.01, aspect=30, shrink=0.6)
    bar.outline.set_visible(False)
    bar.set_label("weight (framed: gold)" if sentence["gold"].any() else "weight")
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, sentence: pd.DataFrame) -> Any:
    from matplotlib.patches import Rectangle

    source, target = (
        sentence.drop_duplicates(at).sort_values(at)[word] for at, word in (("s", "source"), ("t", "target"))
    )
    weights = [[0.0] * len(source) for _ in range(len(target))]
    known = rows.dropna(subset=["t"])
    for t, s, weight in zip(known["t"], known["s"], known["weight"], strict=True):
        weights[t][s] = weight
    image = axes.imshow(weights, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    for t, s in zip(known["t"][known["gold"]], known["s"][known["gold"]], strict=True):
        axes.add_patch(Rectangle((s - 0.46, t - 0.46), 0.92, 0.92, fill=False, edgecolor="C1", linewidth=0.9))
    if known.empty:
        axes.text(0.5, 0.5, "no map", transform=axes.transAxes, ha="center", va="center", color="#444444")
    axes.set_xticks(range(len(source)), list(source), rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), list(target))
    axes.tick_params(labelsize=style.SMALL, length=0)
    axes.grid(False)
    error = rows["aer"].iloc[0]
    axes.set_title(_title(str(rows["line"].iloc[0]), error), loc="left", fontsize=7.5)
    return image


def _title(line: str, error: Any) -> str:
    if line == GOLD:
        return GOLD
    return textwrap.fill(arm_words(line), 28) + (f"\nAER {error:.2f}" if error == error else "")
