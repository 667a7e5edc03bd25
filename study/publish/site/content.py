"""Content of the site: the runs of one folder, and what sweeps and claims say of them.

Tables that are published are shown as they are; those of a folder of runs are computed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from study import files, metrics, records
from study.analysis.comparison import compare_arms
from study.analysis.labels import arm_words
from study.analysis.runs import Runs, primary
from study.claims import schema, table
from study.claims.evaluate import evaluate
from study.config import Experiment
from study.corpora import Pair
from study.errors import InputError
from study.files import CHECKOUT, is_text, parse_json
from study.rows import order
from study.store import ATTENTION, VALIDATIONS, Store
from study.sweep.spec import Spec, load
from study.tracking.view import lines

SENTENCES = 100
"""Sentences of the deciding test split whose translations the site has."""
MAPS = "maps.json"
"""File beside a record with maps of several sentences, by site, layer and head."""
WORDS = {name: name for name in ("edition", "contrast", "finding")} | {
    "data and model": "asked",
    "deciding row": "asked",
}
"""Columns of a table of claims whose words stand for those of its CSV."""
Rows = list[dict[str, Any]]


class Texts(NamedTuple):
    """Sentences of a test split. `pairs` is empty where the corpus is not on this machine."""

    key: str
    split: str
    pairs: list[Pair]


class Content:
    """Content of a site.

    Args:
        folder: `results/`, or a folder of runs.
        sweeps: folder of the sweep files. Those beside a folder of runs, and beside a file of claims, count, too.
        claims: file with claims beside those of the study.

    Raises:
        InputError: a record or the file of claims cannot be used.
    """

    def __init__(self, folder: Path, sweeps: Path, claims: Path | None = None) -> None:
        self.folder, self.store, self.known = folder, Store(folder), schema.read_all(claims)
        self.published, self._splits = self.store.published, dict[str, Texts]()
        read = self.store.rest if self.published else lambda name: self.store.record(name).model_dump(mode="json")
        self.trees = {name: read(name) for name in sorted(filter(is_text, self.store.ids()), key=order)}
        self.trees |= {} if self.published else dict(self._unfinished())
        own = [] if self.published else [folder.resolve().parent, *([claims.parent] if claims else [])]
        self.specs: dict[str, Spec] = {}
        for path in [path for place in (sweeps, *own) for path in sorted(place.glob("*.yaml"))]:
            with suppress(InputError):  # these folders may have other files
                spec = load(path)
                begun = not self.published and any(cell.id in self.trees for cell in spec.cells)
                if begun or (self.published and self._table_of(spec.name).is_file()):
                    self.specs.setdefault(spec.name, spec)

    def _table_of(self, name: str, suffix: str = ".md") -> Path:
        return self.folder / "tables" / (name + suffix)

    def _published_table(self, name: str) -> tuple[str, str]:
        paths = [self._table_of(name, suffix) for suffix in (".md", ".csv")]
        markdown, numbers = (files.read_text(path, below=self.folder) for path in paths)
        return markdown, numbers

    @cached_property
    def _runs(self) -> Runs:
        return Runs(self.folder, CHECKOUT / "sweeps")

    @cached_property
    def sweeps(self) -> Rows:
        """The content of the page of each sweep: question, arms with their runs, table as Markdown and as numbers."""
        return [self._sweep(spec) for _, spec in sorted(self.specs.items())]

    def _sweep(self, spec: Spec) -> dict[str, Any]:
        if self.published:
            markdown, numbers = self._published_table(spec.name)
        else:
            made = compare_arms(spec, self._runs).table
            markdown, numbers = made.markdown(), made.csv()
        arms: dict[tuple[str, str], list[str]] = {}
        for cell in spec.runnable:
            arms.setdefault((spec.facet(cell), spec.arm(cell)), []).append(cell.id or "")
        comment = re.match(r"(#.*\n)*", files.read_text(spec.path))
        metric = primary(spec)
        return {
            "name": spec.name, "about": spec.description, "metric": metric,
            "title": metrics.title(metric), "digits": metrics.decimals(metric),
            "introduction": re.sub(r"^(# tags:.*\n|# ?)", "", comment[0] if comment else "", flags=re.MULTILINE),
            "markdown": re.sub(r"^\*\*.*\n", "", markdown),
            "numbers": _parsed(numbers),
            "arms": [
                {"facet": facet, "arm": arm, "words": [arm_words(facet), arm_words(arm)], "runs": runs}
                | {"baseline": arm == spec.baseline(facet)}
                for (facet, arm), runs in arms.items()
            ],
        }  # fmt: skip

    @property
    def claims(self) -> Rows:
        """All claims, each with the sweeps of this site that its questions are asked of."""
        return [
            {"id": str(one.id), "statement": one.statement, "published": one.published, "sweeps": self._asks(one)}
            for file in self.known
            for one in file.claims
        ]

    def verdicts(self) -> dict[str, Rows]:
        """Rows of the tables of the claims that these runs decide: summary, questions and contrasts."""
        if self.published:
            texts = [self._published_table(name) for name in ("summary", "claims", "contrasts")]
        else:
            wanted = [claim["id"] for claim in self.claims if claim["sweeps"]]
            verdicts = evaluate(self.known, self._runs, None, wanted, by_score=True) if wanted else []
            made = (table.summary_table(verdicts), table.table(verdicts), table.contrasts_table(verdicts))
            texts = [(one.markdown(), one.csv()) for one in made if verdicts] or [("", "")] * 3
        summary, questions, contrasts = (_worded(*both) for both in texts)
        return {"summary": summary, "questions": questions, "contrasts": contrasts}

    def _asks(self, claim: schema.Claim) -> list[str]:
        """Return the sweeps of this site that a claim's questions are asked of."""
        asked = [
            Path(name).name.partition(".")[0] for q in claim.questions for name in (q.sweep, *q.with_sweeps) if name
        ]
        by_file = {spec.path.stem: name for name, spec in self.specs.items()}
        return [by_file[name] for name in dict.fromkeys(asked) if name in by_file]

    def texts(self, identity: str) -> Texts | None:
        """Sentences that a run translated at its test; None if its test has none."""
        tree = self.trees[identity]
        if not tree.get("data"):
            return None
        try:
            data = Experiment.model_validate(tree["config"]).data
        except ValidationError:  # today's fields do not take it
            return None
        if len(data.scored) < 2:
            return None
        split, digests = data.scored[1], tree["data"]["files"]
        parts = [digests[split]] if split in digests else sorted(digests.values())  # a generated corpus, or files
        key = f"{data.name}-{hashlib.sha256(json.dumps([split, *parts]).encode()).hexdigest()[:8]}"
        if key not in self._splits:
            self._splits[key] = Texts(key, split, (data.pairs_of(split, digests) or [])[:SENTENCES])
        return self._splits[key]

    def translations(self, identity: str, texts: Texts | None) -> list[str]:
        """Return the first translations of the deciding test split; empty if there are none."""
        content = texts and self.store.content(identity, f"{texts.split}.hyp.txt")
        return content.decode("utf-8", "replace").removesuffix("\n").split("\n")[:SENTENCES] if content else []

    def maps(self, identity: str) -> dict[str, Any]:
        """Files with attention maps of a run by name.

        They are `attention.json` of one sentence, `maps.json` of every head, and
        `maps.jsonl` of one sentence at each validation.

        Raises:
            InputError: a file is no JSON.
        """
        found = {name: self.store.content(identity, name) for name in (ATTENTION, MAPS)}
        where = self.store.where(identity)
        maps = {name: parse_json(text.decode("utf-8", "replace"), where) for name, text in found.items() if text}
        with suppress(InputError):  # older runs have none
            maps[VALIDATIONS] = self.store.learning(identity)
        return maps

    def write_maps(self, identity: str, sentences: Rows) -> str:
        """Write the maps of a run; the place."""
        text = json.dumps({"sentences": sentences}, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"
        files.write(self.folder / identity / MAPS, text)
        return str(self.folder / identity / MAPS)

    def _unfinished(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the runs without a record: how far they are, and the validations so far."""
        for path in sorted(self.folder.glob("*/progress.json")):
            name, found = path.parent.name, dict[str, Any](status="started", history=[])
            if is_text(name) and name not in self.trees and records.state(path.parent) == "started":
                with suppress(InputError, LookupError, TypeError):  # a file may be half-written
                    told = files.read_json(path, below=self.folder)
                    found["status"] = f"step {told['step']} of {told['steps']}"
                with suppress(InputError):
                    found["history"] = lines(self.store.content(name, "history.jsonl"))
                yield name, found


def _worded(markdown: str, numbers: str) -> Rows:
    """Return the rows of a table of claims: numbers of its CSV, words of its Markdown, and how the score is printed."""
    marked = [line for line in markdown.splitlines() if line[:1] == "|"]
    if not marked:
        return []
    heads, _, *texts = ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in marked)
    found = []
    for row, cells in zip(_parsed(numbers), texts, strict=True):
        for head, cell in zip(heads, cells, strict=True):
            if head in WORDS:
                row[WORDS[head]] = re.sub(r"\\(.)", r"\1", cell.replace("**", ""))
        with suppress(InputError, ValueError, IndexError):  # a time, or several scores
            row["digits"] = metrics.decimals(row.get("metric", ""))
        found.append({key: value for key, value in row.items() if key != "runs"})
    return found


def _parsed(text: str) -> Rows:
    """Return the rows of a CSV without its empty cells; numbers are numbers, but for ids."""
    number = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")
    return [
        {k: float(v) if k != "id" and number.fullmatch(v) else v for k, v in row.items() if v}
        for row in csv.DictReader(io.StringIO(text))
    ]
