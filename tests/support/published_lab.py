"""A git checkout of a tiny sweep whose runs have real translations, scored the way a run scores them."""

import hashlib
import json
import math
import shutil
import subprocess

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from study import files
from study.config import config_hash, plugins, recorded, scientific
from study.corpora import load as corpus_of
from study.folders import CHECKOUT as ROOT
from study.publish.publish import publish
from study.publish.verify import verify
from study.scores import scoring
from study.scores.score import RecordedScore
from study.store import records
from study.store.manifest import Results, write_manifest
from study.store.records import DataFacts, Provenance, Record, Resources, Selection
from study.sweep.spec import load

PROVENANCE = Provenance(
    git_commit=None,
    git_dirty=None,
    python="3.11",
    packages={},
    device="cpu",
    device_count=1,
    precision="float32",
    deterministic=True,
    started_utc="2026-01-01T00:00:00Z",
)
TOOK = Resources(
    train_seconds=2.0,
    wall_seconds=3.0,
    tokens_per_second=12000.0,
    decode_sentences_per_second=None,
    peak_memory_bytes=1,
)

SWEEP = """
name: tiny
description: Two scores, two seeds
method: grid
metric: {name: test/exact, goal: maximize}
command: ["${env}", "${interpreter}", "-P", "-m", "study", "train", "--overrides-json", "${args_json}"]
parameters:
  seed: {values: [1, 2]}
  model.attention.score: {values: [dot, bilinear]}
  data.name: {value: grammar}
  training.steps: {value: 20}
"""
SMALL = SWEEP + "  data.train_pairs: {value: 20}\n  data.test_pairs: {value: 30}\n"


def record_of(cell, scores, history, files=None, **facts):
    """A finished record of a cell on the grammar."""
    experiment, best = cell.experiment, history[-1]
    fixed = {"protocol": 1, "config": experiment.model_dump(mode="json"), "provenance": PROVENANCE, "resources": TOOK}
    return Record(
        id=cell.id,
        status="finished",
        config_hash=config_hash(experiment),
        seed=experiment.seed,
        data=DataFacts(
            name="grammar", version=1, source="de", target="en", files=files or {"test": "ab"}, subwords=None
        ),
        selection=Selection(rule="best_valid_bleu", step=best["step"], value=best["valid_bleu"]),
        scores=scores,
        history=history,
        **fixed | facts,
    )


def digest_of(text):
    return hashlib.sha256(text.encode()).hexdigest()


