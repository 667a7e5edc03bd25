"""Probes: the gold is recomputed from the sentences alone, and what is declared is what is drawn."""

from collections import Counter

import pytest

from study.config import experiment_from
from study.corpora import load, words
from study.corpora.grammar.draw import Draw
from study.corpora.probes.lookup import named
from study.errors import InputError

GOLDEN = {
    "copy": "fa6dc15eb723d17b",
    "reverse": "3a92df0342d546a0",
    "sort": "64f6b6423c57becd",
    "copy_far": "e2ace939aaa47c76",
    "graph": "9968378e88574c06",
    "multi_lookup": "763521d0c7912105",
    "one_space": "d740f1e532e2b581",
}


def section(name, **fields):
    """A data section as an experiment resolves it."""
    given = {"train_pairs": 300, "test_pairs": 100, **fields}
    data = experiment_from({"training.select": "last"}, {"data.name": name}, {f"data.{k}": v for k, v in given.items()})
    return data.data


def corpus(name, **fields):
    return load(section(name, **fields))


def pairs(name, count=20, **fields):
    """Pairs of one stream, without splits."""
    data, draw = section(name, **fields), Draw("pairs")
    return [data.pair(draw) for _ in range(count)]


@pytest.mark.parametrize("name", GOLDEN)
def test_a_section_gives_the_same_pairs_for_ever_and_splits_share_no_source(name):
    drawn = corpus(name)
    assert drawn.files["test"][:16] == GOLDEN[name], "other pairs: raise the version of the section"
    assert [len(split) for split in drawn.splits.values()] == [300, 300, 100]
    sources = [pair.source for split in drawn.splits.values() for pair in split]
    assert len(set(sources)) == len(sources)
    larger = corpus(name, train_pairs=500)
    assert larger.files["test"] == drawn.files["test"]
    assert larger.splits["train"][:300] == drawn.splits["train"]
    assert corpus(name, seed=1).files["test"] != drawn.files["test"]
    for pair in drawn.splits["test"]:
        assert len(words(pair.source)) == len(pair.source.split())
        assert len(words(pair.target)) == len(pair.target.split()) >= section(name).shortest_target


def test_copy_reverse_and_sort_against_the_source():
    for pair in pairs("copy"):
        assert pair.target == pair.source
        assert [(s, t) for s, t, _ in pair.alignment or ()] == [(t, t) for t in range(len(pair.source.split()))]
    for pair in pairs("reverse"):
        source = pair.source.split()
        assert pair.target.split() == source[::-1]
        assert [(s, t) for s, t, _ in pair.alignment or ()] == [(len(source) - 1 - t, t) for t in range(len(source))]
    for pair in pairs("sort", symbols=17):
        source = pair.source.split()
        assert len(set(source)) == len(source)
        assert pair.target.split() == sorted(source)
        ranks = [sum(other < word for other in source) for word in source]
        assert {(s, t) for s, t, _ in pair.alignment or ()} == set(enumerate(ranks))
    for name in ("copy", "sort"):
        counts = Counter(len(pair.source.split()) for pair in pairs(name, 1000, shortest=3, longest=7))
        assert set(counts) == {3, 4, 5, 6, 7}
        assert max(counts.values()) < 1.4 * min(counts.values())


@pytest.mark.parametrize("distance", [0, 5, 7])
def test_copy_far_has_its_words_at_the_distance(distance):
    for pair in pairs("copy_far", length=11, copied=3, distance=distance):
        source, last = pair.source.split(), 11 - distance
        relevant = [s for s, word in enumerate(source) if word.startswith("w")]
        assert relevant == [last - 3, last - 2, last - 1]
        assert pair.target.split() == [source[s] for s in relevant]
        assert [(s, t) for s, t, _ in pair.alignment or ()] == [(s, t) for t, s in enumerate(relevant)]


