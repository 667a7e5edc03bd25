"""Content of the site: sweeps, verdicts, runs and sentences of one folder, each read or computed once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from study import files, records
from study.analysis.comparison import Compared, compare_arms
from study.analysis.runs import DeclaredRun, Runs
from study.claims import costs, schema, table
from study.claims.evaluate import evaluate
from study.claims.verdicts import NOT_RUN, Verdict
from study.config import Experiment
from study.corpora import Pair
from study.errors import InputError
from study.files import CHECKOUT
from study.publish import models
from study.publish.report import remarked
from study.publish.results import Results
from study.records import Record
from study.store import Store, arm_of, attention_map, is_results, sha256
from study.sweep.spec import Spec

if TYPE_CHECKING:
    from study.analysis.tables import Row

SWEEP_FILES = (".yaml", ".yml")
SENTENCES = 100
"""Sentences of the deciding test split whose translations the site has."""
MAPS = "maps.json"
"""File beside a record with maps of several sentences, by site, layer and head."""


class Member(NamedTuple):
    """A run's place in a sweep: the run of `study.analysis.runs`, and whether its arm is the baseline."""

    spec: Spec
    run: DeclaredRun
    baseline: bool


class Texts(NamedTuple):
    """Sentences of a test split. `pairs` is empty where the corpus is not on this machine."""

    key: str
    split: str
    pairs: list[Pair]


class Unfinished(NamedTuple):
    """A run without a record: the points of its learning curve so far, and its steps (done, all)."""

    id: str
    history: list[dict[str, Any]]
    steps: tuple[int, int] | None


