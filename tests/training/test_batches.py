"""A batch is a function of (seed, step); the recipe by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from study.attention import Terms
from study.config import experiment_from
from study.corpora import Corpus, Pair
from study.errors import InputError
from study.models.translator import BOS, EOS, PAD
from study.training.batches import Example, Steps, check_windows, collate, epoch, in_order
from study.training.step import factor, penalties
from study.training.vocabulary import Words


def example(number, source, target):
    """A pair that can be told from the others by its first source token."""
    return Example([100 + number] + [7] * (source - 1), [9] * target, Pair("", ""))


def data(n=211):
    random = np.random.default_rng(0)
    return [example(i, *map(int, random.integers(1, 17, 2))) for i in range(n)]


@pytest.mark.parametrize("first", [1, 29, 61])
def test_starting_at_a_step_gives_the_batches_that_counting_there_gives(first):
    whole, later = list(Steps(data(), 97, 3, 0, 71)), list(Steps(data(), 97, 3, first, 71))
    assert all(torch.equal(a, b) for x, y in zip(whole[first:], later, strict=True) for a, b in zip(x, y, strict=True))


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(st.lists(st.integers(1, 41), min_size=1, max_size=90), st.integers(41, 300), st.integers(0, 5))
def test_an_epoch_has_every_pair_once_within_the_budget(lengths, budget, number):
    batches = epoch(np.array(lengths), budget, 1, number)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert all(len(batch) * max(lengths[i] for i in batch) <= budget for batch in batches)


def test_batches_are_bucketed_by_length():
    batches = list(Steps(data(2003), 397, 3, 0, 50))
    padded = sum(int((batch.wanted == PAD).sum()) for batch in batches)
    assert padded < 0.5 * sum(int((batch.wanted != PAD).sum()) for batch in batches)


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.integers(1, 23), st.integers(0, 23)), min_size=1, max_size=60), st.integers(24, 200))
def test_evaluation_batches_hold_every_pair_once_within_the_budget(sizes, budget):
    pairs = [example(i, *size) for i, size in enumerate(sizes)]
    batches = in_order(pairs, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(pairs)))
    assert all(len(batch) * max(pairs[i].length for i in batch) <= budget for batch in batches)
    shown = [len(pairs[i].source) for batch in batches for i in batch]
    assert shown == sorted(shown)


def test_a_batch_by_hand():
    batch = collate([Example([5, 6], [7], Pair("", "")), Example([8], [9, 10, 11], Pair("", ""))])
    assert batch.source.tolist() == [[5, 6, EOS], [8, EOS, PAD]]
    assert batch.mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.given.tolist() == [[BOS, 7, PAD, PAD], [BOS, 9, 10, 11]]
    assert batch.wanted.tolist() == [[7, EOS, PAD, PAD], [9, 10, 11, EOS]]


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [  # updates counted from 0, of 12, 4 of them warm-up
        ("linear", {0: 1 / 4, 1: 2 / 4, 3: 1, 4: 1, 5: 7 / 8, 8: 4 / 8, 11: 1 / 8}),
        ("inverse_sqrt", {0: 1 / 4, 3: 1, 4: (4 / 5) ** 0.5, 7: (4 / 8) ** 0.5, 11: (4 / 12) ** 0.5}),
        ("constant", {0: 1 / 4, 3: 1, 4: 1, 11: 1}),
    ],
)
def test_learning_rate_by_hand(schedule, wanted):
    recipe = SimpleNamespace(schedule=schedule, warmup=4, steps=12)
    assert {step: factor(step, recipe) for step in wanted} == pytest.approx(wanted)


def test_penalties_of_mechanisms_add_up():
    assert penalties((Terms(), Terms())) == 0
    assert penalties((Terms(torch.tensor(2.0)), Terms(), Terms(torch.tensor(3.0)))) == 5


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
