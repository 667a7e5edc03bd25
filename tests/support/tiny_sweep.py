import json

import pytest
from published_lab import SWEEP, TOOK, Lab, record_of

from study.analysis.runs import Runs
from study.corpora.probes import probe
from study.files import write
from study.folders import CHECKOUT, RUNS
from study.scores.score import RecordedScore
from study.store import records, tables
from study.sweep.spec import load

GRAMMAR = {
    "data.train_pairs": 200,
    "data.test_pairs": 20,
    "model.width": 24,
    "training.steps": 12,
    "training.validate_every": 4,
    "training.batch_tokens": 400,
    "decoding.beam": 2,
    "trainer.threads": 1,
    "trainer.device": "cpu",
}
"""Fields of a run of two seconds: a recurrent model on 200 sentences. Tests share this section: it takes seconds."""
GRAPH = {
    "data.name": "graph",
    "data.train_pairs": 60,
    "data.test_pairs": 4,
    "model.family": "transformer",
    "model.layers": 1,
    "model.attention.heads": 2,
    "model.width": 16,
    "training.steps": 4,
    "training.validate_every": 2,
    "training.batch_tokens": 300,
    "decoding.beam": 1,
    "trainer.threads": 1,
    "trainer.device": "cpu",
}
"""Fields of a run of half a second: a transformer of one layer on 60 graphs."""
VALIDATED = 40
"""Validation pairs of a probe that is trained in a test, of 300."""

MAP = {
    "site": "cross",
    "layer": 0,
    "head": None,
    "source": ["ein", "Hund", "</s>"],
    "target": ["a", "dog"],
    "weights": [[0.9, 0.1, 0.0], [0.0, 0.5, 0.5]],
    "gold": [[0, 0], [1, 1]],
    "text": {"source": "ein Hund", "target": "a dog"},
}
"""The attention map of a run."""


@pytest.fixture
def few_validated(monkeypatch):
    """Probes with few validation pairs: a run would translate all 300 at every validation."""
    monkeypatch.setattr(probe, "VALID", VALIDATED)


@pytest.fixture
def tiny(tmp_path):
    """A sweep of two arms and two seeds, its cells by (arm, seed), and a folder for its records."""
    (tmp_path / "tiny.yaml").write_text(SWEEP)
    (tmp_path / "runs").mkdir()
    return Tiny(load(tmp_path / "tiny.yaml"), tmp_path / "runs")


@pytest.fixture(scope="session")
def study_runs():
    """All published runs of this study, whose tables and sweeps are read once."""
    return Runs(CHECKOUT / "results", CHECKOUT / "sweeps")


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A checkout whose sweep has run."""
    return Lab(tmp_path_factory.mktemp("finished"))


@pytest.fixture(scope="session")
def published(finished, tmp_path_factory):
    """The same, published."""
    lab = finished.copy(tmp_path_factory.mktemp("published"))
    lab.publish()
    return lab


@pytest.fixture
def three(tmp_path):
    """The same sweep with three seeds: the fewest that are tested."""
    path, runs = tmp_path / "three.yaml", tmp_path / "three"
    path.write_text(SWEEP.replace("[1, 2]", "[1, 2, 3]").replace("two seeds", "three seeds"))
    runs.mkdir()
    return Tiny(load(path), runs)


class Tiny:
    def __init__(self, spec, runs):
        self.spec, self.runs = spec, runs
        self.cells = {(cell.arm, cell.experiment.seed): cell for cell in spec.cells}

    def write(self, arm, seed, exact, published=False, files=None, **changes):
        """One record with this exact match, ten BLEU more, and what a run writes beside."""
        record = self.record(self.cells[f"score={arm}", seed], exact).model_copy(update=changes)
        if published:
            one = tables.NewRun(json.loads(records.dumps(record)), files or {})
            tables.add(self.runs, [one], {})
            return self.runs / RUNS
        path = self.runs / record.id / "record.json"
        write(path, records.dumps(record))
        return path

    def complete(self, published=False):
        for arm, values in {"dot": (80.0, 84.0, 82.0), "bilinear": (70.0, 76.0, 75.0)}.items():
            for seed in self.spec.seeds:
                self.write(arm, seed, values[seed - 1], published)

    @staticmethod
    def record(cell, exact):
        bleu = exact + 10
        return record_of(
            cell,
            scores=[
                RecordedScore(split="test", metric="bleu", value=bleu, n=50, signature="tok:13a"),
                RecordedScore(split="test", metric="exact", value=exact, n=50),
            ],
            history=[
                {"step": 10, "valid_bleu": 1.0, "valid_loss": 3.0},
                {"step": 20, "valid_bleu": bleu, "valid_loss": 2.0},
            ],
            resources=TOOK.model_copy(update={"tokens_per_second": 12000.0 + cell.experiment.seed}),
            diagnostics={"cross": [[{"entropy": 0.25}, {"entropy": 0.75}], [{"entropy": None}, {"entropy": 0.2}]]},
        )