class Content:
    """Content of a site.

    Args:
        folder: `results/`, or a folder of runs.
        sweeps: folder of the sweep files; published sweeps name theirs.
        claims: file with claims beside those of the study.

    Raises:
        InputError: a sweep file, a record or the file of claims cannot be used.
    """

    def __init__(self, folder: Path, sweeps: Path, claims: Path | None = None) -> None:
        self.results = Results(folder) if is_results(folder) else None
        self.claims = schema.read_all(claims)
        self._beside = claims.parent if claims else Path()
        self.runs = Runs(folder, CHECKOUT / "sweeps")
        self.store = Store(folder)
        self.records: dict[str, Record] = self.runs.records()
        self.unfinished = {} if self.results else {one.id: one for one in _unfinished(self.store.folder, self.records)}
        there = self.records.keys() | self.unfinished.keys()
        declared = [self.runs.spec(str(path)) for path in self._sweep_files(sweeps)]
        self.specs = [spec for spec in declared if self.results or any(cell.id in there for cell in spec.cells)]
        self._texts: dict[str, Texts] = {}
        self._arm_texts: dict[str, Texts | None] = {}
        self._maps: dict[str, list[dict[str, Any]]] = {}

    def _sweep_files(self, sweeps: Path) -> list[Path]:
        """Return the files of the published sweeps; for a folder of runs, all files of a folder and those of claims."""
        if self.results is None:
            asked = [q.sweep for file in self.claims for c in file.claims for q in c.questions]
            own = [self._beside / name for name in asked if name and name.endswith(SWEEP_FILES)]
            return list(dict.fromkeys(path.resolve() for path in [*sorted(sweeps.glob("*.yaml")), *own]))
        beside, named = self.results.root.resolve().parent, [m.file for m in self.results.manifests.values()]
        return [beside / name if (beside / name).is_file() else CHECKOUT / name for name in named]

    def sweep_name(self, asked: str | None) -> str | None:
        """Return the name of the sweep that a question of a claim gives by its name or its file."""
        return self.runs.spec(asked, self._beside).name if asked and asked.endswith(SWEEP_FILES) else asked

    @cached_property
    def sweeps(self) -> dict[str, Compared]:
        """The sweeps by name, compared."""
        found = {spec.name: compare_arms(spec, self.runs) for spec in self.specs}
        for name, manifest in self.results.manifests.items() if self.results else ():
            found[name] = found[name]._replace(table=remarked(found[name].table, manifest))
        return found

    @cached_property
    def spec(self) -> dict[str, Spec]:
        """The sweeps' files by name."""
        return {spec.name: spec for spec in self.specs}

    @cached_property
    def members(self) -> dict[str, list[Member]]:
        """Places of each run in the sweeps that declare it; those of undeclared runs are empty."""
        found: dict[str, list[Member]] = {name: [] for name in (*self.records, *self.unfinished)}
        for spec in self.specs:
            for run in self.runs.of(spec):
                if run.id in found:
                    found[run.id].append(Member(spec, run, run.arm == spec.baseline(run.facet)))
        return found

    @cached_property
    def arms(self) -> dict[str, list[str]]:
        """Arm, which is an id without its seed ↦ its runs, by seed."""
        found: dict[str, list[str]] = {}
        for name in sorted({*self.records, *self.unfinished}, key=lambda name: (arm_of(name), len(name), name)):
            found.setdefault(arm_of(name), []).append(name)
        return found

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """The verdicts that these runs decide; of published results all, also those that wait for runs."""
        known = self.claims
        if self.results:
            return evaluate(known, self.runs, costs.read(self.results.benchmarks), by_score=True)
        there = {spec.name for spec in self.specs}
        wanted = [
            str(c.id) for file in known for c in file.claims if there & {self.sweep_name(q.sweep) for q in c.questions}
        ]
        found = evaluate(known, self.runs, None, wanted, by_score=True) if wanted else []
        return [verdict for verdict in found if verdict.outcome != NOT_RUN]

    @cached_property
    def verdict_rows(self) -> list[Row]:
        """Rows of the table of verdicts, in the order of `verdicts`."""
        return [row for block in table.table(self.verdicts).blocks for row in block.rows]

    @cached_property
    def contrasts(self) -> dict[str, list[Row]]:
        """Every contrast of a claim, by the claim's id."""
        found: dict[str, list[Row]] = {}
        for block in table.contrasts_table(self.verdicts).blocks:
            for row in block.rows:
                found.setdefault(row.cells["id"], []).append(row)
        return found

    def texts(self, identity: str) -> Texts | None:
        """Sentences that a run translated at its test; None if its test has none."""
        arm = arm_of(identity)
        if arm not in self._arm_texts:
            self._arm_texts[arm] = self._read_texts(self.records[identity])
        return self._arm_texts[arm]

    def _read_texts(self, record: Record) -> Texts | None:
        try:
            data = Experiment.model_validate(record.config).data
        except ValidationError:  # today's fields do not take it
            return None
        if record.data is None or len(data.scored) < 2:
            return None
        split, digests = data.scored[1], record.data.files
        generated = split in digests
        key = f"{record.data.name}-{hash_of(split, *([digests[split]] if generated else sorted(digests.values())))}"
        if key not in self._texts:
            self._texts[key] = Texts(key, split, (data.pairs_of(split, digests) or [])[:SENTENCES])
        return self._texts[key]

    def translations(self, identity: str) -> list[str]:
        """Return the first translations of the deciding test split; empty if there are none."""
        texts = self.texts(identity)
        content = texts and self.store.content(identity, f"{texts.split}.hyp.txt")
        return content.decode("utf-8", "replace").removesuffix("\n").split("\n")[:SENTENCES] if content else []

    def maps(self, identity: str) -> list[dict[str, Any]]:
        """Attention maps of a run: an item per sentence, with a list of site, layer, head and weights in 1/1000.

        `line` is the sentence's place in the deciding test split; None if it is not known. `forced` is True if the
        model was given the reference, False for its own translation.

        Raises:
            InputError: a file of maps is damaged.
        """
        if identity not in self._maps:
            self._maps[identity] = self._read_maps(identity)
        return self._maps[identity]

    def all_texts(self) -> list[Texts]:
        """Return every test split that was asked for."""
        return list(self._texts.values())

    def _read_maps(self, identity: str) -> list[dict[str, Any]]:
        texts, found = self.texts(identity), self._stored(identity)
        if tree := self.store.attention(identity):
            text = tree.get("text") or {}
            pairs = [[pair.source, pair.target] for pair in texts.pairs] if texts else []
            both = [text.get("source"), text.get("target")]
            split, line = texts.split if texts else "test", pairs.index(both) if both in pairs else None
            weights = [[round(1000 * weight) for weight in row] for row in tree["weights"]]
            one = {"site": tree["site"], "layer": tree["layer"], "head": tree["head"], "weights": weights}
            kept = {name: tree.get(name) for name in ("source", "target", "gold", "text")}
            if line is None or all(item["line"] != line for item in found):
                found.append({"split": split, "line": line, "forced": True, **kept, "maps": [one]})
        return found

    def maps_path(self, identity: str) -> Path:
        """File with the maps of several sentences of a run."""
        if self.results:
            return self.results.root / models.MAPS / f"{identity}.json"
        return self.store.folder / identity / MAPS

    def write_maps(self, identity: str, model: bytes, sentences: list[dict[str, Any]]) -> Path:
        """Write the maps of a run, with the SHA-256 of the model and of the translations that they are of; the path."""
        tree = {"model_sha256": sha256(model), "hypotheses_sha256": self._digest(identity), "sentences": sentences}
        path = self.maps_path(identity)
        files.write(path, json.dumps(tree, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n")
        return path

    def has_maps(self, identity: str, model: bytes) -> bool:
        """Return True if the maps of a run were made with this model."""
        return bool(_json(self.maps_path(identity)).get("model_sha256") == sha256(model))

    def _digest(self, identity: str) -> str | None:
        """SHA-256 of the translations of the deciding test split."""
        texts = self.texts(identity)
        scores = self.records[identity].scores if texts else []
        return next((s.hypotheses_sha256 for s in scores if texts and s.split == texts.split and s.hypotheses), None)

    def _stored(self, identity: str) -> list[dict[str, Any]]:
        """Maps of several sentences; none where no file has them.

        Raises:
            InputError: the file is damaged, or of other translations than the record's.
        """
        path, texts = self.maps_path(identity), self.texts(identity)
        try:
            tree = json.loads(path.read_bytes())
            made_from, found = tree["hypotheses_sha256"], tree["sentences"]
            for item in found:
                item |= {"split": texts.split if texts else "test", "forced": False}
                for one in item["maps"]:
                    sides = {"encoder_self": ("source", "source"), "decoder_self": ("target", "given")}
                    rows, columns = (item[side] for side in sides.get(one["site"], ("target", "source")))
                    links = None if one["site"] in sides else item["gold"]
                    tree = item | one | {"source": columns, "target": rows, "gold": links}
                    attention_map(json.dumps(tree).encode(), str(path))
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise InputError(f"{path}: expected attention maps, got {problem!r}. Remove the file.") from None
        if made_from != self._digest(identity):
            raise InputError(f"{path}: made of other translations than the record's. Remove it; --maps makes it again.")
        return list(found)


def hash_of(*parts: str) -> str:
    """Return eight hexadecimals of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def slug(name: str) -> str:
    """Return a name as a part of an address. Two names never share one."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")
    return plain if plain == name else f"{plain}-{hash_of(name)}"


def introduction(spec: Spec) -> str:
    """Return the comment at the top of a sweep's file, without its tags."""
    lines = []
    for line in spec.path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# tags:"):
            lines.append(line.lstrip("# ").rstrip())
    return " ".join(lines)


def _unfinished(folder: Path, finished: Iterable[str]) -> Iterator[Unfinished]:
    """Runs whose folder has a learning curve or a progress file, and no record."""
    known = set(finished)
    for path in sorted(
        {path.parent for name in ("history.jsonl", "progress.json") for path in folder.glob(f"*/{name}")}
    ):
        if path.name not in known and records.state(path) == "started":
            steps = _json(path / "progress.json").get("step"), _json(path / "progress.json").get("steps")
            whole = all(type(n) is int for n in steps)
            yield Unfinished(path.name, _points(path / "history.jsonl"), steps if whole else None)  # type: ignore[arg-type]


def _json(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return tree if isinstance(tree, dict) else {}


def _points(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a growing file."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return [point for point in found if isinstance(point, dict) and type(point.get("step")) is int]
