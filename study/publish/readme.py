"""Generated parts of README.md and docs/: answers, verdicts, the table of the quickstart, hours, root hash.

A document marks a generated block by `<!-- NAME -->` and `<!-- end -->`. docs/verdicts.md is generated whole. Every
number comes from the published runs and the verdicts on them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from study.analysis import labels
from study.analysis.comparison import compare_arms
from study.analysis.inference import Test
from study.analysis.labels import NOTHING
from study.analysis.runs import Runs
from study.analysis.tables import Table, markdown
from study.claims import forest, matrix
from study.claims import table as verdict_table
from study.claims.verdicts import NOT_RUN, Verdict, Word, fragile, summaries
from study.corpora.catalogue import KINDS
from study.errors import InputError
from study.files import CHECKOUT, write
from study.metrics import METRICS
from study.publish.leaderboard import leaderboard_table
from study.publish.paper import tiers
from study.publish.results import Results

VERDICTS = "docs/verdicts.md"


class Value(NamedTuple):
    """Contrast: the first tested one that no other supersedes, with these texts in its claim, corpus, name and part."""

    claim: str
    corpus: str
    contrast: str
    part: str = ""
    digits: int = 1
    base: float = 0.0
    """A number that is added to the estimate, for shares that the table gives as distances."""


class Answer(NamedTuple):
    """Row of the first table of README. `{0}`, `{1}` … are the values with their scores and 95% intervals."""

    question: str
    answer: str
    compared: str
    """The arms: first − second."""
    difference: str
    values: tuple[Value, ...]


ANSWERS = (
    Answer(
        "What is attention worth over one fixed vector?",
        "Much",
        "all states − final state",
        "{0}; Multi30k: {1}",
        (Value("1", "grammar", "memory states − memory final"), Value("1", "multi30k", "memory states − memory final")),
    ),
    Answer(
        "Does a dot product need its 1/√d?",
        "At a large d, yes; in transformers from d = 16",
        "1/√d − unscaled",
        "{0} at d = 512, each at its best learning rate; Multi30k: {1} at d = 1024",
        (
            Value("4", "grammar", "best learning_rate", "each at its best learning rate"),
            Value("4", "multi30k", "scale rsqrt − scale none", "d = 1024"),
        ),
    ),
    Answer(
        "Is an additive score better than a dot product?",
        "Not at d = 16",
        "additive − dot product",
        "{0}",
        (Value("3", "grammar", "score additive"),),
    ),
    Answer(
        "Do queries and keys need matrices of their own?",
        "For directed links between words, yes; in cross-attention, no",
        "tied − separate maps",
        "in a probe of links: {0}; in cross-attention: {1}",
        (
            Value("8", "graph", "maps tied − maps separate", "links in rings of three"),
            Value("8", "grammar", "maps tied − maps separate", "cross-attention"),
        ),
    ),
    Answer(
        "How many heads?",
        "Four",
        "4 heads − 1 head; 4 − 16 heads",
        "{0}; {1}",
        (
            Value("9", "grammar", "heads 4 − heads 1", digits=2),
            Value("9", "grammar", "heads 4 − heads 16", digits=2),
        ),
    ),
    Answer(
        "Is a fifth of the heads free?",
        "No",
        "share of heads that can go",
        "{0}%, at a loss below .5 BLEU",
        (Value("14", "grammar", "heads free, by gradient", "a fifth is free", 0, 20.0),),
    ),
)


def update(results: Results, runs: Runs, verdicts: Sequence[Verdict]) -> list[Path]:
    """Write every generated block and docs/verdicts.md from published results; return the paths.

    Raises:
        InputError: a document lacks a block.
    """
    made = documents(results, runs, verdicts)
    for path, text in made.items():
        write(path, text)
    return list(made)


def documents(results: Results, runs: Runs, verdicts: Sequence[Verdict]) -> dict[Path, str]:
    """Return the text of every document with generated parts.

    Raises:
        InputError: a document lacks a block.
    """
    claims, whole, weak = _claims(verdicts), summaries(verdicts), fragile(verdicts)
    told = {claim: f"{word}, fragile" if claim in weak else word for claim, word in whole.items()}
    blocks = {
        "README.md": {
            "answers": _answers(verdicts, told, results.root / "tables"),
            "quickstart": _quickstart(compare_arms(results.spec(results.manifests["quickstart"]), runs).table),
            "claims": _summary(verdicts, whole, weak),
            "root": f"Root hash: `{results.root_hash}`",
        },
        "docs/getting-started.md": {"tiers": _tiers(tiers(results, runs))},
    }
    made = {}
    for name, parts in blocks.items():
        text = (CHECKOUT / name).read_text(encoding="utf-8")
        for block, content in parts.items():
            text = filled(text, block, content, name)
        made[CHECKOUT / name] = text
    page = _page(verdicts, claims, told, _tables_of(verdicts, results), leaderboard_table(results, runs))
    made[CHECKOUT / VERDICTS] = "\n".join(page)
    return made


def _answers(verdicts: Sequence[Verdict], told: Mapping[str, str], tables: Path) -> str:
    rows: list[Mapping[str, str]] = []
    for question, answer, compared, difference, values in ANSWERS:
        number, texts = values[0].claim, [estimate(verdicts, value) for value in values]
        row = {"question": question, "answer": answer, "first − second": compared}
        row["difference [95% interval]"] = difference.format(*texts)
        rows.append(row | {"claim": f"[{number}: {told[number]}]({VERDICTS}#claim-{number})"})
    return _markdown(rows + _agreements(tables))


AGREEMENTS = {
    "transfer": (
        "Does a one-minute grammar predict real text?",
        "on the grammar and on Multi30k",
        {
            "agree": "The order of effects, yes; not their size",
            "opposite": "No, the order is reversed",
            "no relation": "No",
        },
    ),
    "longer": (
        "Do effects last if training is four times as long?",
        "at 800 and at 3,200 updates",
        {"agree": "Their order does", "opposite": "No, the order is reversed", "no relation": "No"},
    ),
}


def _agreements(tables: Path) -> list[Mapping[str, str]]:
    """Return a row for each pair of published sweeps of the same arms."""
    import pandas as pd

    rows: list[Mapping[str, str]] = []
    for pair, (question, where, answers) in AGREEMENTS.items():
        if not (path := tables / f"correlation-{pair}.csv").exists():
            continue
        whole = pd.read_csv(path).iloc[0]
        effects = pd.read_csv(tables / f"agreement-{pair}.csv")
        same = int((effects.first_effect * effects.second_effect > 0).sum())
        ends = labels.interval(whole.low, whole.high, 2, False)
        rows.append(
            {
                "question": question,
                "answer": answers.get(whole.conclusion, "Not decided"),
                "first − second": f"effects of {len(effects)} arms {where}",
                "difference [95% interval]": f"rank correlation {labels.number(whole.rho, 2)} {ends}; {same} of "
                f"{len(effects)} signs are the same",
                "claim": f"[the effects](results/tables/agreement-{pair}.md)",
            }
        )
    return rows


def _markdown(rows: Sequence[Mapping[str, str]], right: Sequence[str] = ()) -> str:
    import pandas as pd

    return markdown(pd.DataFrame(rows), right)


def estimate(verdicts: Sequence[Verdict], value: Value) -> str:
    """Return the score, the estimate and its 95% interval: `BLEU +13.5 [+12.5, +14.4]`. A share has no score in front.

    Raises:
        ValueError: no verdict has such a contrast, or it has no interval.
    """
    verdict, _, test = find(verdicts, value)
    if test.low is None or test.high is None:
        raise ValueError(f"no interval: {value}")
    signed = not value.base
    number = labels.number(test.difference + value.base, value.digits, signed)
    ends = test.low + value.base, test.high + value.base
    score = METRICS[verdict.question.metric.split("/")[1]]
    unit = "" if value.base else f"{score.short or score.title} "
    return f"{unit}{number} {labels.interval(*ends, value.digits, signed)}"


def find(verdicts: Sequence[Verdict], value: Value) -> tuple[Verdict, Word, Test]:
    """Return the verdict with a contrast, the word for the contrast, and its test.

    Raises:
        ValueError: no verdict has such a contrast.
    """
    for verdict in verdicts:
        for found in verdict.findings if not verdict.superseded else ():
            same = (str(verdict.claim.id), verdict.corpus) == (value.claim, value.corpus)
            same = same and value.contrast in found.fields and value.part in verdict.question.part
            if same and found.comparison.test:
                return verdict, found.word, found.comparison.test
    raise ValueError(f"no verdict has the contrast {value}")


def _quickstart(table: Table) -> str:
    """Return the first facet of the quickstart, and the other one folded."""
    first, other = ((block.head, _short([row.cells for row in block.rows])) for block in table.blocks)
    return f"*{first[0]}*\n\n{first[1]}\n\n<details><summary>{other[0]}</summary>\n\n{other[1]}\n\n</details>"


SHORT = {
    "arm": "arm",
    "n": "runs",
    "test/bleu": "BLEU",
    "test/exact": "exact match, %",
    "difference": "difference",
}


def _short(rows: Sequence[Mapping[str, str]]) -> str:
    keys = [key for key in SHORT if any(row.get(key, NOTHING) not in (NOTHING, "baseline") for row in rows)]
    return _markdown([{SHORT[key]: row.get(key, "") for key in keys} for row in rows], [SHORT[key] for key in keys[1:]])


def _claims(verdicts: Sequence[Verdict]) -> dict[str, list[Mapping[str, str]]]:
    """Return the rows of the table of verdicts by claim; the first row of each has the statement."""
    rows = [row.cells for block in verdict_table.table(verdicts).blocks for row in block.rows]
    return {claim: [row for row in rows if row["id"] == claim] for claim in dict.fromkeys(row["id"] for row in rows)}


TEN = ("2", "7", "10", "12", "17", "18", "19", "21", "22", "25")
"""Claims of README's table: those that a reader may know, beside the ones of the first table."""