def cycles(links):
    """Lengths of all cycles: nodes that nobody names are taken away until only cycles are left."""
    links = dict(links)
    while ends := [node for node in links if node not in links.values() or links[node] not in links]:
        for node in ends:
            del links[node]
    lengths = []
    while links:
        start, at = next(iter(links.items()))
        ring = {start}
        while at != start:
            ring.add(at)
            at = links[at]
        lengths.append(len(ring))
        links = {node: other for node, other in links.items() if node not in ring}
    return sorted(lengths)


def graph_of(pair):
    source = pair.source.split()
    return {source[target][0]: source[s][0] for s, target, _ in pair.attends or ()}


@pytest.mark.parametrize(
    ("fields", "lengths"),
    [
        ({"structure": "one_way"}, []),
        ({"dose": 0.0, "nodes": 10}, [2] * 5),
        ({"structure": "cycle3"}, [3] * 4),
        ({"dose": 0.5}, [2, 2, 2, 3, 3]),
        ({"nodes": 24, "dose": 0.75}, [2] * 3 + [3] * 6),
        ({"nodes": 5, "dose": 0.6}, [2, 3]),
    ],
)
def test_graphs_have_the_cycles_declared_and_no_other(fields, lengths):
    graphs = [graph_of(pair) for pair in pairs("graph", **fields)]
    assert all(graph == graphs[0] for graph in graphs), "who names whom is fixed for the corpus"
    assert cycles(graphs[0]) == lengths


def test_a_permutation_moves_every_node():
    for seed in range(20):
        data = section("graph", structure="permutation", seed=seed)
        lengths = cycles({str(node): str(names[0]) for node, names in enumerate(named(data))})
        assert min(lengths) >= 2
        assert sum(lengths) == 12


def test_every_lookup_brings_the_labels_of_the_nodes_named():
    for name, fields in (("graph", {"structure": "one_way"}), ("graph", {}), ("multi_lookup", {"targets": 3})):
        for pair in pairs(name, **fields):
            source = pair.source.split()
            looks = {}
            for s, t, _ in pair.attends or ():
                looks.setdefault(t, []).append(s)
            assert [link[:2] for link in pair.alignment or ()] == [(t, t) for t in range(len(source))]
            own = name == "multi_lookup"
            heard = [[t] * own + looks.get(t, []) for t in range(len(source))]
            assert pair.target.split() == ["".join(source[s][1] for s in row) or "n" for row in heard]


@pytest.mark.parametrize("targets", [1, 2, 4])
def test_every_node_is_named_once_in_every_role_and_nobody_names_twice(targets):
    names = named(section("multi_lookup", targets=targets))
    assert all(sorted(role) == list(range(12)) for role in zip(*names, strict=True))
    assert all(len({node, *row}) == targets + 1 for node, row in enumerate(names))


def test_one_space_asks_for_one_word_of_its_kind():
    for pair in pairs("one_space"):
        source = pair.source.split()
        (asks,) = (s for s, word in enumerate(source) if len(word) == 1)
        (answers,) = (s for s, word in enumerate(source) if len(word) == 2 and word[0] == source[asks])
        assert pair.target == source[answers][1]
        assert {link[:2] for link in pair.attends or ()} == {(answers, asks), (asks, answers)}
        assert {link[:2] for link in pair.alignment or ()} == {(asks, 0), (answers, 0)}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": "graph", "structure": "one_way", "dose": 0.5}, "dose: expected structure cycle3"),
        ({"name": "graph", "dose": 0.4}, "one of 0, 0.5, 1"),
        ({"name": "sort", "symbols": 9}, "symbols: expected at least longest"),
        ({"name": "copy", "structure": "one_way"}, "data.structure: expected with data.name graph, got copy"),
        ({"name": "copy_far", "distance": 30}, "lower distance or copied"),
        ({"name": "multi_lookup", "targets": 4, "labels": 8}, "labels: expected at most 300"),
    ],
)
def test_what_means_nothing_is_refused(fields, says):
    with pytest.raises(InputError, match=says):
        experiment_from({f"data.{name}": value for name, value in fields.items()})


def test_too_few_different_sources_are_refused():
    with pytest.raises(InputError, match="too few different sources"):
        corpus("copy", symbols=2, longest=4, train_pairs=30)
