"""Numbers and tables in README.md, docs/ and results/README.md, from the published tables.

A document marks a number or a table by `<!-- NAME -->` and `<!-- end -->`; all other text is written by hand.
`docs/numbers.yaml` says which rows of which table a number stands for, how it is printed, and what must be true of it
for the words beside it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from study.analysis import agreement
from study.analysis.labels import mean_sd
from study.analysis.tables import escaped, markdown
from study.claims import schema
from study.config.words import arm_words
from study.corpora.catalogue import KINDS
from study.errors import InputError
from study.files import write
from study.folders import CHECKOUT
from study.publish.paper import evidence, sweep_cells, table
from study.store.manifest import Results
from study.sweep.file import read_yaml
from study.sweep.spec import load

if TYPE_CHECKING:
    import pandas as pd

ANSWERS = CHECKOUT / "docs" / "answers.yaml"
NUMBERS = CHECKOUT / "docs" / "numbers.yaml"
DOCUMENTS = (
    "README.md",
    "docs/getting-started.md",
    "docs/articles.md",
    "docs/decoder-only.md",
    "docs/real-text.md",
    "docs/scale.md",
    "docs/verdicts.md",
    "results/README.md",
)
MARK = re.compile(
    r"(?P<begin><!-- (?!end\b|root\b|not run)(?P<name>[^>]+?) -->)(?P<line>\n?)(?P<text>.*?)(?P<end><!-- end -->)",
    re.DOTALL,
)
"""Mark of a number or table; the root hash is written with the manifest."""
SOURCE = re.compile(r"([a-z]+)(\d{4})\w?")
"""Citation key: name and year."""


def update(results: Results, runs: pd.DataFrame) -> list[Path]:
    """Write the marked numbers and tables of all documents if the results are the repository's; return the paths.

    Raises:
        InputError: a mark has no entry, a number has no row, or a word contradicts its number.
    """
    if results.root.resolve().parent != CHECKOUT:
        return []
    blocks = {"quickstart": quickstart(results), "claims": claims(results), "published": published(results, runs)}
    blocks |= {
        "findings": findings_list(results),
        "answers": answers_table(results),
        "carried": carried(results),
        "recall": recall(results),
    }
    blocks |= tiers(results, runs)
    paths = [CHECKOUT / name for name in DOCUMENTS]
    for name, path in zip(DOCUMENTS, paths, strict=True):
        write(path, filled(path.read_text(encoding="utf-8"), blocks, results, name))
    return paths


def filled(text: str, blocks: Mapping[str, str], results: Results, document: str) -> str:
    """Return a document with the content of every mark: a block, or a number of `docs/numbers.yaml`.

    Raises:
        InputError: a mark has neither, or a word contradicts its number.
    """

    def content(mark: re.Match[str]) -> str:
        name, line = mark["name"], mark["line"]
        if name not in blocks:
            number = value(results, name, _beside(text, mark), document)
            return f"{mark['begin']}{number}{mark['end']}"
        block = blocks[name].strip() if line else blocks[name]
        return f"{mark['begin']}{line}{block}{line}{mark['end']}"

    return MARK.sub(content, text)


def _beside(text: str, mark: re.Match[str]) -> str:
    """Return the row of a table, or else the paragraph, that a mark stands in, as one line."""
    before, after = text[: mark.start()], text[mark.start() :]
    in_a_table = before.rpartition("\n")[2].startswith("|")
    border = "\n" if in_a_table else "\n\n"
    return " ".join((before.rpartition(border)[2] + after.partition(border)[0]).split())


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

    entry, values = numbers_of(results, name, document)
    try:
        number = str(entry["show"].format(**values)).replace("-", "−")
    except KeyError:
        expected = f"expected one row of {entry['table']}.csv, got {values['rows']}. Correct the row."
        raise InputError(f"docs/numbers.yaml: {name}: {expected}") from None
    for word, rule in entry["words"].items():
        if word not in near or pd.DataFrame([values]).query(rule, engine="python").empty:
            raise InputError(
                f'{document}: "{word}": expected these words beside {number}, and {rule} in {entry["table"]}.csv. '
                "Correct the sentence, and docs/numbers.yaml."
            )
    return number


def numbers_of(results: Results, name: str, document: str = "README.md") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an entry of `docs/numbers.yaml`, and the numbers of its row.

    Raises:
        InputError: there is no such entry.
    """
    import pandas as pd

    key, *arguments = name.split()
    if key not in entries():
        raise InputError(f"{document}: <!-- {name} -->: expected an entry of docs/numbers.yaml. Add one.")
    entry: dict[str, Any] = {"row": "index >= 0", "count": "index >= 0", "words": {}, "plus": 0}
    entry |= entries()[key]
    stem = entry["table"].format(*arguments)
    rows = pd.read_csv(results.root / "tables" / f"{stem}.csv").query(entry["row"].format(*arguments), engine="python")
    values: dict[str, Any] = {"rows": len(rows), "count": len(rows.query(entry["count"], engine="python"))}
    if len(rows) == 1:
        values.update({str(column): cell for column, cell in rows.iloc[0].items()})
        if entry["plus"]:
            for column in values.keys() & {"difference", "low", "high"}:
                values[column] = max(values[column] + entry["plus"], 0)
    return entry | {"table": stem}, values


