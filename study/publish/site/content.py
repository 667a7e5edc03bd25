"""Content of the site: the runs of one folder, what sweeps and claims say of them, and the files of one page app.

The page is a script, and its data are scripts, because a page of the file system may load nothing else. Tables that
are published are shown as they are; those of a folder of runs are computed. Equal content gives equal bytes.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import ValidationError

from study import files
from study.analysis.labels import arm_words
from study.analysis.report import compared
from study.analysis.runs import Runs
from study.analysis.tables import as_csv
from study.claims import schema, table
from study.claims.evaluate import evaluate
from study.config import Experiment
from study.config.sites import READS
from study.corpora import Pair
from study.errors import InputError
from study.folders import CHECKOUT
from study.publish.pages import ANSWERS, answerable, answers, findings, numbers_of
from study.publish.paper import evidence, numbers
from study.scores import metrics
from study.store.folder import ATTENTION, VALIDATIONS, sha256
from study.store.manifest import Results
from study.store.rows import arm_of
from study.sweep.file import read_yaml
from study.sweep.spec import Spec, load

SENTENCES = 100
"""Sentences of the deciding test split whose translations the site has."""
MAPS = "maps.json"
"""File beside a record with maps of several sentences, by site, layer and head."""
ASSETS = Path(__file__).parent / "assets"
HERO = "figures/hero_narrow.svg"
"""The picture of the first page."""
CURVES = ["valid_bleu", "valid_loss", "train_loss"]
OF_A_RUN = ("error", "selection", "wandb")
"""Parts of a record that the page of a run shows, beside the fields of the table of runs."""
OF_A_HEAD = ("entropy", "max_weight", "gold_mass", "logit_sd", "information")
"""Measures of a head that the page of a run shows."""
KIND = ["split", "subset", "metric", "n"]
"""Columns of scores that tell what a value is of. Most runs of an arm share them."""
LABEL = re.compile(r"\b[a-z_]+=[\w.]+")
"""A field with its value in the introduction of a sweep."""
EXPLAINED = re.compile(r"docs/(\S+) explains the columns")
"""The page that explains a table, below it."""
COLUMNS = re.compile(r"^( .*\S   +\S.*\n)+", re.MULTILINE)
"""Lines of an introduction that are aligned as a table."""
UNUSED = ["sweeps", "labels", "packages", "data_files", "sha256"]
"""Columns of runs that the table of runs does not have."""
PRINTED = ("asked", "contrast", "measure", "estimate", "interval", "inner", "second")
"""Cells of a contrast that the page of a claim shows as they are printed."""
Rows = list[dict[str, Any]]


class Texts(NamedTuple):
    """Sentences of a test split. `pairs` is empty where the corpus is not on this machine."""

    key: str
    split: str
    pairs: list[Pair]


class RunScore(NamedTuple):
    """One score of a run: its value, its column in the table of runs (None: it has none), and the cells of `KIND`."""

    value: float | None
    column: str | None
    kind: tuple[Any, ...]


class Places(dict[Any, int]):
    """Value ↦ its place among all, in the order in which they come."""

    def __missing__(self, value: Any) -> int:
        """Give a new value the next place."""
        self[value] = len(self)
        return self[value]


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
        self.folder = folder
        self.claim_files = schema.read_all(claims)
        self.runs = Runs(folder, sweeps)
        self.store = self.runs.store
        self.published = self.store.published
        self.trees = {identity: self.store.rest(identity) for identity in self.store.runs.get("id", ())}
        self._texts: dict[str, Texts] = {}
        folders = [sweeps]
        if not self.published:
            folders.append(folder.resolve().parent)
            if claims:
                folders.append(claims.parent)
        self.specs: dict[str, Spec] = {}
        for place in folders:
            for path in sorted(place.glob("*.yaml")):
                with suppress(InputError):  # these folders may have other files
                    spec = load(path)
                    if self._has_runs(spec):
                        self.specs.setdefault(spec.name, spec)

    def _has_runs(self, spec: Spec) -> bool:
        """Return True if a sweep is published here, or one of its runs has a record."""
        if self.published:
            return (self.folder / "tables" / f"{spec.name}.csv").is_file()
        return any(cell.id in self.trees for cell in spec.cells)

    @cached_property
    def scores(self) -> dict[str, list[RunScore]]:
        """Id ↦ the scores of a run."""
        frame = self.store.scores.astype(object)
        frame = frame[frame["id"].isin(self.trees)]  # not: runs that were made since, rows of an interrupted `publish`
        is_whole = frame["subset"].isna()
        columns = frame["split"] + "/" + frame["metric"]
        columns = columns.where(is_whole, columns + "/" + frame["subset"])
        deciding = {name for spec in self.specs.values() for name in spec.metrics.values()}  # figures show runs by them
        frame = frame.where(frame.notna(), None)
        frame["column"] = columns.where(is_whole | columns.isin(deciding), None)
        by_run: dict[str, list[RunScore]] = {identity: [] for identity in self.trees}
        rows = frame[["id", "value", "column", *KIND]].itertuples(index=False, name=None)
        for identity, value, column, *kind in rows:
            by_run[identity].append(RunScore(value, column, tuple(kind)))
        return by_run

    @cached_property
    def curves(self) -> dict[str, dict[str, list[Any]]]:
        """Id ↦ name of a curve ↦ its points, a step and a value each."""
        frame = self.store.curves
        frame = frame[frame["id"].isin(self.trees) & frame["name"].isin(CURVES) & frame["value"].notna()]
        by_run: dict[Any, dict[Any, list[Any]]] = {identity: {} for identity in self.trees}
        for (identity, curve), points in frame.groupby(["id", "name"], observed=True):
            by_run[identity][curve] = points[["step", "value"]].values.tolist()
        return by_run

    def texts(self, identity: str) -> Texts | None:
        """Sentences that a run translated at its test; None if its test has none."""
        tree = self.trees[identity]
        try:
            data = Experiment.model_validate(tree["config"]).data
        except ValidationError:  # today's fields do not take it
            return None
        if not tree["data"] or len(data.scored) < 2:
            return None
        split, digests = data.scored[1], tree["data"]["files"]
        parts = [digests[split]] if split in digests else sorted(digests.values())  # a generated corpus, or files
        key = f"{data.name}-{sha256(json.dumps([split, *parts]).encode())[:8]}"
        if key not in self._texts:
            self._texts[key] = Texts(key, split, (data.pairs_of(split, digests) or [])[:SENTENCES])
        return self._texts[key]

    def translations(self, identity: str, texts: Texts | None) -> list[str]:
        """Return the first translations of the deciding test split; empty if there are none."""
        content = texts and self.store.content(identity, f"{texts.split}.hyp.txt")
        return content.decode("utf-8", "replace").removesuffix("\n").split("\n")[:SENTENCES] if content else []

    def maps(self, identity: str) -> dict[str, Any]:
        """Files with attention maps of a run by name: of one sentence, of every head, and of each validation.

        Raises:
            InputError: a file is no JSON.
        """
        maps: dict[str, Any] = {}
        for name in (ATTENTION, MAPS):
            if content := self.store.content(identity, name):
                maps[name] = files.parse_json(content.decode("utf-8", "replace"), self.store.where(identity))
        with suppress(InputError):  # older runs have none
            maps[VALIDATIONS] = self.store.learning(identity)
        return maps

    def sweep(self, spec: Spec) -> dict[str, Any]:
        """Return the content of the page of a sweep: question, its fields in words, arms with their runs, and table."""
        if self.published:
            markdown = self._table(f"{spec.name}.md")
            csv_text = self._table(f"{spec.name}.csv")
        else:
            comparison = compared(spec, self.runs).table
            markdown, csv_text = comparison.markdown(), comparison.csv()
        comment = re.match(r"(#.*\n)*", files.read_text(spec.path))
        text = comment[0] if comment else ""
        introduction = re.sub(r"^(# (tags:.*|metric:.*|blind)\n|# ?)", "", text, flags=re.MULTILINE)
        introduction = re.sub(r"^ +(?=[A-Z]\. )", "\n", introduction, flags=re.MULTILINE)  # each a paragraph
        introduction = COLUMNS.sub("\n```\n\\g<0>```\n\n", introduction)
        return {
            "name": spec.name,
            "about": spec.description,
            "introduction": html(introduction),
            "words": {label: arm_words(label) for label in LABEL.findall(introduction)},
            "table": html(EXPLAINED.sub(r"[docs/\1](\1) explains the columns", re.sub(r"^\*\*.*\n", "", markdown))),
            "numbers": [_numbers(row) for row in _rows(csv_text)],
            "arms": _arms(spec),
        }

    def pooled(self, name: str) -> dict[str, str]:
        """Return the content of the page of a published table that is of no single sweep."""
        title, _, rest = self._table(f"{name}.md").partition("\n")
        return {"title": title.strip("*"), "table": html(rest)}

    def _table(self, name: str) -> str:
        """Return the text of a published table."""
        return files.read_text(self.folder / "tables" / name, below=self.folder)

    def claims(self) -> Rows:
        """All claims, each with the sweeps of this site that its questions are asked of."""
        rows = []
        for file in self.claim_files:
            for claim in file.claims:
                row = {"id": str(claim.id), "statement": claim.statement, "published": claim.published}
                rows.append(row | {"sweeps": self._sweeps_of(claim)})
        return rows

    def _sweeps_of(self, claim: schema.Claim) -> list[str]:
        """Return the sweeps of this site that the questions of a claim are asked of."""
        names = {spec.path.stem: name for name, spec in self.specs.items()}
        sweeps = []
        for question in claim.questions:
            for sweep in filter(None, (question.sweep, *question.with_sweeps)):
                name = names.get(Path(sweep).stem)
                if name and name not in sweeps:
                    sweeps.append(name)
        return sweeps

    def verdicts(self) -> dict[str, Rows]:
        """Rows of the tables of the claims that these runs decide: summary and contrasts."""
        if self.published:
            return {"summary": _judged(self._table("summary.csv")), "contrasts": _judged(self._table("contrasts.csv"))}
        decided = [claim["id"] for claim in self.claims() if claim["sweeps"]]
        findings = evaluate(self.claim_files, self.runs, decided) if decided else []
        if not findings:
            return {"summary": [], "contrasts": []}
        summary, contrasts = as_csv(table.summary(findings)), as_csv(table.contrasts(findings))
        return {"summary": _judged(summary), "contrasts": _judged(contrasts)}


def pages(content: Content) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of every file of the site; the page comes last, so that a newer one has all its data.

    Raises:
        InputError: a record cannot be used.
    """
    yield from _runs(content)
    sweeps = [content.sweep(spec) for _, spec in sorted(content.specs.items())]
    for sweep in sweeps:
        yield _chunk(f"sweep/{sweep['name']}", sweep)
    verdicts = content.verdicts()
    yield _chunk("claims", verdicts)
    guide = CHECKOUT / "docs" / "statistics.md"
    yield _chunk("guide", html(files.read_text(guide)) if guide.is_file() else "")
    summaries = {row["id"]: row for row in verdicts["summary"]}
    first_page: dict[str, Any] = {
        "published": content.published,
        "claims": [c | {"summary": summaries[c["id"]]} for c in content.claims() if c["id"] in summaries],
        "findings": [],
        "answers": [],
        "hero": "",
        "pair": [],  # runs of the picture, shown side by side if nobody chooses others
        "sweeps": [{key: sweep[key] for key in ("name", "about", "arms")} for sweep in sweeps],
    }
    results = Results(content.folder)
    if content.published and answerable(results):
        for finding in findings(results):
            first_page["findings"].append(finding._asdict())
            for name in finding.more.values():
                if name not in content.specs:
                    yield _chunk(f"table/{name}", content.pooled(name))
        first_page["answers"] = _cards(results)
    picture = content.folder / HERO
    if content.published and picture.is_file():
        first_page["hero"] = HERO
        yield HERO, files.read(picture, below=content.folder)
    if content.published and (points := picture.with_name("hero.csv")).is_file():
        first_page["pair"] = [row["id"] for row in _rows(files.read_text(points)) if row["column"] == "map"]
    yield _chunk("site", first_page)
    for name in ("site.css", "site.js", "index.html"):
        yield name, (ASSETS / name).read_bytes()


