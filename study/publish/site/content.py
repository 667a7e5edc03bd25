"""Content of the site: the runs of one folder, what sweeps and claims say of them, and the files of one page app.

The page is a script, and its data are scripts, because a page of the file system may load nothing else. Tables that
are published are shown as they are; those of a folder of runs are computed. Equal content gives equal bytes.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import ValidationError

from study import files
from study.analysis.labels import arm_words
from study.analysis.report import compared
from study.analysis.runs import Runs, primary
from study.analysis.tables import as_csv
from study.claims import schema, table
from study.claims.evaluate import evaluate
from study.config import Experiment
from study.config.sites import READS
from study.corpora import Pair
from study.errors import InputError
from study.folders import CHECKOUT
from study.publish.paper import evidence, numbers
from study.scores import metrics
from study.store.folder import ATTENTION, VALIDATIONS, sha256
from study.store.rows import arm_of
from study.sweep.spec import Spec, load

SENTENCES = 100
"""Sentences of the deciding test split whose translations the site has."""
MAPS = "maps.json"
"""File beside a record with maps of several sentences, by site, layer and head."""
ASSETS = Path(__file__).parent / "assets"
FIGURES = {
    "claim-1": "lengths", "claim-4": "scale", "claim-14": "pruning",
    "agreement-transfer": "transfer", "agreement-longer": "longer",
}  # fmt: skip
"""Source of an answer in README.md ↦ the figure that shows it. Without one, its sweep is drawn."""
ANSWERS = re.compile(r"(?:[^\n]+\n)+\n\| question \| answer \|.*\n(?:\|.*\n)+")
"""The table of questions in README.md, and the paragraph before it."""
CURVES = ["valid_bleu", "valid_loss", "train_loss"]
OF_A_RUN = ("error", "selection", "wandb")
"""Parts of a record that the page of a run shows, beside the fields of the table of runs."""
OF_A_HEAD = ("entropy", "max_weight", "gold_mass", "logit_sd", "information")
"""Measures of a head that the page of a run shows."""
KIND = ["split", "subset", "metric", "n"]
"""Columns of scores that tell what a value is of. Most runs of an arm share them."""
UNUSED = ["sweeps", "labels", "packages", "data_files", "sha256"]
"""Columns of runs that the table of runs does not have."""
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
        self.folder, self.claim_files, self.runs = folder, schema.read_all(claims), Runs(folder, sweeps)
        self.store = self.runs.store
        self.published, self._splits = self.store.published, dict[str, Texts]()
        self.trees = {name: self.store.rest(name) for name in self.store.runs.get("id", ())}
        folders = [sweeps]
        if not self.published:
            folders.append(folder.resolve().parent)
            if claims:
                folders.append(claims.parent)
        self.specs: dict[str, Spec] = {}
        for path in [path for each in folders for path in sorted(each.glob("*.yaml"))]:
            with suppress(InputError):  # these folders may have other files
                spec = load(path)
                if self._has(spec):
                    self.specs.setdefault(spec.name, spec)

    def _has(self, spec: Spec) -> bool:
        """Return True if there is something to show of a sweep: its published table, or a run."""
        if self.published:
            return (self.folder / "tables" / f"{spec.name}.csv").is_file()
        return any(cell.id in self.trees for cell in spec.cells)

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
        if key not in self._splits:
            self._splits[key] = Texts(key, split, (data.pairs_of(split, digests) or [])[:SENTENCES])
        return self._splits[key]

    def translations(self, identity: str, texts: Texts | None) -> list[str]:
        """Return the first translations of the deciding test split; empty if there are none."""
        content = texts and self.store.content(identity, f"{texts.split}.hyp.txt")
        return content.decode("utf-8", "replace").removesuffix("\n").split("\n")[:SENTENCES] if content else []

    def maps(self, identity: str) -> dict[str, Any]:
        """Files with attention maps of a run by name: of one sentence, of every head, and of each validation.

        Raises:
            InputError: a file is no JSON.
        """
        where, maps = self.store.where(identity), dict[str, Any]()
        for name in (ATTENTION, MAPS):
            if content := self.store.content(identity, name):
                maps[name] = files.parse_json(content.decode("utf-8", "replace"), where)
        with suppress(InputError):  # older runs have none
            maps[VALIDATIONS] = self.store.learning(identity)
        return maps

    def sweep(self, spec: Spec) -> dict[str, Any]:
        """Return the content of the page of a sweep: question, arms with their runs, table as Markdown and numbers."""
        if self.published:
            paths = [self.folder / "tables" / f"{spec.name}{suffix}" for suffix in (".md", ".csv")]
            markdown, cells = (files.read_text(path, below=self.folder) for path in paths)
        else:
            comparison = compared(spec, self.runs).table
            markdown, cells = comparison.markdown(), comparison.csv()
        arms: dict[tuple[str, str], list[str]] = {}
        for cell in spec.runnable:
            arms.setdefault((cell.facet, cell.arm), []).append(cell.id)
        comment, metric = re.match(r"(#.*\n)*", files.read_text(spec.path)), primary(spec)
        introduction = re.sub(r"^(# tags:.*\n|# ?)", "", comment[0] if comment else "", flags=re.MULTILINE)
        return {
            "name": spec.name, "about": spec.description, "metric": metric,
            "title": metrics.title(metric), "digits": metrics.decimals(metric),
            "introduction": html(introduction), "table": html(re.sub(r"^\*\*.*\n", "", markdown)),
            "numbers": [_numbers(row) for row in _rows(cells)],
            "arms": [
                {"facet": facet, "arm": arm, "words": [arm_words(facet), arm_words(arm)], "runs": runs}
                | {"baseline": arm == spec.baseline(facet)}
                for (facet, arm), runs in arms.items()
            ],
        }  # fmt: skip

    def claims(self) -> Rows:
        """All claims, each with the sweeps of this site that its questions are asked of."""
        by_file = {spec.path.stem: name for name, spec in self.specs.items()}
        rows: Rows = []
        for claim in (claim for file in self.claim_files for claim in file.claims):
            sweeps: list[str] = []
            for question in claim.questions:
                for path in (question.sweep, *question.with_sweeps):
                    name = by_file.get(Path(path or "").stem)
                    if name and name not in sweeps:
                        sweeps.append(name)
            row = {"id": str(claim.id), "statement": claim.statement, "published": claim.published, "sweeps": sweeps}
            rows.append(row)
        return rows

    def verdicts(self) -> dict[str, Rows]:
        """Rows of the tables of the claims that these runs decide: summary and contrasts."""
        names = ("summary", "contrasts")
        if self.published:
            texts = [files.read_text(self.folder / "tables" / f"{name}.csv", below=self.folder) for name in names]
        else:
            wanted = [claim["id"] for claim in self.claims() if claim["sweeps"]]
            findings = evaluate(self.claim_files, self.runs, wanted) if wanted else []
            texts = [as_csv(table.summary(findings)), as_csv(table.contrasts(findings))] if findings else ["", ""]
        return {name: [_judged(row) for row in _rows(text)] for name, text in zip(names, texts, strict=True)}


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
    guide, readme = CHECKOUT / "docs" / "statistics.md", content.folder.parent / "README.md"
    yield _chunk("guide", html(files.read_text(guide)) if guide.is_file() else "")
    figures, answers = {}, None
    if content.published:
        for key, name in FIGURES.items():
            path = content.folder / "figures" / f"{name}.svg"
            if path.is_file():
                figures[key] = f"figures/{name}.svg"
                yield figures[key], files.read(path, below=content.folder)
        answers = ANSWERS.search(files.read_text(readme)) if readme.is_file() else None
    summaries = {row["id"]: row for row in verdicts["summary"]}
    claims = [claim | {"summary": summaries[claim["id"]]} for claim in content.claims() if claim["id"] in summaries]
    main = {"published": content.published, "figures": figures, "claims": claims}
    main["answers"] = html(re.sub(r"<!--.*?-->", "", answers[0])) if answers else ""
    main["sweeps"] = [{key: sweep[key] for key in ("name", "about", "arms")} for sweep in sweeps]
    yield _chunk("site", main)
    for name in ("site.css", "site.js", "index.html"):
        yield name, (ASSETS / name).read_bytes()


def _runs(content: Content) -> Iterator[tuple[str, bytes]]:
    """Yield the table of runs, a file for each arm with its runs, and their maps and texts."""
    scores, curves = _scores(content), _curves(content)
    table, texts = list[dict[Any, Any]](), dict[str, Texts]()
    facts = content.store.runs.drop(columns=UNUSED, errors="ignore").to_dict("records")
    for arm, group in groupby(facts, lambda row: arm_of(row["id"])):
        rows = list(group)
        text = next(filter(None, (content.texts(row["id"]) for row in rows)), None)
        if text:
            texts[text.key] = text
        maps = {row["id"]: found for row in rows if (found := content.maps(row["id"]))}
        lines, kinds, runs = dict[str, int](), dict[tuple[Any, ...], int](), dict[str, Any]()
        for row in rows:
            name = row["id"]
            kind = tuple(score.kind for score in scores[name])
            runs[name] = {key: content.trees[name].get(key) for key in OF_A_RUN} | {
                "kind": kinds.setdefault(kind, len(kinds)),
                "scores": [score.value for score in scores[name]],
                "heads": list(_heads(content.trees[name].get("diagnostics") or {})),
                "curves": curves[name],
                "translations": [lines.setdefault(line, len(lines)) for line in content.translations(name, text)],
            }
            kept = maps.get(name, {})
            row["maps"] = 2 if MAPS in kept else int(ATTENTION in kept)
            row["texts"] = text and text.key
            row["validations"] = len(kept.get(VALIDATIONS, ()))
            table.append(row | {score.key: score.value for score in scores[name] if score.key})
        config = content.trees[rows[0]["id"]]["config"]
        page = {"texts": text and text.key, "lines": list(lines), "kinds": list(kinds), "runs": runs, "config": config}
        yield _chunk(f"arm/{arm}", page)
        if maps:
            yield _chunk(f"maps/{arm}", maps)
    for key, text in texts.items():
        pairs = [[pair.source, pair.target] for pair in text.pairs]
        yield _chunk(f"texts/{key}", {"split": text.split, "pairs": pairs})
    yield _chunk("runs", _columns(table))


class Scored(NamedTuple):
    """A score of a run.

    Attributes:
        kind: what the value is of, the columns `KIND`.
        value: None where the run has none.
        key: name in the table of runs, `split/metric/subset`; None for a score that the table does not have.
    """

    kind: tuple[Any, ...]
    value: float | None
    key: str | None


def _scores(content: Content) -> dict[str, list[Scored]]:
    """Return the scores of each run. The table of runs has those of whole splits, and those of figures of sweeps."""
    scores = content.store.scores.astype(object)
    keys, whole = scores["split"] + "/" + scores["metric"], scores["subset"].isna()
    keys = keys.where(whole, keys + "/" + scores["subset"])
    in_table = whole | keys.isin([primary(spec) for spec in content.specs.values()])
    scores = scores.where(scores.notna(), None).assign(key=keys.where(in_table, None))
    by_run: dict[str, list[Scored]] = {name: [] for name in content.trees}
    for name, value, key, *kind in scores[["id", "value", "key", *KIND]].itertuples(index=False, name=None):
        if name in by_run:  # not one that was made since, or that an interrupted `publish` left
            by_run[name].append(Scored(tuple(kind), value, key))
    return by_run


def _curves(content: Content) -> dict[str, dict[str, list[list[float]]]]:
    """Return the points (step, value) of the curves of each run, by name."""
    curves = content.store.curves
    curves = curves[curves["name"].isin(CURVES) & curves["value"].notna() & curves["id"].isin(content.trees)]
    by_run: dict[Any, dict[Any, Any]] = {name: {} for name in content.trees}
    for (name, curve), points in curves.groupby(["id", "name"], observed=True):
        by_run[name][curve] = points[["step", "value"]].values.tolist()
    return by_run


def _columns(table: list[dict[Any, Any]]) -> dict[str, Any]:
    """Return the table of runs by column (its values, and the place of each run's value), and titles of scores."""
    frame = pd.DataFrame(table).dropna(axis=1, how="all")
    columns: dict[str, Any] = {}
    for name in map(str, frame):
        codes, values = pd.factorize(frame[name])
        columns[name] = [values.tolist(), codes.tolist()]
    scores = [name for name in columns if "/" in name]
    titles = {name: metrics.title(name) for name in scores}
    return {"columns": columns, "titles": titles, "digits": {name: metrics.decimals(name) for name in scores}}


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
    cells = numbers(row) | {"id": row.get("id"), "runs": None}
    return {key: value for key, value in cells.items() if value is not None}


def _judged(row: dict[str, str]) -> dict[str, Any]:
    """Return a row of a table of claims: its numbers, and what is printed of it."""
    cells, shown = evidence(row), ("asked", "contrast", "measure", "estimate", "interval", "inner", "second")
    return _numbers(row) | {key: cells[key] for key in shown}


def address(name: str) -> str:
    """Return the file of `kind/name`, without its ending. Two names never share one, and none leads upwards.

    The script of the page does the same.
    """
    kind, slash, rest = name.partition("/")
    return kind + slash + re.sub(r"[^A-Za-z0-9_.-]", lambda found: f"~{ord(found[0]):x}~", rest)


def _chunk(name: str, tree: Any) -> tuple[str, bytes]:
    """Return a script that hands plain data to the page."""
    try:
        text = json.dumps(tree, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise InputError(f"{name}: expected finite numbers, got others. Remove the file that has them.") from None
    return f"data/{address(name)}.js", f"site.put({json.dumps(name)},{text})\n".encode()