class Finding(NamedTuple):
    """A finding: its title, its number, and what text says of this number.

    `page` has the words of README's link and the page it leads to, `more` the words of the site's links and the
    published tables they lead to; the pages of `claims` show the finding.
    """

    title: str
    number: str
    text: str
    page: Mapping[str, str]
    more: Mapping[str, str]
    claims: list[str]


class QuestionAnswer(NamedTuple):
    """A question, its answer, the number behind it with corpus and family, and the claim with its verdict."""

    question: str
    answer: str
    unit: str
    number: str
    setting: str
    ends: tuple[float, float, float]
    claim: str
    verdict: str
    by: str


NO_BREAK = "\N{NO-BREAK SPACE}"
"""Keeps an interval on one line."""
NUMBER = re.compile(r"{([^}]+)}")
"""A number of `docs/numbers.yaml` in the text of a finding."""


def answerable(results: Results) -> bool:
    """Return True if the tables are there from which findings and answers are made."""
    if not ANSWERS.is_file():
        return False
    tree = read_yaml(ANSWERS)
    keys = [row["number"] for row in tree["answers"]]
    for entry in tree["findings"]:
        keys += NUMBER.findall(entry["number"] + entry["text"])
    tables = {"summary"}
    for key, *arguments in map(str.split, keys):
        tables.add(entries()[key]["table"].format(*arguments))
    return all((results.root / "tables" / f"{name}.csv").is_file() for name in tables)


def findings(results: Results) -> list[Finding]:
    """Return the findings of `docs/answers.yaml` with their numbers.

    Raises:
        InputError: there is no such number, or a word contradicts it.
    """
    rows = []
    for entry in read_yaml(ANSWERS)["findings"]:
        near = " ".join(entry[part] for part in ("title", "number", "text"))
        texts = {"number": entry["number"], "text": entry["text"]}
        for name in NUMBER.findall(" ".join(texts.values())):
            number = value(results, name, near, ANSWERS.name)
            texts = {part: text.replace(f"{{{name}}}", number) for part, text in texts.items()}
        links = {"page": entry["page"], "more": entry["more"], "claims": entry.get("claims", [])}
        rows.append(Finding(title=entry["title"], **texts, **links))
    return rows


def answers(results: Results) -> list[QuestionAnswer]:
    """Return the answers of `docs/answers.yaml` with their numbers and verdicts.

    Raises:
        InputError: there is no such number or claim, or an answer contradicts its number.
    """
    rows = []
    for entry in read_yaml(ANSWERS)["answers"]:
        _, values = numbers_of(results, entry["number"], ANSWERS.name)
        ends = (values["difference"], values["low"], values["high"])
        rows.append(
            QuestionAnswer(
                question=entry["question"],
                answer=entry["answer"],
                unit=entry["unit"],
                number=value(results, entry["number"], entry["answer"], ANSWERS.name),
                setting=f"{values['corpus']}, {values['family']}".replace("multi30k", "Multi30k"),
                ends=ends,
                claim=entry["claim"],
                verdict=value(results, f"word {entry['claim']}"),
                by=entry["by"],
            )
        )
    return rows


def findings_list(results: Results) -> str:
    """Return the findings as a numbered list of Markdown."""
    lines = []
    for place, finding in enumerate(findings(results), 1):
        links = ", ".join(f"[{words}]({page})" for words, page in finding.page.items())
        number, bracket, interval = finding.number.replace(", ", f",{NO_BREAK}").partition(" [")
        text = f"{place}. **{finding.title}**<br>**{number}**{bracket}{interval} {finding.text} ({links})"
        lines.append(textwrap.fill(text, 118, subsequent_indent="   ", break_on_hyphens=False))
    return "\n".join(lines)


def answers_table(results: Results) -> str:
    """Return the answers as a table of Markdown."""
    lines = ["| question | answer | number |", "| --- | --- | --- |"]
    for row in answers(results):
        claim = f"[claim {row.claim} {row.verdict}](docs/verdicts.md#claim-{row.claim})"
        estimate, _, interval = row.number.replace(", ", f",{NO_BREAK}").partition(" ")
        lines.append(
            f"| {row.question}<br>*{row.by}*; {row.setting} | **{row.answer}**<br>{claim} "
            f"| {row.unit}<br>**{estimate}** {interval} |"
        )
    return "\n".join(lines)