def _cards(results: Results) -> Rows:
    """Return the answers of the first page, each with what its axis has as 0 and as 1: what is better lies left."""
    rows = []
    for declared, answer in zip(read_yaml(ANSWERS)["answers"], answers(results), strict=True):
        entry, number = numbers_of(results, declared["number"])
        unit = number["margin"] * _side(number["metric"])
        rows.append({"zero": entry["plus"], "margin": unit} | answer._asdict())
    return rows


def _arms(spec: Spec) -> Rows:
    """Return the arms of a sweep with the ids of their runs."""
    runs: dict[tuple[str, str], list[str]] = {}
    for cell in spec.runnable:
        runs.setdefault((cell.facet, cell.arm), []).append(cell.id)
    rows = []
    for (facet, arm), ids in runs.items():
        row = {"facet": facet, "arm": arm, "words": [arm_words(facet), arm_words(arm)], "runs": ids}
        metric = spec.metrics[facet]
        printed = {"metric": metric, "title": metrics.title(metric), "digits": metrics.decimals(metric)}
        rows.append(row | printed | {"baseline": arm == spec.baseline(facet)})
    return rows


def _runs(content: Content) -> Iterator[tuple[str, bytes]]:
    """Yield a file for each arm with its runs, their maps and texts, and the table of all runs."""
    facts = content.store.runs.drop(columns=UNUSED, errors="ignore").to_dict("records")
    texts: dict[str, Texts] = {}
    for arm, group in groupby(facts, lambda row: arm_of(row["id"])):
        rows = list(group)
        ids = [row["id"] for row in rows]
        text = next(filter(None, map(content.texts, ids)), None)
        if text:
            texts[text.key] = text
        maps = {}
        for row in rows:
            maps_of_run = content.maps(row["id"])
            if maps_of_run:
                maps[row["id"]] = maps_of_run
            row["maps"] = 2 if MAPS in maps_of_run else int(ATTENTION in maps_of_run)
            row["texts"] = text and text.key
            row["validations"] = len(maps_of_run.get(VALIDATIONS, ()))
            row.update({score.column: score.value for score in content.scores[row["id"]] if score.column})
        yield _chunk(f"arm/{arm}", _arm_page(content, ids, text))
        if maps:
            yield _chunk(f"maps/{arm}", maps)
    for key, text in texts.items():
        pairs = [[pair.source, pair.target] for pair in text.pairs]
        yield _chunk(f"texts/{key}", {"split": text.split, "pairs": pairs})
    yield _chunk("runs", _table_of_runs(facts))


