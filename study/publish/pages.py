"""Numbers and tables in README.md, docs/ and results/README.md, from the published tables.

A document marks a number or a table by `<!-- NAME -->` and `<!-- end -->`; all other text is written by hand.
`docs/numbers.yaml` says which rows of which table a number stands for, how it is printed, and what must be true of it
for the words beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study.analysis.tables import markdown
from study.claims import schema
from study.config.words import arm_words
from study.corpora.catalogue import KINDS
from study.errors import InputError
from study.files import write
from study.folders import CHECKOUT
from study.publish.paper import evidence, sweep_cells, table
from study.store.manifest import Results
from study.sweep.spec import load

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = CHECKOUT / "docs" / "numbers.yaml"
DOCUMENTS = ("README.md", "docs/getting-started.md", "docs/verdicts.md", "results/README.md")
MARK = re.compile(
    r"(<!-- (?!end\b|root\b|not run)(?P<name>[^>]+?) -->)(?P<line>\n?)(?P<text>.*?)(<!-- end -->)", re.DOTALL
)
"""Mark of a number or table; the root hash is written with the manifest."""
MULTIVERSE = ("id", "corpus", "family", "part", "post_hoc", "verdict", "changes", "runs")
"""Columns of the multiverse beside the verdicts under each change."""


def update(results: Results, runs: pd.DataFrame) -> list[Path]:
    """Write the marked numbers and tables of all documents if the results are the repository's; return the paths.

    Raises:
        InputError: a mark has no entry, a number has no row, or a word contradicts its number.
    """
    if results.root.resolve().parent != CHECKOUT:
        return []
    blocks = {"quickstart": quickstart(results), "claims": claims(results), "published": published(results, runs)}
    blocks |= tiers(results, runs)
    for name in DOCUMENTS:
        write(CHECKOUT / name, filled((CHECKOUT / name).read_text(encoding="utf-8"), blocks, results, name))
    return [CHECKOUT / name for name in DOCUMENTS]


def filled(text: str, blocks: Mapping[str, str], results: Results, document: str) -> str:
    """Return a document with the content of every mark: a block, or a number of `docs/numbers.yaml`.

    Raises:
        InputError: a mark has neither, or a word contradicts its number.
    """

    def content(found: re.Match[str]) -> str:
        name, end = found["name"], found["line"]
        if name in blocks:
            return f"{found[1]}{end}{blocks[name].strip() if end else blocks[name]}{end}{found[5]}"
        before, after = text[: found.start()], text[found.start() :]
        row = before.rpartition("\n")[2].startswith("|")  # of a table; else the paragraph is near
        gap = "\n" if row else "\n\n"
        near = before.rpartition(gap)[2] + after.partition(gap)[0]
        return f"{found[1]}{value(results, name, ' '.join(near.split()), document)}{found[5]}"

    return MARK.sub(content, text)


@cache
def entries() -> dict[str, dict[str, Any]]:
    """Read `docs/numbers.yaml`."""
    import yaml

    numbers: dict[str, dict[str, Any]] = yaml.safe_load(NUMBERS.read_text(encoding="utf-8"))
    return numbers


def value(results: Results, name: str, near: str = "", document: str = "README.md") -> str:
    """Return a number of `docs/numbers.yaml` as it is printed.

    Args:
        results: the published results.
        name: name of the entry; further words replace `{0}`, `{1}` … in the condition on rows.
        near: text around the number, for the words that its entry judges.
        document: named in errors.

    Raises:
        InputError: there is no such entry or row, or a word contradicts the number.
    """
    import pandas as pd

    key, *arguments = name.split()
    if key not in entries():
        raise InputError(f"{document}: <!-- {name} -->: expected an entry of docs/numbers.yaml. Add one.")
    entry: dict[str, Any] = {"row": "index >= 0", "count": "index >= 0", "words": {}, "plus": 0}
    entry |= entries()[key]
    stem = entry["table"].format(*arguments)
    frame = pd.read_csv(results.root / "tables" / f"{stem}.csv").query(entry["row"].format(*arguments), engine="python")
    values: dict[str, Any] = {"rows": len(frame), "count": len(frame.query(entry["count"], engine="python"))}
    for column, cell in frame.iloc[0].to_dict().items() if len(frame) == 1 else ():
        plus = entry["plus"] if column in ("difference", "low", "high") else 0
        values[str(column)] = cell + plus if plus else cell
    try:
        text = str(entry["show"].format(**values)).replace("-", "−")
    except KeyError:
        raise InputError(
            f"docs/numbers.yaml: {key}: expected one row of {stem}.csv, got {len(frame)}. Correct the row."
        ) from None
    for word, rule in entry["words"].items():
        if word not in near or pd.DataFrame([values]).query(rule, engine="python").empty:
            raise InputError(
                f'{document}: "{word}": expected these words beside {text}, and {rule} in {stem}.csv. '
                "Correct the sentence, and docs/numbers.yaml."
            )
    return text


def quickstart(results: Results) -> str:
    """Return the first facet of the quickstart's table, and the other one folded."""
    import pandas as pd

    tables: dict[str, str] = {}
    for facet, rows in groupby(table(results, "quickstart"), lambda row: row["facet"]):
        lines = []
        for row in rows:
            cells = sweep_cells(row, "test/exact")
            line = {"arm": arm_words(row["arm"]), "runs": row["n"], "BLEU": cells["test/bleu"]}
            line |= {"exact match, %": cells["test/exact"], "difference": ""}
            if row["difference"]:
                line["difference"] = cells["difference"]
            lines.append(line)
        tables[arm_words(facet)] = markdown(pd.DataFrame(lines), list(lines[0])[1:])
    first, second = tables
    return f"*{first}*\n\n{tables[first]}\n\n<details><summary>{second}</summary>\n\n{tables[second]}\n\n</details>"


