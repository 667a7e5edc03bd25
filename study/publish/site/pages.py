"""Files of the site: one page with its script, and data that the script loads. Equal content gives equal bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from study import files, metrics
from study.errors import InputError
from study.files import CHECKOUT
from study.publish.site.content import MAPS, Content, Texts
from study.store import ATTENTION, VALIDATIONS, arm_of, seed_of

ASSETS = Path(__file__).parent / "assets"
FIGURES = {
    "claim-1": "lengths", "claim-4": "scale", "claim-8": "symmetry", "claim-9": "heads", "claim-14": "pruning",
    "agreement-transfer": "transfer", "agreement-longer": "longer",
}  # fmt: skip
"""Source of an answer in README.md ↦ the figure that shows it. Without one, its sweep is drawn."""
ANSWERS = re.compile(r"(?:[^\n]+\n)+\n\| question \| answer \|.*\n(?:\|.*\n)+")
"""The table of questions in README.md, and the paragraph before it."""
CURVES = ("valid_bleu", "valid_loss", "train_loss")
OF_A_RUN = ("error", "selection", "diagnostics", "wandb")
"""Parts of a record that the page of a run shows, beside the fields of the table of runs."""
UNUSED = ["sweeps", "labels", "packages", "data_files", "sha256"]
"""Columns of runs that the table of runs does not have."""


def pages(content: Content, version: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of every file of the site.

    Args:
        content: what is shown.
        version: of a site that is served live; its page asks for the next one. Empty: the page asks for nothing.

    Raises:
        InputError: a record cannot be used.
    """
    for path in sorted(ASSETS.iterdir()):
        yield path.name, path.read_bytes().replace(b"{{version}}", version.encode())
    arms: dict[str, list[str]] = {}
    for name in content.trees:
        arms.setdefault(arm_of(name), []).append(name)
    scores, curves, texts = _scores(content), _curves(content), dict[str, Texts]()
    extra: dict[str, dict[str, Any]] = {}
    for arm, names in arms.items():
        text, lines, runs = content.texts(names[0]), dict[str, int](), {}
        texts |= {text.key: text} if text else {}
        maps = {name: found for name in names if (found := content.maps(name))}
        for name in names:
            own, made = scores.get(name, []), content.translations(name, text)
            runs[name] = {key: content.trees[name].get(key) for key in OF_A_RUN} | {
                "scores": own,
                "curves": curves.get(name, {}),
                "translations": [lines.setdefault(line, len(lines)) for line in made],
            }
            extra[name] = {f"{split}/{metric}": v for split, subset, metric, v, _ in own if subset is None} | {
                "status": content.trees[name]["status"],
                "maps": 2 if MAPS in maps.get(name, {}) else int(ATTENTION in maps.get(name, {})),
                "validations": len(maps.get(name, {}).get(VALIDATIONS, ())),
                "texts": text and text.key,
            }
        config = content.trees[names[0]].get("config", {})
        yield _chunk(f"arm/{arm}", {"texts": text and text.key, "lines": list(lines), "config": config, "runs": runs})
        if maps:
            yield _chunk(f"maps/{arm}", maps)
    for key, one in texts.items():
        yield _chunk(f"texts/{key}", {"split": one.split, "pairs": [[pair.source, pair.target] for pair in one.pairs]})
    for sweep in content.sweeps:
        yield _chunk(
            f"sweep/{sweep['name']}", sweep | {key: tree_of(sweep[key]) for key in ("introduction", "markdown")}
        )
    verdicts = content.verdicts()
    whole = {row["id"]: row for row in verdicts.pop("summary")}
    yield _chunk("claims", verdicts)
    yield _chunk("runs", _table(content, extra))
    drawn: dict[str, str] = {}
    for key, name in FIGURES.items() if content.published else ():
        if (content.folder / "figures" / f"{name}.svg").is_file():
            drawn[key] = f"figures/{name}.svg"
            yield drawn[key], files.read(content.folder / drawn[key], below=content.folder)
    guide, readme = CHECKOUT / "docs" / "statistics.md", content.folder.parent / "README.md"
    yield _chunk("guide", tree_of(files.read_text(guide)) if guide.is_file() else [])
    answers = ANSWERS.search(files.read_text(readme)) if content.published and readme.is_file() else None
    yield _chunk("site", {
        "published": content.published, "figures": drawn,
        "answers": tree_of(re.sub(r"<!--.*?-->", "", answers[0])) if answers else [],
        "claims": [one | {"summary": whole[one["id"]]} for one in content.claims if one["id"] in whole],
        "sweeps": [{key: one[key] for key in ("name", "about", "arms")} for one in content.sweeps],
    })  # fmt: skip


