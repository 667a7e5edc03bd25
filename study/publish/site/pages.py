"""Pages of the site: from content to files by path. The same content gives the same bytes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from study import metrics
from study.analysis import run_text
from study.analysis.comparison import compares
from study.analysis.figures.run import pruning_curve
from study.analysis.labels import arm_words, number
from study.analysis.runs import primary
from study.claims import forest
from study.claims import table as verdict_table
from study.claims.verdicts import NOT_RUN, fragile, summaries
from study.config.overrides import flat
from study.files import CHECKOUT
from study.publish.site import facts, plots
from study.publish.site.content import Content, introduction, slug
from study.store import arm_of, seed_of

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
KINDS = {
    "holds": "holds",
    "fails": "fails",
    "mixed": "mixed",
    "not decided": "open",
    "not asked as published": "apart",
    "not yet run": "none",
    "none": "none",
}
"""Verdict ↦ its mark and colour."""
GUIDE = CHECKOUT / "docs" / "statistics.md"
"""Meaning of verdicts, columns and marks. A site that is built without a checkout has no such page."""
SHOWN = ("bleu", "exact", "nll")
Files = Iterator[tuple[str, bytes]]


def files(content: Content, version: str = "") -> Files:
    """Yield path and bytes of every file of the site.

    Args:
        content: what is shown.
        version: of a site that is served live; its pages ask for the next one. Empty: the pages ask for nothing.

    Raises:
        InputError: a record cannot be used.
    """
    yield from ((f"assets/{path.name}", path.read_bytes()) for path in sorted((HERE / "assets").iterdir()))
    pages = Pages(content, version)
    yield from pages.index()
    for name in content.sweeps:
        yield pages.sweep(name)
    for arm in content.arms:
        yield from pages.arm(arm)
    yield from pages.data()
    for name in sorted(pages.drawn):
        assert content.results is not None
        yield f"figures/{name}.svg", (content.results.root / "figures" / f"{name}.svg").read_bytes()


class Pages:
    """Writer of pages.

    Args:
        content: what is shown.
        version: see `files`.
    """

    def __init__(self, content: Content, version: str) -> None:
        self.content, self.version = content, version
        self.whole, self.weak = summaries(content.verdicts), fragile(content.verdicts)
        self.reading = GUIDE.is_file()
        self.drawn: set[str] = set()
        """Figures of the study that pages show."""
        self._claims_made: dict[str, dict[str, Any]] = {}
        self._arms_made: dict[str, list[dict[str, Any]]] = {}

    def index(self) -> Files:
        """Return the first page, a page for each claim, and the pages that scripts fill."""
        claims = self._claims()
        number_of = Counter(claim["whole"] for claim in claims)
        counts = [(word, KINDS[word], number_of[word]) for word in KINDS if number_of[word]]
        states = Counter(record.status for record in self.content.records.values())
        sweeps = [self._sweep_line(name) for name in self.content.sweeps]
        alone = [self._run_line(name) for name, places in self.content.members.items() if not places]
        running = [self._run_line(name) for name in self.content.unfinished]
        context = {"claims": claims, "counts": counts, "states": states, "sweeps": sweeps, "ticks": plots.ticks()}
        hashed = self.content.results.root_hash if self.content.results else ""
        yield self._page("index.html", "index", "", **context, alone=alone, running=running, root_hash=hashed)
        for before, claim, after in _neighbours(claims):
            rows = [row.cells for row in self.content.contrasts.get(claim["id"], [])]
            rows = [row for row in rows if row["finding"] != NOT_RUN]
            behind = [self._sweep_line(name) for name in claim["sweeps"]]
            title = f"Claim {claim['id']}: {claim['statement']}"
            context = {"claim": claim, "rows": rows, "sweeps": behind, "ticks": plots.ticks()}
            yield self._page(claim["path"], "claim", title, **context, before=before, after=after)
        if self.reading:
            yield self._page(
                "reading.html", "reading", "How to read the numbers", text=GUIDE.read_text(encoding="utf-8")
            )
        yield self._page("runs.html", "runs", "All runs", count=len(self.content.records))
        yield self._page("sentence.html", "sentence", "One sentence, two models")

    def sweep(self, name: str) -> tuple[str, bytes]:
        """Return the page of a sweep: question, figure, table, and the claims that it decides."""
        one, spec = self.content.sweeps[name], self.content.spec[name]
        claims = [claim for claim in self._claims() if name in claim["sweeps"]]
        figures = [plots.strips(one, facet, self._arms_of(name)) for facet in one.facets] if compares(spec) else []
        arms = self._arms_of(name)
        states = Counter(run.state for run in self.content.runs.of(spec))
        return self._page(
            _sweep_path(name), "sweep", name, sweep=self._sweep_line(name), introduction=introduction(spec),
            table=one.table, figures=figures, arms=arms, claims=claims, states=states,
            unit=metrics.title(primary(spec)), differences=plots.shows_differences(one), drawn=self._drawings(name),
        )  # fmt: skip

    def arm(self, arm: str) -> Files:
        """Return the page of an arm, the pages of its runs, and their sentences."""
        names = self.content.arms[arm]
        lines = [self._run_line(name) for name in names]
        places = self._places(names[0])
        records = {name: self.content.records.get(name) for name in names}
        known = {name: record for name, record in records.items() if record}
        first = next(iter(known.values()), None)
        tests = list(dict.fromkeys(s.split for record in known.values() for s in record.scores if s.split != "valid"))
        table = [[split, *(facts.spread(known.values(), split, metric) for metric in SHOWN)] for split in tests]
        yield self._page(
            _arm_path(arm), "arm", _title(places, arm), arm=arm, runs=lines, places=places, charts=self._curves(names),
            table=table, heads=[metrics.title(f"test/{name}") for name in SHOWN],
            configuration=list(run_text.configuration(first)) if first else [], beside=self._beside(names[0]),
        )  # fmt: skip
        for before, name, after in _neighbours(names):
            record = records[name]
            yield self._page(
                _run_path(name), "run", f"{_title(places, arm)}, seed {seed_of(name)}", id=name, record=record,
                line=self._run_line(name), before=before and self._run_line(before), places=places,
                after=after and self._run_line(after), arm={"name": _title(places, arm), "path": _arm_path(arm)},
                charts=self._curves([name]), facts=facts.origins(record) if record else [], beside=self._beside(name),
                scores=facts.scores(record) if record else None, heads=facts.heads(record) if record else [],
                configuration=list(run_text.configuration(record)) if record else [],
                whole=json.dumps(record.config, indent=1, ensure_ascii=False, sort_keys=True) if record else "",
                sentences=self._sentences(name) if record else [], mapped=bool(record and self.content.maps(name)),
            )  # fmt: skip
            if record and (maps := self.content.maps(name)):
                yield _chunk(f"maps/{slug(name)}", maps)
        if known:
            texts = self.content.texts(next(iter(known)))
            lines_of = {name: self.content.translations(name) for name in known}
            yield _chunk(f"arms/{slug(arm)}", {"texts": texts and slug(texts.key), "translations": lines_of})

    def data(self) -> Files:
        """Return the table of runs, and sources and references of test splits, as scripts load them."""
        yield _chunk("runs", self._table())
        for texts in self.content.all_texts():
            tree = {"split": texts.split, "pairs": [[pair.source, pair.target] for pair in texts.pairs]}
            yield _chunk(f"texts/{slug(texts.key)}", tree)

    def _page(self, path: str, template: str, title: str, **context: Any) -> tuple[str, bytes]:
        root = "../" * path.count("/")
        shared = {
            "root": root,
            "version": self.version,
            "title": title,
            "reading": self.reading,
            "published": self.content.results is not None,
        }
        return path, _templates().get_template(f"{template}.html").render(**shared, **context).encode()

    def _claims(self) -> list[dict[str, Any]]:
        """Return every claim with its rows, for the forest plot, and the row that stands for it."""
        if not self._claims_made:
            chosen = forest.deciding(self.content.verdicts)
            for verdict, row in zip(self.content.verdicts, self.content.verdict_rows, strict=True):
                name = str(verdict.claim.id)
                claim = self._claims_made.setdefault(
                    name,
                    {
                        "id": name,
                        "path": f"claims/{slug(name)}.html",
                        "statement": verdict.claim.statement,
                        "published": verdict.claim.published,
                        "whole": self.whole[name],
                        "kind": KINDS[self.whole[name]],
                        "fragile": name in self.weak,
                        "parts": forest.parts(self.content.verdicts, name),
                        "rows": [],
                        "sweeps": [],
                    },
                )
                asked = verdict.question
                names = [self.content.sweep_name(one) for one in (asked.sweep, *asked.with_sweeps)]
                there = [one for one in names if one in self.content.sweeps]
                claim["sweeps"] = list(dict.fromkeys([*claim["sweeps"], *there]))
                word = verdict.outcome if verdict.outcome != "none" else "descriptive"
                ends = forest.in_margins(verdict, verdict.deciding)
                marks = {"outcome": word, "kind": KINDS[verdict.outcome]}
                marks["others"] = verdict_table.other_verdicts(verdict)
                claim["rows"].append({**row.cells, **marks, "plot": ends and plots.places(ends)})
                if verdict is chosen[name]:
                    claim["deciding"] = claim["rows"][-1]
        return list(self._claims_made.values())

    def _sweep_line(self, name: str) -> dict[str, Any]:
        spec = self.content.spec[name]
        states = Counter(run.state for run in self.content.runs.of(spec) if run.state != "inapplicable")
        claims = [claim for claim in self._claims() if name in claim["sweeps"]]
        counts = {"arms": sum(map(len, spec.arms.values())), "runs": sum(states.values()), "claims": claims}
        return {"name": name, "path": _sweep_path(name), "about": spec.description, "states": states, **counts}

    def _run_line(self, name: str) -> dict[str, Any]:
        """Row of a run in lists of runs."""
        record, open_ = self.content.records.get(name), self.content.unfinished.get(name)
        split = next((s.split for s in record.scores if s.split != "valid"), "") if record else ""
        known = {m: record.score(split, m) if record else None for m in SHOWN}
        scores = {m: number(value, metrics.decimals(f"test/{m}")) for m, value in known.items()}
        steps = open_.steps if open_ else None
        state = record.status if record else f"step {steps[0]} of {steps[1]}" if steps else "started"
        title = _title(self._places(name), arm_of(name))
        return {
            "id": name,
            "name": title,
            "path": _run_path(name),
            "seed": seed_of(name),
            "state": state,
            "split": split,
            **scores,
        }

    def _places(self, name: str) -> list[dict[str, Any]]:
        """Sweeps that declare a run, with its facet and arm in words."""
        return [
            {
                "sweep": self._sweep_line(one.spec.name),
                "facet": arm_words(one.run.facet),
                "arm": arm_words(one.run.arm),
                "baseline": one.baseline,
                "others": [a for a in self._arms_of(one.spec.name) if a["facet"] == arm_words(one.run.facet)],
            }
            for one in self.content.members[name]
        ]

    def _arms_of(self, sweep: str) -> list[dict[str, Any]]:
        """Arms of a sweep with their pages, in the order of the file."""
        if sweep in self._arms_made:
            return self._arms_made[sweep]
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for run in self.content.runs.of(self.content.spec[sweep]):
            there = run.id in self.content.members
            words = {"facet": arm_words(run.facet), "name": arm_words(run.arm)}
            one = found.setdefault((run.facet, run.arm), {**words, "path": "", "runs": {}})
            if there:
                one["path"] = _arm_path(arm_of(run.id))
                one["runs"][seed_of(run.id)] = {"path": _run_path(run.id), "id": run.id}
        for (facet, arm), one in found.items():
            one["key"] = (facet, arm)
        return self._arms_made.setdefault(sweep, list(found.values()))

    def _beside(self, name: str) -> str:
        """The run to compare with: the same seed of the first sweep's baseline, or of the arm after the baseline."""
        for one in self.content.members[name]:
            arms = [a for a in self._arms_of(one.spec.name) if a["key"][0] == one.run.facet]
            others = [a["runs"].get(seed_of(name)) for a in arms if a["key"][1] != one.run.arm]
            for other in others:
                if other and other["id"] in self.content.records:
                    return str(other["id"])
        return ""

    def _curves(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Learning curves on validation: of one run both in one chart, of several a chart for each quantity."""
        found = {name: self._points(name) for name in names}
        if len(names) == 1:
            record = self.content.records.get(names[0])
            if record and (kept := pruning_curve(record)):
                heads = [round(100 * (1 - share), 4) for share, _ in reversed(kept)]
                line = {"label": "BLEU on test", "values": [value for _, value in reversed(kept)]}
                return [
                    {
                        "title": "BLEU by share of heads removed",
                        "x": heads,
                        "label": "heads removed, %",
                        "lines": [line],
                    }
                ]
            steps = sorted({point["step"] for point in found[names[0]]})
            lines = [
                plots.line(title, steps, found[names[0]], key) | {"side": side} for key, title, side in plots.CURVES
            ]
            tested = record.selection.step if record and record.selection else None
            lines = [line for line in lines if any(v is not None for v in line["values"])]
            chart = {"title": "Learning curves", "x": steps, "label": "update", "lines": lines, "mark": tested}
            return [chart] if steps and lines else []
        charts = []
        for key, title, _ in plots.CURVES[:2]:
            steps = sorted({point["step"] for some in found.values() for point in some})
            lines = [plots.line(f"seed {seed_of(name)}", steps, some, key) for name, some in found.items()]
            lines = [line for line in lines if any(v is not None for v in line["values"])]
            if lines:
                charts.append({"title": title, "x": steps, "label": "update", "lines": lines})
        return charts

    def _points(self, name: str) -> Sequence[Mapping[str, Any]]:
        record = self.content.records.get(name)
        return record.history if record else self.content.unfinished[name].history

    def _sentences(self, name: str) -> list[dict[str, Any]]:
        """The first translations that differ from their references, or the first ones where these are not known."""
        texts, made = self.content.texts(name), self.content.translations(name)
        if texts is None or not texts.pairs:
            return [
                {"line": i, "split": texts.split if texts else "", "hypothesis": text}
                for i, text in enumerate(made[:5])
            ]
        both: list[dict[str, Any]] = [
            {"line": i, "split": texts.split, "source": pair.source, "reference": pair.target, "hypothesis": text}
            for i, (pair, text) in enumerate(zip(texts.pairs, made, strict=False))
        ]
        return ([one for one in both if one["hypothesis"].strip() != one["reference"].strip()] or both)[:5]

    def _drawings(self, sweep: str) -> list[dict[str, str]]:
        """Figures of the study that show this sweep."""
        if self.content.results is None:
            return []
        from study.analysis.figures.catalogue import chosen

        there = [f for f in chosen([]) if sweep in f.sweeps]
        paths = [(f.name, self.content.results.root / "figures" / f"{f.name}.svg") for f in there]
        names = [name for name, path in paths if path.is_file()]
        self.drawn.update(names)
        return [{"name": name, "path": f"figures/{name}.svg"} for name in names]

    def _table(self) -> dict[str, Any]:
        """Return every run with every field; what most arms have alike stands once."""
        configs = {}
        for arm, names in self.content.arms.items():
            record = next((self.content.records[name] for name in names if name in self.content.records), None)
            if record:
                fields_of = {name: value for name, value in flat(record.config) if name != "seed"}
                configs[arm] = fields_of | {"parameters": record.model.parameters if record.model else None}
        fields = sorted({name for config in configs.values() for name in config})
        usual = {name: _most_common([config.get(name) for config in configs.values()]) for name in fields}
        arms: dict[str, Any] = {}
        shapes: dict[tuple[str, ...], int] = {}
        for arm, config in configs.items():
            names = self.content.arms[arm]
            places = self._places(names[0])
            texts = self.content.texts(next(name for name in names if name in self.content.records))
            arms[arm] = {
                "name": _title(places, arm),
                "sweeps": [place["sweep"]["name"] for place in places],
                "texts": texts and slug(texts.key),
                "config": {name: config.get(name) for name in fields if config.get(name) != usual[name]},
            }
        runs: list[list[Any]] = []
        for name, record in self.content.records.items():
            scores = {f"{s.split}/{s.metric}": s.value for s in record.scores if s.subset is None} | facts.costs(record)
            shape = shapes.setdefault(tuple(scores), len(shapes))
            mapped = len(self.content.maps(name))
            runs.append([name, arm_of(name), record.seed, record.status, mapped, shape, list(scores.values())])
        decimals = {
            name: metrics.decimals(name) for shape in shapes for name in shape if "/" in name and name != "tokens/s"
        }
        slugs = {name: slug(name) for name in (*self.content.arms, *self.content.records) if slug(name) != name}
        return {
            "usual": usual,
            "arms": arms,
            "shapes": list(shapes),
            "runs": runs,
            "files": slugs,
            "decimals": decimals,
        }


def _title(places: Sequence[Mapping[str, Any]], arm: str) -> str:
    """Return name of an arm in words: that of its first sweep; its id where no sweep declares it."""
    if not places:
        return arm
    first = places[0]
    return ", ".join(word for word in (first["arm"], first["facet"]) if word)


def _sweep_path(name: str) -> str:
    return f"sweeps/{slug(name)}.html"


def _arm_path(arm: str) -> str:
    return f"arms/{slug(arm)}.html"


def _run_path(name: str) -> str:
    return f"runs/{slug(name)}.html"


def _chunk(name: str, tree: Any) -> tuple[str, bytes]:
    """A script that hands plain data to the page. A page from the file system may load scripts, and nothing else."""
    text = json.dumps(tree, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return f"data/{name}.js", f"site.put({json.dumps(name)},{text})\n".encode()


def _neighbours(items: Sequence[Any]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield each item with the one before and the one after."""
    for place, item in enumerate(items):
        yield items[place - 1] if place else None, item, items[place + 1] if place + 1 < len(items) else None


def _most_common(values: Sequence[Any]) -> Any:
    counts = Counter(json.dumps(value) for value in values)
    return json.loads(counts.most_common(1)[0][0]) if counts else None


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"prose": _prose, "whole": _whole}
    return made


def _prose(text: str, block: bool = False) -> Markup:
    """Markdown as HTML. HTML in the text stays text, and links to other documents lose their address."""
    from markdown_it import MarkdownIt

    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    return Markup(made.render(plain) if block else made.renderInline(plain))


def _whole(text: str) -> Markup:
    """Text in which 1/√d is not broken."""
    return Markup(str(escape(text)).replace("1/√d", '<span class="whole">1/√d</span>'))
