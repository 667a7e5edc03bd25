"""Mechanisms that a whole run must know how to carry: what samples resumes exactly, what has a limit keeps to it."""

import pytest
from tiny_sweep import GRAMMAR

from study.config import experiment_from
from study.corpora import Corpus, Pair
from study.errors import InputError
from study.training.batches import check_windows
from study.training.run import run
from study.training.vocabulary import Words


def test_learned_positions_leave_longer_splits_without_a_likelihood(tmp_path):
    fields = {"model.family": "transformer", "model.layers": 1, "model.positions": "learned", "training.steps": 2}
    fields |= {"training.validate_every": 2, "decoding.beam": 1}
    fields |= {"data.train_pairs": 2000}  # enough that one sentence is as long as the longest of the test
    record = run(experiment_from(GRAMMAR, fields), tmp_path, lambda line: None)
    assert record.score("test", "nll") is not None
    assert record.score("long", "nll") is None
    assert record.score("long", "aer") is None
    assert record.score("long", "bleu") is not None
    assert "" in (tmp_path / "long.hyp.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("site", "widest"),
    [("cross", 3), ("encoder_self", 3), ("decoder_self", 18)],  # 5 source tokens with their end, 2 · 5 + 10 written
)
def test_a_window_that_hides_no_slot_of_any_sentence_is_refused(site, widest):
    """The longest source is in a test split: a window as wide as all training sentences still differs from global."""
    splits = {"train": [Pair("a b", "a b")], "valid": [Pair("a", "b")], "test": [Pair("a b c d", "a")]}
    corpus, vocabulary = Corpus("grammar", 1, splits), Words.learn(["a b c d"])
    local = {"model.family": "transformer", f"model.attention.{site}.reach": "local_m"}
    check_windows(experiment_from(local, {f"model.attention.{site}.window": widest}).model, corpus, vocabulary)
    check_windows(experiment_from({"model.family": "transformer"}).model, corpus, vocabulary)
    covering = experiment_from(local, {f"model.attention.{site}.window": widest + 1}).model
    with pytest.raises(InputError, match=f"{site}.window: expected less than {widest + 1}, got {widest + 1}.*global"):
        check_windows(covering, corpus, vocabulary)