def address(name: str) -> str:
    """Return the file of `kind/name`, without its ending. Two names never share one, and none leads upwards.

    The script of the page does the same.
    """
    kind, slash, rest = name.partition("/")
    return kind + slash + re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"~{ord(found[0]):x}~", rest)


def tree_of(markdown: str) -> list[Any]:
    """Return Markdown as nested lists: a tag, its address or none, and its parts. HTML in it stays text."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    def node(one: Any) -> list[Any]:
        parts = [part for child in one.children for part in node(child)] if one.children else []
        if one.type in ("root", "inline"):
            return parts
        if one.type in ("text", "softbreak", "hardbreak"):
            return [one.content or "\n"]
        if one.type in ("code_inline", "fence", "code_block"):
            return [["code" if one.type == "code_inline" else "pre", None, one.content]]
        right = "right" if "right" in str(one.attrs.get("style", "")) else None
        return [[one.tag, one.attrs.get("href") or right, *parts]]

    return node(SyntaxTreeNode(MarkdownIt("commonmark", {"html": False}).enable("table").parse(markdown)))


def _scores(content: Content) -> dict[str, list[list[Any]]]:
    """Return id ↦ split, subset, metric, value and number of sentences of each score."""
    found: dict[str, list[list[Any]]] = {}
    for row in content.store.score_table.to_pylist():
        one = [row["split"], row["subset"], row["metric"], _short(row["value"]), row["n"]]
        found.setdefault(row["id"], []).append(one)
    return found


def _curves(content: Content) -> dict[str, dict[str, list[list[float]]]]:
    """Return id ↦ name ↦ step and value of each validation."""
    frame = content.store.curves
    frame = frame[frame["name"].isin(CURVES) & frame["value"].notna()]
    rows = list(zip(*(frame[name].tolist() for name in ("id", "name", "step", "value")), strict=True))
    for run in sorted(content.trees.keys() - content.store.ids()):
        history = content.trees[run]["history"]
        rows += [(run, name, step, point[name]) for step, point in history for name in CURVES if name in point]
    found: dict[str, dict[str, list[list[float]]]] = {}
    for run, name, step, value in rows:
        found.setdefault(run, {}).setdefault(name, []).append([step, value])
    return found


def _table(content: Content, extra: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return every run with every field, a column after the other: its values, and the place of each run's value."""
    import pandas as pd

    facts = content.store.runs.drop(columns=UNUSED, errors="ignore").to_dict("records")
    known = {row["id"]: row for row in facts}
    frame = pd.DataFrame(
        [
            {"id": name, "arm": arm_of(name), "seed": seed_of(name), **known.get(name, {}), **more}
            for name, more in extra.items()
        ]
    )
    columns: dict[str, list[list[Any]]] = {}
    for name in map(str, frame.dropna(axis=1, how="all")):
        codes, values = pd.factorize(frame[name])
        columns[name] = [values.tolist(), codes.tolist()]
    scored = sorted(name for name in columns if "/" in name)
    titles, digits = ({name: told(name) for name in scored} for told in (metrics.title, metrics.decimals))
    return {"columns": columns, "titles": titles, "digits": digits}


def _chunk(name: str, tree: Any) -> tuple[str, bytes]:
    """A script that hands plain data to the page. A page from the file system may load scripts, and nothing else."""
    try:
        text = json.dumps(tree, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise InputError(f"{name}: expected finite numbers, got others. Remove the file that has them.") from None
    return f"data/{address(name)}.js", f"site.put({json.dumps(name)},{text})\n".encode()


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