def _arm_page(content: Content, ids: list[str], text: Texts | None) -> dict[str, Any]:
    """Return the runs of an arm. Lines and kinds of scores, which runs share, stand once; a run has their places."""
    lines, kinds = Places(), Places()
    runs: dict[str, dict[str, Any]] = {}
    for identity in ids:
        tree, scores = content.trees[identity], content.scores[identity]
        run = {part: tree.get(part) for part in OF_A_RUN}
        run["kind"] = kinds[tuple(score.kind for score in scores)]
        run["scores"] = [score.value for score in scores]
        run["heads"] = list(_heads(tree.get("diagnostics") or {}))
        run["curves"] = content.curves[identity]
        run["translations"] = [lines[line] for line in content.translations(identity, text)]
        runs[identity] = run
    key, config = text and text.key, content.trees[ids[0]]["config"]
    return {"texts": key, "lines": list(lines), "kinds": list(kinds), "runs": runs, "config": config}


def _table_of_runs(rows: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
    """Return the table of all runs: of each column its values, and the place of each run's value among them."""
    columns, titles, digits = {}, {}, {}
    frame = pd.DataFrame(rows)
    for name in map(str, frame.dropna(axis=1, how="all")):
        codes, values = pd.factorize(frame[name])
        columns[name] = [values.tolist(), codes.tolist()]
        if "/" in name:  # a score
            titles[name] = metrics.title(name)
            digits[name] = metrics.decimals(name)
    return {"columns": columns, "titles": titles, "digits": digits}


def _heads(diagnostics: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield a row for each head of each layer: where it is, and its measures."""
    for site in READS:
        for layer, measures in enumerate(diagnostics.get(site, ())):
            heads = zip_longest(*(measures.get(name) or () for name in OF_A_HEAD))
            yield from ([site, layer, head, *values] for head, values in enumerate(heads))


def html(markdown: str) -> str:
    """Return Markdown as HTML. HTML in it stays text, and pictures are left out."""
    from markdown_it import MarkdownIt

    return str(MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(markdown))


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def _numbers(row: dict[str, str]) -> dict[str, Any]:
    """Return a row of a CSV without its empty cells; numbers are numbers, but for ids."""
    values = numbers(row) | {"id": row.get("id"), "runs": None}
    return {key: value for key, value in values.items() if value is not None}


def _judged(text: str) -> Rows:
    """Return the rows of a table of claims: their numbers, what is printed of them, and arm ↦ number of its runs."""
    rows = []
    for row in _rows(text):
        cells = evidence(row)
        arms = Counter(map(arm_of, row.get("runs", "").split()))
        side = _side(row["metric"]) if row["metric"] else 1
        rows.append(_numbers(row) | {key: cells[key] for key in PRINTED} | {"arms": arms, "side": side})
    return rows


def _side(metric: str) -> int:
    """Return −1 if more of a score is better, else 1: an effect times this number is better if it is less."""
    return -1 if metrics.metric_of(metric).direction > 0 else 1


def address(name: str) -> str:
    """Return the file of `kind/name`, without its ending. Two names never share one, and none leads upwards.

    The script of the page does the same.
    """
    kind, slash, rest = name.partition("/")
    return kind + slash + re.sub(r"[^A-Za-z0-9_.-]", lambda match: f"~{ord(match[0]):x}~", rest)


def _chunk(name: str, tree: Any) -> tuple[str, bytes]:
    """Return a script that hands plain data to the page."""
    try:
        text = json.dumps(tree, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise InputError(f"{name}: expected finite numbers, got others. Remove the file that has them.") from None
    return f"data/{address(name)}.js", f"site.put({json.dumps(name)},{text})\n".encode()