def tiers(results: Results, runs: pd.DataFrame) -> dict[str, str]:
    """Return runs, hours of one core and devices of each tier, by the names of their marks. A run has one tier."""
    embedded = {name for name in results.manifests if "embedded" in load(results.file(name)).tags}

    def tier(corpus: str, sweeps: list[str]) -> str:
        kind = KINDS.get(corpus)
        if kind is not None and kind.tier != "embedded":
            return kind.tier
        return "quickstart" if "quickstart" in sweeps else "embedded" if embedded & set(sweeps) else "further"

    names = [tier(*pair) for pair in zip(runs["data.name"], runs["sweeps"], strict=True)]
    numbers: dict[str, str] = {}
    for name, group in runs.groupby(names):
        numbers[f"tier {name} runs"] = str(len(group))
        numbers[f"tier {name} hours"] = f"{group['wall_seconds'].sum() / 3600:.1f}"
        numbers[f"tier {name} on"] = ", ".join(sorted(group["device"].dropna().unique()))
    return numbers


def published(results: Results, runs: pd.DataFrame) -> str:
    """Return a table of published sweeps: declared and published runs, by status, and hours of one core."""
    import pandas as pd

    by_sweep = runs.explode("sweeps").groupby("sweeps")
    rows = []
    for name in sorted(results.manifests):
        declared, group = sum(int(row["declared"]) for row in table(results, name)), by_sweep.get_group(name)
        row = {"sweep": f"[{name}](tables/{name}.md)", "declared": str(declared)}
        for state in ("finished", "diverged", "failed"):
            row[state] = str((group["status"] == state).sum())
        row |= {"missing": str(declared - len(group)), "hours": f"{group['wall_seconds'].sum() / 3600:.2f}"}
        rows.append(row)
    return markdown(pd.DataFrame(rows), list(rows[0])[1:])


def claims(results: Results) -> str:
    """Return the list of claims, a section with a table for each, and the verdicts under other rules."""
    from jinja2 import Environment, FileSystemLoader

    rows: list[dict[str, Any]] = [dict(row, cells=evidence(row)) for row in table(results, "contrasts")]
    lines = []
    for claim, summary in zip(schema.read(schema.HERE).claims, table(results, "summary"), strict=True):
        deciding = [row for row in rows if row["id"] == summary["id"] and row["decides"] == "True"]
        sweeps = [name for name in dict.fromkeys(q.sweep for q in claim.questions) if name in results.manifests]
        lines.append({"claim": claim, "told": summary, "rows": deciding, "sweeps": sweeps})
    environment = Environment(loader=FileSystemLoader(Path(__file__).with_name("templates")), trim_blocks=True)
    others = table(results, "multiverse")
    changes = [name for name in others[0] if name not in MULTIVERSE]
    page = environment.get_template("verdicts.md.j2").render(claims=lines, others=others, changes=changes)
    return re.sub(r"\n{3,}", "\n\n", page)