class Lab:
    def __init__(self, folder):
        self.top, self.runs, self.results = folder, folder / "runs", Results(folder / "results")
        if not (folder / "sweeps").is_dir():
            self._make()
        self.commit = self.git("rev-list", "--max-parents=0", "HEAD")
        self.spec = load(folder / "sweeps" / "tiny.yaml")
        self.ids = [cell.id for cell in self.spec.cells]
        if not self.runs.is_dir():
            self._run()

    def copy(self, folder):
        """The same elsewhere."""
        shutil.copytree(self.top, folder, dirs_exist_ok=True)
        return Lab(folder)

    def _make(self):
        (self.top / "sweeps").mkdir()
        (self.top / "sweeps" / "tiny.yaml").write_text(SMALL)
        (self.top / ".gitignore").write_text("/runs/\n")
        self.git("init", "-q")
        self.git("config", "user.name", "A")
        self.git("config", "user.email", "a@example.org")
        self.committed()

    def git(self, *arguments):
        done = subprocess.run(["git", *arguments], cwd=self.top, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def committed(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "x")
        return self.git("rev-parse", "HEAD")

    def _run(self):
        """Sentences have three tokens of half a nat each, on average; `test` and `valid` have the NLL of each."""
        self.corpus = corpus_of(self.spec.cells[0].experiment.data)
        sizes = {split: len(pairs) for split, pairs in self.corpus.splits.items()}
        for place, cell in enumerate(self.spec.cells):
            more = place / 8  # no two runs have the same losses
            losses = {
                "test.nll.txt": f"{1 + more:g}\n{2 - more:g}\n" + "1\n2\n" * (sizes["test"] // 2 - 1),
                "valid.nll.txt": f"{1.5 + more:g}\n{1.5 - more:g}\n" + "1.5\n" * (sizes["valid"] - 2),
            }
            scores = [s for split in ("test", "long") for s in self._scored(cell.id, split, place)]
            for split in ("valid", "deep", "pronoun"):
                scores.append(RecordedScore(split=split, metric="nll", value=1.5, n=sizes[split]))
            for split in ("test", "valid"):
                scores.append(RecordedScore(split=split, metric="perplexity", value=math.exp(0.5), n=3 * sizes[split]))
            for name, text in losses.items():
                files.write(self.runs / cell.id / name, text)
            self.write(self._record(cell, scores, {name: digest_of(text) for name, text in losses.items()}))
            plugins.keep(self.runs / cell.id, scientific(cell.experiment).values())

    def _scored(self, identity, split, wrong):
        """The first translations of a split lose a word each, as many as the run's place in the grid."""
        lines = [pair.target for pair in self.corpus.splits[split]]
        lines[:wrong] = [line.split(" ", 1)[1] for line in lines[:wrong]]
        text = "".join(f"{line}\n" for line in lines)
        files.write(self.runs / identity / f"{split}.hyp.txt", text)
        named = {"hypotheses": f"{split}.hyp.txt", "hypotheses_sha256": digest_of(text)}
        scores = scoring.score_split(lines, self.corpus.splits[split], split)
        nll = RecordedScore(split=split, metric="nll", value=1.5, n=len(lines))
        return [*(score.model_copy(update=named) for score in scores), nll]

    def _record(self, cell, scores, per_sentence):
        provenance = PROVENANCE.model_copy(
            update={"git_commit": self.commit, "git_dirty": False, "packages": {"sacrebleu": "2"}, "threads": 1}
            | {"device": "a processor"}
        )
        return record_of(
            cell,
            scores,
            history=[{"step": 20, "valid_bleu": 90.0, "valid_loss": 0.5, "train_loss": 1.0 + self.ids.index(cell.id)}],
            config=recorded(cell.experiment),
            protocol=cell.experiment.protocol,
            files=self.corpus.files,
            per_sentence=per_sentence,
            provenance=provenance,
        )

    def path(self, place):
        return self.runs / self.ids[place] / "record.json"

    def write(self, record):
        files.write(self.runs / record.id / "record.json", records.dumps(record))

    def change(self, place, **changes):
        """Dotted name ↦ value, in one working record, as by hand."""
        tree = json.loads(self.path(place).read_text(encoding="utf-8"))
        for name, value in changes.items():
            *parents, last = name.split(".")
            section = tree
            for part in parents:
                section = section[int(part) if part.isdigit() else part]
            section[last] = value
        self.path(place).write_text(records.canonical(tree), encoding="utf-8")

    def fail(self, place):
        record = records.read(self.path(place))
        kept = record.model_dump(include={"protocol", "id", "config", "config_hash", "seed"})
        self.write(Record(status="failed", error="MemoryError", **kept))

    def publish(self, reason=None):
        return publish(self.spec, self.runs, Results(self.results.root), reason)

    def verify(self, rescore=True):
        return verify(Results(self.results.root), rescore)

    def files(self):
        there = self.results.root.rglob("*")
        return {str(path.relative_to(self.results.root)): path.read_bytes() for path in there if path.is_file()}


TABLES = ("runs", "arms", "scores", "curves", "maps", "sentences/grammar")


def part_of_results(top, *sweeps):
    """Make `results` with the runs of some published sweeps on the grammar, their tables, all figures and claims."""
    ours, root = Results(ROOT / "results"), top / "results"
    arms = pq.read_table(ours.root / "arms").to_pylist()
    ids = pa.array(sorted({arm["id"] for arm in arms if arm["sweep"] in sweeps}))
    for name in TABLES:
        table = pq.read_table(ours.root / name)
        save(table.filter(pc.is_in(table["id"], ids)), root / name / "0001.parquet")
    shutil.copytree(ours.root / "figures", root / "figures", ignore=shutil.ignore_patterns("*.csv"))
    for folder in (root / "tables", top / "sweeps"):
        folder.mkdir()
    for name in (
        *sweeps,
        "summary",
        "contrasts",
        "gains",
        "scales",
        "agreement-*",
        "scale_rates_multi30k*",
        "decoder_only",
        "asymptotes_1200",
    ):
        for path in (ours.root / "tables").glob(f"{name}.*"):
            shutil.copy(path, root / "tables")
    for name in sweeps:
        shutil.copy(ROOT / "sweeps" / f"{name}.yaml", top / "sweeps")
    shutil.copy(ROOT / "README.md", top)
    write_manifest(root, {name: ours.manifests[name] for name in sweeps})
    return root


def save(table, path):
    """Write a table; one of sentences has each split in parts of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [table]
    if "sentence" in table.column_names:
        parts = [table.filter(pc.equal(table["split"], split)) for split in sorted(table["split"].unique().to_pylist())]
    with pq.ParquetWriter(path, table.schema) as writer:
        for part in parts:
            writer.write_table(part)
