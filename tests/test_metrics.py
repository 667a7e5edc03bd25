"""Table of scores: what it says of a corpus is what a run on it has, and messages name what there is."""

import pytest

from study.config import Grammar, Multi30k
from study.corpora import multi30k
from study.corpora.catalogue import KINDS
from study.corpora.probes.order import Copy
from study.errors import InputError
from study.scores import metrics

GENERATED = tuple(kind for kind in KINDS.values() if "train_pairs" in kind.model_fields)


@pytest.mark.parametrize("kind", GENERATED, ids=lambda kind: kind.__name__)
def test_a_corpus_has_the_splits_and_the_gold_that_its_section_states(kind):
    section = kind(train_pairs=200, test_pairs=20)  # the section of other tests, so that it is made once
    corpus = section.read()
    assert section.scored == ("valid", *corpus.tests)
    assert corpus.splits.keys() == {"train", *section.scored}
    for split in section.scored:
        pairs = corpus.splits[split]
        has = {"alignment": all(pair.alignment is not None for pair in pairs)}
        has["attends"] = all(pair.attends is not None for pair in pairs)
        has["contrasts"] = bool(corpus.contrasts) and split == "pronoun"
        assert section.offers(split) == {name for name, there in has.items() if there}
    assert section.at_hand()
    assert section.tier == "embedded"


def test_the_names_of_scores_follow_from_corpus_and_split():
    grammar, real, copy = (set(metrics.names(section)) for section in (Grammar(), Multi30k(), Copy()))
    assert Multi30k().scored == ("valid", *(split for split in multi30k.SPLITS if split.startswith("test")))
    assert {"pronoun/contrast", "test/free", "test/aer", "deep/exact"} <= grammar
    assert not {"test/contrast", "valid/free", "long/free", "test/attends_argmax"} & grammar
    assert {"test_2016_flickr/area", "test_2017_flickr/bleu"} <= real
    assert not {name for name in real if name.split("/")[1] in ("aer", "gold_mass", "contrast")}
    assert "test_2017_flickr/area" not in real
    assert {name.split("/")[0] for name in copy} == {"valid", "test"}


def test_subsets_of_a_corpus_are_named_by_split():
    for name in (
        "test/nll/without pronouns",
        "valid/exact/without pronouns",
        "long/nll_per_token_by_length/without pronouns",
    ):
        metrics.check(name, None, Grammar(), pruned=True)
        metrics.check_claimed(name, Grammar())
        assert metrics.unit_of(name) == name.partition("/")[2], "the gap is measured on the same sentences"
    assert metrics.title("test/nll/without pronouns") == "NLL per sentence (without pronouns)"
    assert metrics.unit_of("test/exact/length 4-7") == "exact"
    refused = [("pronoun/exact", Grammar()), ("test/chrf", Grammar()), ("test/exact", Copy())]
    for name, corpus in refused:
        with pytest.raises(InputError, match=f"^metric.name: {corpus.name} has no {name}/without pronouns"):
            metrics.check(f"{name}/without pronouns", None, corpus, pruned=False)
        with pytest.raises(InputError, match=f"^{corpus.name} has no {name}/without pronouns"):
            metrics.check_claimed(f"{name}/without pronouns", corpus)
