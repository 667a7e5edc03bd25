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
        self.folder, self.known, self.runs = folder, schema.read_all(claims), Runs(folder, sweeps)
        self.store = self.runs.store
        self.published, self._splits = self.store.published, dict[str, Texts]()
        self.trees = {name: self.store.rest(name) for name in self.store.runs.get("id", ())}
        own = [] if self.published else [folder.resolve().parent, *([claims.parent] if claims else [])]
        self.specs: dict[str, Spec] = {}
        for path in [path for place in (sweeps, *own) for path in sorted(place.glob("*.yaml"))]:
            with suppress(InputError):  # these folders may have other files
                spec = load(path)
                begun = any(cell.id in self.trees for cell in spec.cells)
                if (folder / "tables" / f"{spec.name}.csv").is_file() if self.published else begun:
                    self.specs.setdefault(spec.name, spec)

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
        found = {name: self.store.content(identity, name) for name in (ATTENTION, MAPS)}
        where = self.store.where(identity)
        maps = {name: files.parse_json(text.decode("utf-8", "replace"), where) for name, text in found.items() if text}
        with suppress(InputError):  # older runs have none
            maps[VALIDATIONS] = self.store.learning(identity)
        return maps

    def sweep(self, spec: Spec) -> dict[str, Any]:
        """Return the content of the page of a sweep: question, arms with their runs, table as Markdown and numbers."""
        if self.published:
            paths = [self.folder / "tables" / f"{spec.name}{suffix}" for suffix in (".md", ".csv")]
            markdown, cells = (files.read_text(path, below=self.folder) for path in paths)
        else:
            made = compared(spec, self.runs).table
            markdown, cells = made.markdown(), made.csv()
        arms: dict[tuple[str, str], list[str]] = {}
        for cell in spec.runnable:
            arms.setdefault((spec.facet(cell), spec.arm(cell)), []).append(cell.id or "")
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
        by_file, found = {spec.path.stem: name for name, spec in self.specs.items()}, []
        for one in (claim for file in self.known for claim in file.claims):
            asked = [Path(name).stem for q in one.questions for name in (q.sweep, *q.with_sweeps) if name]
            sweeps = [by_file[name] for name in dict.fromkeys(asked) if name in by_file]
            found.append({"id": str(one.id), "statement": one.statement, "published": one.published, "sweeps": sweeps})
        return found

    def verdicts(self) -> dict[str, Rows]:
        """Rows of the tables of the claims that these runs decide: summary and contrasts."""
        names = ("summary", "contrasts")
        if self.published:
            texts = [files.read_text(self.folder / "tables" / f"{name}.csv", below=self.folder) for name in names]
        else:
            wanted = [claim["id"] for claim in self.claims() if claim["sweeps"]]
            found = evaluate(self.known, self.runs, wanted) if wanted else []
            made = [table.summary(found), table.contrasts(found)] if found else []
            texts = [as_csv(one) for one in made] or [""] * len(names)
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
    drawn = {key: f"figures/{name}.svg" for key, name in FIGURES.items() if content.published}
    drawn = {key: name for key, name in drawn.items() if (content.folder / name).is_file()}
    for name in drawn.values():
        yield name, files.read(content.folder / name, below=content.folder)
    answers = ANSWERS.search(files.read_text(readme)) if content.published and readme.is_file() else None
    judged = {row["id"]: row for row in verdicts["summary"]}
    claims = [one | {"summary": judged[one["id"]]} for one in content.claims() if one["id"] in judged]
    main = {"published": content.published, "figures": drawn, "claims": claims}
    main |= {"answers": html(re.sub(r"<!--.*?-->", "", answers[0])) if answers else ""}
    yield _chunk("site", main | {"sweeps": [{key: one[key] for key in ("name", "about", "arms")} for one in sweeps]})
    for name in ("site.css", "site.js", "index.html"):
        yield name, (ASSETS / name).read_bytes()


def _runs(content: Content) -> Iterator[tuple[str, bytes]]:
    """Yield the table of runs, a file for each arm with its runs, and their maps and texts."""
    scores, curves = content.store.scores.astype(object), content.store.curves
    # Left out: runs that were made since, and rows that an interrupted `publish` left.
    scores, curves = (rows[rows["id"].isin(content.trees)] for rows in (scores, curves))
    keys, whole = scores.split + "/" + scores.metric, scores.subset.isna()
    keys = keys.where(whole, keys + "/" + scores.subset)
    whole |= keys.isin([primary(spec) for spec in content.specs.values()])  # the figures of sweeps show runs by these
    scores = scores.where(scores.notna(), None).assign(key=keys.where(whole, None))
    scored: dict[Any, list[Any]] = {name: [] for name in content.trees}
    for name, value, key, *kind in scores[["id", "value", "key", *KIND]].itertuples(index=False, name=None):
        scored[name].append((tuple(kind), value, key))
    drawn: dict[Any, dict[Any, Any]] = {name: {} for name in content.trees}
    curves = curves[curves["name"].isin(CURVES) & curves["value"].notna()]
    for (name, curve), points in curves.groupby(["id", "name"], observed=True):
        drawn[name][curve] = points[["step", "value"]].values.tolist()
    facts = content.store.runs.drop(columns=UNUSED, errors="ignore").to_dict("records")
    table, texts = list[dict[Any, Any]](), dict[str, Texts]()
    for arm, some in groupby(facts, lambda row: arm_of(row["id"])):
        rows, lines, runs, maps = list(some), dict[str, int](), {}, dict[str, Any]()
        kinds = dict[tuple[Any, ...], int]()
        text = next(filter(None, (content.texts(row["id"]) for row in rows)), None)
        texts |= {text.key: text} if text else {}
        for row in rows:
            name, found = row["id"], content.maps(row["id"])
            maps |= {name: found} if found else {}
            runs[name] = {key: content.trees[name].get(key) for key in OF_A_RUN} | {
                "kind": kinds.setdefault(tuple(kind for kind, _, _ in scored[name]), len(kinds)),
                "scores": [value for _, value, _ in scored[name]],
                "heads": list(_heads(content.trees[name].get("diagnostics") or {})),
                "curves": drawn[name],
                "translations": [lines.setdefault(line, len(lines)) for line in content.translations(name, text)],
            }
            row |= {"maps": 2 if MAPS in found else int(ATTENTION in found), "texts": text and text.key}
            row |= {"validations": len(found.get(VALIDATIONS, ()))}
            table.append(row | {key: value for _, value, key in scored[name] if key})
        config = content.trees[rows[0]["id"]]["config"]
        page = {"texts": text and text.key, "lines": list(lines), "kinds": list(kinds), "runs": runs, "config": config}
        yield _chunk(f"arm/{arm}", page)
        if maps:
            yield _chunk(f"maps/{arm}", maps)
    for key, text in texts.items():
        pairs = [[pair.source, pair.target] for pair in text.pairs]
        yield _chunk(f"texts/{key}", {"split": text.split, "pairs": pairs})
    columns: dict[str, Any] = {}
    frame = pd.DataFrame(table)
    for name in map(str, frame.dropna(axis=1, how="all")):  # its values, and the place of each run's value
        codes, values = pd.factorize(frame[name])
        columns[name] = [values.tolist(), codes.tolist()]
    scores_shown = [name for name in columns if "/" in name]
    titles = {name: metrics.title(name) for name in scores_shown}
    digits = {name: metrics.decimals(name) for name in scores_shown}
    yield _chunk("runs", {"columns": columns, "titles": titles, "digits": digits})


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
    known = numbers(row) | {"id": row.get("id"), "runs": None}
    return {key: value for key, value in known.items() if value is not None}


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