def _summary(verdicts: Sequence[Verdict], whole: Mapping[str, str], weak: Collection[str]) -> str:
    """Return the counts of verdicts, and ten claims."""
    counts = f"Of all {len(whole)} claims, {_counts(whole)}.{_fragile(weak, VERDICTS)} Ten of the claims:"
    ten = _markdown(
        [{name: row[name] for name in ("#", "claim", "verdict")} for row in _list(verdicts, VERDICTS, TEN)], "#"
    )
    return f"{counts}\n\n{ten}"


def _fragile(weak: Collection[str], page: str = "") -> str:
    """Return a sentence with the fragile claims and a link to the matrix on a page; empty without any."""
    verb = "is" if len(weak) == 1 else "are"
    return f" {len(weak)} {verb} [fragile]({page}#verdicts-by-score)." if weak else ""


FOREST = "results/figures/forest.svg"
CAPTION = (
    "*One row a claim: the contrast that decides, in units of its margin, the smallest difference of interest.\n"
    "Thick: 90% interval; thin: 95%; grey: ±1 margin. To the right, the difference has the predicted sign. A claim of\n"
    "no difference holds inside the grey band. Arrows are beyond the axis. A mixed claim shows a row that does not\n"
    "hold, if one was asked as published.*"
)


def _list(verdicts: Sequence[Verdict], page: str = "", only: Collection[str] = ()) -> Iterator[dict[str, str]]:
    """Yield the summary, a line a claim, with links to a page; of some claims only, if they are named."""
    for line in forest.summary_table(verdicts).blocks[0].rows:
        cells = line.cells
        if only and cells["id"] not in only:
            continue
        word, *weak = cells["verdict"].split(", ")
        told = ", ".join([f"**{word}**", *weak])
        link = f"[{cells['id']}]({page}#claim-{cells['id']})"
        yield {"#": link, "claim": cells["claim"], "verdict": told, "rows": cells["parts"]}


