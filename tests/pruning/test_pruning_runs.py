"""A pruning as an experiment: its base is trained once, its record can be checked, its checkpoint is smaller."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from study.commands import prune
from study.config import config_hash, experiment_from, experiment_id
from study.engine import lease
from study.errors import InputError
from study.models import build
from study.pruning.answers import shape
from study.pruning.order import Ranking
from study.pruning.run import Continuation, gone_by, run
from study.pruning.surgery import Head, Mask
from study.publish.evidence import examine
from study.store import records
from study.store.folder import Store
from study.training import translation

SMALL = {
    "data.name": "copy",
    "data.symbols": 8,
    "data.longest": 5,
    "data.train_pairs": 200,
    "training.select": "last",
    "model.family": "transformer",
    "data.test_pairs": 20,
    "model.width": 16,
    "model.layers": 1,
    "model.attention.heads": 2,
    "training.steps": 6,
    "training.validate_every": 3,
    "training.batch_tokens": 400,
    "decoding.beam": 1,
    "trainer.threads": 1,
    "trainer.device": "cpu",
}


def test_a_pruning_has_an_identity_of_its_own():
    named = [None, {"question": "curve"}, {"order": "random"}, {"site": "cross"}, {"fraction": 0.25}]
    hashes = [config_hash(experiment_from(SMALL, {"pruning": fields})) for fields in named]
    assert hashes[0] == config_hash(experiment_from(SMALL))
    assert len(set(hashes)) == len(named)
    by_default = experiment_from(SMALL, {"pruning": {"order": "gradient", "fraction": 0.5}})
    assert config_hash(by_default) == hashes[1]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"pruning.order": "greedy", "pruning.draws": 3}, "draws: expected a curve of order random"),
        ({"pruning.base_steps": 9}, "base_steps: expected question retrain or train_on, got curve"),
        ({"model.family": "recurrent", "pruning.question": "curve"}, "expected two heads or more to prune, got one"),
        ({"model.attention.combine": "talking", **SMALL, "pruning.order": "greedy"}, "talking mixes the logits of all"),
        ({"model.family": "recurrent", "pruning.site": "encoder_self"}, "expected all or cross, got encoder_self"),
        ({**SMALL, "data.longest": 3, "data.shortest": 2, "pruning": {}}, "question: expected another one, because"),
        ({**SMALL, "pruning": {"question": "retrain", "fraction": 0.01}}, "expected a share that removes a head"),
        ({**SMALL, "pruning": {"question": "retrain", "base_steps": 6}}, "expected others than training.steps"),
        ({**SMALL, "pruning": {}, "trainer.devices": 2}, "devices: expected 1 with pruning.question curve"),
    ],
)
def test_what_means_nothing_is_refused(fields, said):
    with pytest.raises(InputError, match=said):
        experiment_from(fields)


def test_what_is_read_off_a_curve():
    falling = shape([30.0, 30.25, 29.75, 29.25, 30.0, 10.0])
    assert falling == {"free": 20.0, "area": pytest.approx(26.541667), "cliff": 20.0}
    assert shape([30.0, 29.5, 30.0]) == {"free": 0.0, "area": pytest.approx(29.833333), "cliff": 0.5}


def test_heads_go_one_after_another_in_the_first_half_and_selection_begins_when_all_are_gone():
    assert [gone_by(step, 8, 2) for step in range(8)] == [1, 1, 2, 2, 2, 2, 2, 2]
    assert [gone_by(step, 6, 4) for step in range(6)] == [1, 2, 3, 4, 4, 4]
    experiment = experiment_from(SMALL, {"pruning.question": "train_on"})
    order = [Head("cross", 0, 1), Head("encoder_self", 0, 0)]
    pruning = SimpleNamespace(fraction=1.0)
    model, kept = build(experiment.model, 20, 1), {"step": 1, "value": 0.5, "state": {}}
    stand_in = SimpleNamespace(experiment=experiment, model=model, task=SimpleNamespace(best=kept))
    continuation, later = Continuation(Path(), pruning), Continuation(Path(), pruning)
    continuation.ranking = later.ranking = Ranking(order, {})
    for step, gone, best in ((0, {"cross"}, kept), (1, {"cross"}, kept), (2, {"cross", "encoder_self"}, None)):
        continuation.mask(stand_in, step)
        assert {site for site, _, attention in model.sites() if isinstance(attention.gate, Mask)} == gone
        assert stand_in.task.best is best or stand_in.task.best["value"] is None
    stand_in.task.best = kept
    later.mask(stand_in, 5)  # a run that goes on keeps its best
    assert stand_in.task.best is kept


@pytest.mark.usefixtures("few_validated")
def test_questions_of_one_run(tmp_path, capsys):
    base = tmp_path / experiment_id(experiment_from(SMALL))
    said = []

    def asked(**pruning):
        experiment = experiment_from(SMALL, {"pruning": pruning})
        folder = tmp_path / experiment_id(experiment)
        run(experiment, folder, said.append)
        assert list(examine(Store(tmp_path), folder.name)) == []
        return folder, records.read(folder / "record.json")

    folder, curve = asked(order="gradient")
    assert said[0].startswith("first the run to prune")
    whole = records.read(base / "record.json")
    for metric in ("bleu", "exact", "nll"):
        assert curve.score("test", metric, "kept 1.0") == pytest.approx(whole.score("test", metric), rel=1e-4)
        assert curve.score("test", metric, "kept 0.5") == pytest.approx(curve.score("test", metric), rel=1e-4)
    assert len({score.signature for score in curve.scores if score.metric == "bleu"}) == 1
    assert len(curve.diagnostics["pruning"]["removed"]) == 3
    assert (curve.history, curve.selection) == (whole.history, whole.selection)
    smaller = translation.read((folder / "model.pt").read_bytes(), "model.pt").model
    parameters = sum(p.numel() for p in smaller.parameters())
    embedded = sum(t.numel() for n, t in torch.load(folder / "model.pt")["state"].items() if not n.endswith("sign"))
    assert curve.model.parameters == parameters == embedded < whole.model.parameters
    assert curve.model.parameters_attention == whole.model.parameters_attention // 2
    assert curve.model.flops_per_token < whole.model.flops_per_token

    before = (base / "record.json").stat().st_mtime_ns
    _, random = asked(order="random", draws=3, site="cross")
    assert (base / "record.json").stat().st_mtime_ns == before
    assert len(random.diagnostics["pruning"]["draws"]["bleu"]) == 3
    assert 0 <= random.score("test", "free") <= 100

    _, each = asked(question="each_head", site="cross")
    assert each.score("test", "needed") + each.score("test", "harmful") <= 100
    assert each.score("test", "nll", "without cross 0 1") is not None
    assert each.score("test", "nll") == pytest.approx(whole.score("test", "nll"), rel=1e-6)
    _, best = asked(question="best_head")
    assert set(best.diagnostics["pruning"]["best"]) == {"encoder_self 0", "decoder_self 0", "cross 0"}

    _, again = asked(question="retrain", order="gradient")
    assert again.diagnostics["pruning"]["removed"] == curve.diagnostics["pruning"]["removed"]
    assert again.model == curve.model
    assert again.history[-1]["step"] == 6
    assert again.score("test", "nll") != curve.score("test", "nll")

    _, on = asked(question="train_on")
    assert on.diagnostics["pruning"]["removed"] == curve.diagnostics["pruning"]["removed"]
    assert on.model == curve.model
    assert [point["step"] for point in on.history] == [3, 6]
    assert on.score("test", "nll") not in (curve.score("test", "nll"), again.score("test", "nll"))
    longer = experiment_from(SMALL, {"training.steps": 12, "pruning": {"question": "retrain", "base_steps": 6}})
    scratch = run(longer, tmp_path / experiment_id(longer), said.append)
    assert (base / "record.json").stat().st_mtime_ns == before
    assert scratch.diagnostics["pruning"]["removed"] == curve.diagnostics["pruning"]["removed"]
    assert scratch.history[-1]["step"] == 12

    other = tmp_path / experiment_id(experiment_from(SMALL, {"pruning": {"question": "best_head", "site": "cross"}}))
    with lease.holding(other), pytest.raises(InputError, match="another process runs this now"):
        prune.main([str(base), "--question", "best_head", "--site", "cross"])
    assert prune.main([str(base), "--order", "gradient"]) == 0
    assert "kept 0.9" in capsys.readouterr().out
    with pytest.raises(InputError, match="expected a finished run that was trained, got a pruned one"):
        prune.main([str(folder)])