def quickstart(results: Results) -> str:
    """Return exact match of the quickstart by arm, a column for each family."""
    import pandas as pd

    rows: dict[str, dict[str, str]] = {}
    for row in table(results, "quickstart"):
        cells = sweep_cells(row, "test/exact")
        texts = rows.setdefault(cells["arm"], {f"exact match, %, {row['n']} runs per arm": cells["arm"]})
        texts[arm_words(row["facet"])] = cells["test/exact"]
    frame = pd.DataFrame(rows.values())
    return markdown(frame, list(map(str, frame))[1:])


def carried(results: Results) -> str:
    """Return each change of attention with its effect in both kinds of models; bold where the direction differs."""
    import pandas as pd

    rows = []
    for row in table(results, "predictions-decoder_only"):
        cells = agreement.cells(row | {name: float(row[name]) for name in row if name.startswith(("first", "second"))})
        found = row["found"] if row["direction"] == "True" else f"**{row['found']}**"
        texts = [cells["arm"], f"{cells['first']} {cells['first ci']}", f"{cells['second']} {cells['second ci']}"]
        rows.append([*map(escaped, texts), row["foretold"], found])
    heads = ["change", "encoder–decoder, NLL", "decoder-only, NLL", "predicted", "found"]
    return markdown(pd.DataFrame(rows, columns=heads), heads[1:3])


def recall(results: Results) -> str:
    """Return word accuracy by mechanism and by the number of words that a decoder-only model must repeat."""
    import pandas as pd

    rows: dict[str, dict[str, str]] = {}
    for row in table(results, "recall"):
        copied = row["facet"].split()[0]
        cells = rows.setdefault(row["arm"], {"mechanism, by words to repeat": arm_words(row["arm"])})
        cells[copied.removeprefix("copied=")] = mean_sd(
            float(row["test/accuracy mean"]), float(row["test/accuracy sd"]), 1
        )
    frame = pd.DataFrame(rows.values())
    return markdown(frame, list(map(str, frame))[1:])


def tiers(results: Results, runs: pd.DataFrame) -> dict[str, str]:
    """Return runs, hours of one core and devices of each tier, by the names of their marks. A run has one tier."""
    embedded = {name for name in results.manifests if "embedded" in load(results.file(name)).tags}

    def tier(run: pd.Series[Any]) -> str:
        kind = KINDS.get(run["data.name"])
        if kind is not None and kind.tier != "embedded":
            return kind.tier
        if "quickstart" in run["sweeps"]:
            return "quickstart"
        return "further" if embedded.isdisjoint(run["sweeps"]) else "embedded"

    texts: dict[str, str] = {}
    for name, members in runs.groupby(runs.apply(tier, axis=1)):
        texts[f"tier {name} runs"] = str(len(members))
        texts[f"tier {name} hours"] = _hours(members, 1)
        texts[f"tier {name} on"] = ", ".join(sorted(members["device"].dropna().unique()))
    return texts


def published(results: Results, runs: pd.DataFrame) -> str:
    """Return a table of published sweeps: declared and published runs, by status, and hours of one core."""
    import pandas as pd

    by_sweep = runs.explode("sweeps").groupby("sweeps")
    rows = []
    for name in results.manifests:
        members = by_sweep.get_group(name)
        declared = sum(int(row["declared"]) for row in table(results, name))
        row = {"sweep": f"[{name}](tables/{name}.md)", "declared": str(declared)}
        for status in ("finished", "diverged", "failed"):
            row[status] = str((members["status"] == status).sum())
        row["missing"] = str(declared - len(members))
        row["hours"] = _hours(members, 2)
        rows.append(row)
    return markdown(pd.DataFrame(rows), list(rows[0])[1:])


def _hours(runs: pd.DataFrame, digits: int) -> str:
    return f"{runs['wall_seconds'].sum() / 3600:.{digits}f}"


def claims(results: Results) -> str:
    """Return a table of the claims: each with its source, its verdict and the row that decides it."""
    from jinja2 import Environment, FileSystemLoader

    sections = []
    for claim, summary in zip(schema.read(schema.HERE).claims, table(results, "summary"), strict=True):
        sources = ", ".join(SOURCE.sub(lambda key: f"{key[1].capitalize()} {key[2]}", key) for key in claim.source)
        row = {"cells": evidence(summary)}
        sections.append({"claim": claim, "summary": summary, "row": row, "sources": sources})
    environment = Environment(loader=FileSystemLoader(Path(__file__).with_name("templates")), trim_blocks=True)
    return environment.get_template("verdicts.md.j2").render(sections=sections)