VERBS = {"holds": ("holds", "hold"), "fails": ("fails", "fail")}


def _counts(whole: Mapping[str, str]) -> str:
    """`10 hold, 1 is mixed, …`, in the order of the first claim of each kind."""
    counts = Counter(whole.values()).items()
    return ", ".join(f"{n} {VERBS.get(word, (f'is {word}', f'are {word}'))[n > 1]}" for word, n in counts)


INTRODUCTION = """\
# Verdicts

Every claim with its verdict and the numbers that decide it, computed from the published records. This page is generated
by `make reproduce`; [Statistics and claims](statistics.md) explains how a verdict is computed.
"""
NOTES = """\
A claim has one row for each question. [Verdicts of claims](statistics.md#verdicts-of-claims) explains how its rows
make its verdict, [Verdict tables](statistics.md#verdict-tables) the columns, [Marks](statistics.md#marks) § and ¶, and
[Editions](statistics.md#editions) the rows that are not yet run or superseded.
[contrasts.md](../results/tables/contrasts.md) has every contrast.

The data `graph`, `multi_lookup`, `copy_far` and `one_space` are [probes](own-data.md#corpora).
"""
MATRIX = """\
Does a verdict depend on the score that was chosen? [Fragile verdicts](statistics.md#fragile-verdicts) explains the
table, and [matrix.csv](../results/tables/matrix.csv) has the estimates, intervals and margins.
"""
COLUMNS = {
    "asked": "data and model",
    "edition": "edition",
    "verdict": "verdict",
    "finding": "finding",
    "contrast": "contrast",
    "estimate": "estimate",
    "interval": "95% CI",
    "inner": "90% CI",
    "margin": "margin",
    "effects": "published, BLEU",
    "n": "seeds",
    "sentences": "differ over sentences",
    "crossed": "95% CI, seeds and sentences",
}
NUMBERS = tuple(head for key, head in list(COLUMNS.items())[5:] if key != "effects")


def _tables_of(verdicts: Sequence[Verdict], results: Results) -> dict[str, list[str]]:
    """Return the published tables behind each claim, by its id."""
    claims = {str(verdict.claim.id): verdict.claim for verdict in verdicts}
    known = {*results.manifests, "cost"}
    found = {id_: [n for n in verdict_table.sweeps(verdicts, claim) if n in known] for id_, claim in claims.items()}
    return {claim: names for claim, names in found.items() if names}


def _page(
    verdicts: Sequence[Verdict],
    claims: Mapping[str, Sequence[Mapping[str, str]]],
    told: Mapping[str, str],
    behind: Mapping[str, Sequence[str]],
    standing: Table,
) -> Iterator[str]:
    """docs/verdicts.md: a list of claims, a section for each one, verdicts by score, and the models on Multi30k."""
    yield INTRODUCTION
    whole = summaries(verdicts)
    yield f"Of {len(whole)} claims, {_counts(whole)}.{_fragile(fragile(verdicts))}\n"
    yield f"![Forest plot of all claims](../{FOREST})\n\n{CAPTION}\n"
    yield _markdown(list(_list(verdicts)), "#")
    yield f"\n{NOTES}"
    for claim, rows in claims.items():
        yield f"## Claim {claim}\n\n**{rows[0]['claim']}**: {told[claim]}.\n"
        if published := rows[0].get("published"):
            yield f"Published effect: {published}.\n"
        if claim in behind:
            yield f"Sweeps: {', '.join(f'[{name}](../results/tables/{name}.md)' for name in behind[claim])}.\n"
        there = [row for row in rows if not row["verdict"].startswith(NOT_RUN)]
        there.sort(key=lambda row: "superseded" in row["edition"])  # rows that count come first
        if there:
            both = any(row["edition"] != "first" for row in rows)
            effects = any(row["effects"] != NOTHING for row in there)
            shown = {"edition": both, "effects": effects}
            columns = {key: head for key, head in COLUMNS.items() if shown.get(key, True)}
            cells = [{head: _cell(row, key) for key, head in columns.items()} for row in there]
            yield _markdown(cells, NUMBERS) + "\n"
        if waiting := [row["asked"] for row in rows if row not in there]:
            yield "\n".join(["Not yet run:\n", *(f"- {asked}" for asked in waiting), ""])
    yield f"## Verdicts by score\n\n{MATRIX}"
    yield matrix.table(verdicts).markdown()
    yield "## Multi30k: this study and others\n"
    yield "Most other systems were scored in other ways; their numbers do not compare to the point.\n"
    yield standing.markdown()


def _cell(row: Mapping[str, str], key: str) -> str:
    if key != "verdict" or row[key] == NOTHING:
        return row[key]
    verdict, *why = row[key].split(": ")
    return ": ".join([f"**{verdict}**", *why])


TIERS = {
    "quickstart": ("`quickstart`, two seeds", "`make sweep`"),
    "embedded": ("the embedded tier, five seeds", "`make embedded`"),
    "further": ("other sweeps on generated corpora", "`make sweep SWEEP=sweeps/…`"),
}
TIERS |= {kind.tier: (kind.title, "`make sweep SWEEP=sweeps/…`") for kind in KINDS.values() if kind.tier != "embedded"}


def _tiers(took: Mapping[str, Mapping[str, Any]]) -> str:
    """Runs, hours and hardware of each tier; every run has one core."""
    rows = [
        {"sweeps": what, "command": command, "runs": str(took[tier]["runs"])}
        | {"hours of one core": took[tier]["hours"], "on": ", ".join(took[tier]["devices"])}
        for tier, (what, command) in TIERS.items()
        if tier in took
    ]
    return _markdown(rows, ["runs", "hours of one core"])


def filled(text: str, name: str, content: str, document: str = "README.md") -> str:
    """Return the text with `content` between `<!-- name -->` and `<!-- end -->`.

    Raises:
        InputError: there is no such block.
    """
    block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not block.search(text):
        raise InputError(f"{document}: no block `<!-- {name} -->` … `<!-- end -->`. Add one.")
    return block.sub(lambda found: f"{found[1]}{content.strip()}\n{found[2]}", text)
