"""Everything published is checked: what is changed, lost or added afterwards is listed with its file and field."""

import copy
import hashlib
import json
import os
import re
import shutil
import subprocess

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from published_lab import TABLES, save
from tiny_sweep import MAP

from study import files
from study.config import Multi30k
from study.errors import InputError
from study.folders import CHECKOUT as ROOT
from study.publish import evidence
from study.publish.checkout import history
from study.publish.verify import drawn, verify
from study.store import records
from study.store.folder import Store
from study.store.manifest import Results, write_manifest

BESIDE = {
    "tables/tiny.csv": "arm,difference\na,10.25\n",
    "tables/tiny.md": "| a | 10.25 |\n",
    "benchmarks/cost.json": '{"milliseconds": 1.5}\n',
    "models/grammar.pt": "weights\n",
    "../docs/verdicts.md": "The difference is 10.25.\n",
}
"""Published files beside the runs."""


@pytest.fixture(scope="module")
def whole(finished, tmp_path_factory):
    """A folder with a published sweep whose runs have attention maps, and all kinds of files beside them."""
    lab = finished.copy(tmp_path_factory.mktemp("whole"))
    for identity in lab.ids:
        files.write(lab.runs / identity / "attention.json", json.dumps(MAP))
    lab.publish()
    for name, text in BESIDE.items():
        files.write(lab.results.root / name, text)
    seal(lab.results.root)
    return lab.results.root


@pytest.fixture
def root(whole, tmp_path):
    shutil.copytree(whole.parent, tmp_path / "copy")
    return tmp_path / "copy" / "results"


def seal(root):
    """Write all hashes and the root hash again, as one does who forges everything."""
    write_manifest(root)
    (root.parent / "README.md").write_text(f"<!-- root -->\nRoot hash: `{Results(root).root_hash}`\n<!-- end -->\n")


def first(root):
    return Store(root).ids()[0]


def edited(root, name, column, rows, value):
    """Change cells of a column of a table, as by hand."""
    path = root / name / "0001.parquet"
    old = pq.read_table(path)
    frame = old.to_pandas()
    chosen = rows(frame)
    assert chosen.any()
    frame.loc[chosen, column] = value(frame.loc[chosen, column]) if callable(value) else value
    save(pa.Table.from_pandas(frame, old.schema, False), path)


def replaced(path, pattern, by):
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(pattern, by, text, count=1), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text


def flipped(root):
    (path,) = (root / "models").iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def less(values):
    return values * 0.9


def score(root, split, *metrics):
    """Rows of the table of scores: of the first run, in some metrics."""
    return lambda t: (t.id == first(root)) & (t.split == split) & t.metric.isin(metrics)


def sentences(root, split="test"):
    return lambda t: (t.id == first(root)) & (t.split == split)


def in_record(root, old, new):
    """Replace a text in the record of the first run."""
    edited(root, "runs", "record", lambda t: t.id == first(root), lambda text: text.str.replace(old, new))


def in_scores(root, change, split, *metrics):
    """Change scores of the first run in the table and in the record."""
    edited(root, "scores", "value", score(root, split, *metrics), change)

    def changed(text):
        tree = json.loads(text)
        for row in tree["scores"]:
            if row["split"] == split and row["metric"] in metrics:
                row["value"] = change(row["value"])
        return records.canonical(tree)

    edited(root, "runs", "record", lambda t: t.id == first(root), lambda text: text.map(changed))


def forged_nll(root, split):
    """NLL of every sentence of a split of one run × .9, with its file, its hash and all its scores."""
    identity, name = first(root), f"{split}.nll.txt"
    edited(root, "sentences/grammar", "nll", sentences(root, split), less)
    in_scores(root, less, split, "nll", "nll_per_token_by_length")
    old, new = Store(root).tree(identity)["per_sentence"][name], Store(root).content(identity, name)
    digest = hashlib.sha256(new).hexdigest()
    in_record(root, old, digest)
    text = hashlib.sha256(Store(root).text(identity).encode()).hexdigest()
    edited(root, "runs", "sha256", lambda t: t.id == identity, text)


def forged_perplexity(root):
    forged_nll(root, "valid")
    in_scores(root, lambda value: value**0.9, "valid", "perplexity")


HASH = r"{}: SHA-256: expected the files of manifest.json, got a {} one"
FOUND = [
    (lambda root: replaced(root / "tables/tiny.csv", r"(\d\d\.\d\d)", r"1\1"), HASH.format("csv", "changed")),
    (lambda root: replaced(root / "benchmarks/cost.json", r"(\d\.\d+)", r"1\1"), HASH.format("json", "changed")),
    (
        lambda root: replaced(root.parent / "docs/verdicts.md", r"\b(\d+\.\d+)\b", r"1\1"),
        HASH.format("verdicts.md", "changed"),
    ),
    (
        lambda root: edited(root, "maps", "content", lambda t: t.index == 0, lambda text: text.str.replace("0.", "1.")),
        HASH.format(r"maps/0001\.parquet", "changed"),
    ),
    (flipped, HASH.format(r"models/.*\.pt\S*", "changed")),
    (lambda root: (root / "tables/tiny.md").unlink(), HASH.format(r"tiny\.md", "missing")),
    (lambda root: (root / "tables/new.csv").write_text("a\n"), HASH.format("new.csv", "stray")),
]
"""A change of one file ↦ what is found."""
CONTRADICTED = [
    (lambda root: forged_nll(root, "test"), "scores.test: ln perplexity: expected"),
    (forged_perplexity, "history.valid_loss: expected"),
    (lambda root: edited(root, "scores", "value", score(root, "test", "exact"), less), "scores.test.exact: expected"),
    (lambda root: edited(root, "curves", "value", lambda t: t.index == 0, less), "table of curves: expected those of"),
    (lambda root: in_record(root, '"subset": null', '"subset": "x"'), "table of scores: expected those of"),
    (lambda root: edited(root, "scores", "value", score(root, "test", "nll"), less), "scores.test.nll: expected"),
    (lambda root: edited(root, "sentences/grammar", "nll", sentences(root), less), "scores.test.nll: expected"),
    (lambda root: in_record(root, '"value": 9', '"value": 8'), r"selection.value: expected 9[\d.]+, got 8"),
]
"""A change whose author has written all hashes again ↦ what is found in the record."""


def test_nothing_differs(root):
    found = verify(Results(root))
    assert (found.problems, found.summary["sweeps"]) == ([], "1; runs: 4 finished")
    assert found.summary["root hash"] == "that of README.md"


def test_what_is_computed_may_be_absent_where_only_sources_are_checked(root):
    """`make reproduce` makes it again after that."""
    shutil.rmtree(root / "tables")
    assert "got a missing one" in " ".join(verify(Results(root)).problems)
    assert verify(Results(root), sources=True).problems == []
    edited(root, "scores", "value", score(root, "test", "exact"), less)
    assert verify(Results(root), sources=True).problems


def test_the_published_results_agree():
    assert verify(Results(ROOT / "results")).problems == []


def test_changed_lost_and_added_files_are_found(root):
    for change, _ in FOUND:
        change(root)
    problems = verify(Results(root)).problems
    assert len(problems) == len(FOUND)
    assert [said for _, said in FOUND if not any(re.search(said, problem) for problem in problems)] == []


@pytest.mark.parametrize(("change", "said"), CONTRADICTED, ids=[said for _, said in CONTRADICTED])
def test_numbers_that_contradict_each_other_are_found_though_all_hashes_agree(root, change, said):
    change(root)
    problems = [one for one in evidence.examine(Store(root), first(root)) if re.search(said, one)]
    assert problems
    assert all(f"{root / 'runs'}: {first(root)}" in problem for problem in problems)


def in_tree(root, change):
    """Change the record of the first run, and write its SHA-256 and all hashes again."""

    def changed(text):
        tree = json.loads(text)
        change(tree)
        return records.canonical(tree)

    edited(root, "runs", "record", lambda t: t.id == first(root), lambda text: text.map(changed))
    digest = hashlib.sha256(Store(root).text(first(root)).encode()).hexdigest()
    edited(root, "runs", "sha256", lambda t: t.id == first(root), digest)
    seal(root)


def other_files(root):
    """Make the first run a copy of the second: history and losses."""
    twin = Store(root).tree(Store(root).ids()[1])
    in_tree(root, lambda tree: tree.update(history=twin["history"], per_sentence=twin["per_sentence"]))


FORGED = [
    (lambda root: in_tree(root, lambda tree: tree.update(seed=9)), r"seed: expected \d, got 9"),
    (lambda root: in_tree(root, lambda tree: tree["config"].update(seed=9)), r"seed: expected 9, got \d"),
    (lambda root: in_tree(root, lambda tree: tree.update(protocol=99)), r"protocol: expected \d, got 99"),
    (lambda root: in_tree(root, lambda tree: tree["config"].update(protocol=1)), "config_hash: expected"),
    (lambda root: in_scores(root, less, "test", "perplexity"), "sha256: expected"),
    (lambda root: (in_scores(root, less, "test", "perplexity"), in_tree(root, dict)), "test: ln perplexity: expected"),
    (lambda root: in_tree(root, lambda tree: tree["provenance"].update(git_commit="0" * 40)), "got 0{40}"),
    (other_files, r"test\.nll\.txt: expected one of its own, got that of"),
    (other_files, "history: expected one of its own, got that of"),
]
"""A forgery with all hashes written again ↦ what is found without scoring."""


@pytest.mark.parametrize(("change", "said"), FORGED, ids=[said for _, said in FORGED])
def test_forged_identities_are_found_without_scoring(root, monkeypatch, change, said):
    commits = {one.provenance.git_commit for one in map(Store(root).record, Store(root).ids())}
    monkeypatch.setattr("study.publish.verify.history", lambda folder: commits)
    change(root)
    seal(root)
    assert [problem for problem in verify(Results(root)).problems if re.search(said, problem)]


def test_runs_that_differ_in_the_choice_of_the_tested_update_may_have_equal_files(root):
    """They have one seed and the same weights at every update; another seed cannot have the same losses."""
    record = Store(root).record(first(root))
    chosen = copy.deepcopy(record.config)
    chosen["training"]["select"] = "last"
    assert evidence.trained_alike(record, record.model_copy(update={"config": chosen}))
    assert not evidence.trained_alike(record, record.model_copy(update={"seed": record.seed + 1}))


def test_the_history_of_a_checkout_and_of_none(tmp_path):
    assert history(tmp_path / "results") == set()
    commands = ("init -q", "-c user.name=a -c user.email=a@b.example commit -q --allow-empty -m a")
    for command in commands:
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert history(tmp_path / "results") == {head.strip()}
    subprocess.run(["git", "clone", "-q", "--depth", "1", tmp_path.as_uri(), tmp_path / "shallow"], check=True)
    assert history(tmp_path / "shallow" / "results") == set()


def test_a_run_that_is_renamed_is_missing_and_stray(root):
    identity = first(root)
    for name in TABLES:
        edited(root, name, "id", lambda t: t.id == identity, identity[:-1] + "9")
    seal(root)
    missing, stray, renamed = verify(Results(root)).problems
    assert f"{identity[:-1]}9: id: expected" in renamed
    assert f"{identity}: expected a run, since sweep tiny declares it, got none" in missing
    assert f"{identity[:-1]}9: expected a run of a published sweep, got a stray one" in stray


def test_a_manifest_that_agrees_with_all_files_has_another_root(root):
    replaced(root / "tables" / "tiny.csv", r"(\d\d\.\d\d)", r"1\1")
    write_manifest(root)
    (problem,) = verify(Results(root)).problems
    assert problem.startswith("README.md: root hash: expected ")


def test_links_and_pipes_are_no_files(root):
    (root / "benchmarks" / "cost.json").unlink()
    (root / "benchmarks" / "cost.json").symlink_to("/etc/passwd")
    os.mkfifo(root / "tables" / "pipe")
    (problem,) = verify(Results(root)).problems
    assert re.search(HASH.format("cost.json", "missing"), problem)


def test_a_damaged_manifest_is_refused(root):
    for content in ("", "[" * 100_000, "[]", '{"sweeps": {"a": 1}, "files": {}}'):
        (root / "manifest.json").write_text(content)
        with pytest.raises(InputError, match=r"^[^\n]*manifest\.json: [^\n]*$"):
            verify(Results(root))


def test_translations_are_scored_again(root):
    identity, store = first(root), Store(root)
    assert list(evidence.examine(store, identity)) == []
    lines = store.hypotheses(identity, "test")
    edited(root, "sentences/grammar", "translation", sentences(root), lines[::-1])
    content = Store(root).content(identity, "test.hyp.txt")
    chosen = lambda t: (t.id == identity) & (t.split == "test") & t.hypotheses.notna()  # noqa: E731
    edited(root, "scores", "hypotheses_sha256", chosen, hashlib.sha256(content).hexdigest())
    found = "\n".join(evidence.examine(Store(root), identity))
    assert re.search(r"scores\.test\.bleu: expected \(.*, got \(", found)
    assert "sha256: expected " in found
    assert "scores.long" not in found


def test_a_text_draws_a_part_of_the_runs(root):
    ids = [f"run-s{seed}" for seed in range(100)]
    some = drawn(ids, 20, "a commit")
    assert len(some) == 5
    assert some == drawn(ids[::-1], 20, "a commit") != drawn(ids, 20, "another")
    assert drawn(ids, 1, "") == sorted(ids)
    told = []
    found = verify(Results(root), rescore=10, drawn_by="a commit", told=lambda *counts: told.append(counts))
    assert (found.problems, told) == ([], [(0, 1), (1, 1)])
    assert found.summary["translations"] == "those of 1 runs scored again, 0 without references"


def test_without_references_stored_counts_give_bleu(monkeypatch, tmp_path):
    """Multi30k's references are not shipped: BLEU of a split follows from the counts of its sentences."""
    ours = Results(ROOT / "results")
    identity = next(one for one in ours.store.ids() if one.startswith("multi30k"))
    for name in ("runs", "arms", "scores", "curves", "maps", "sentences/multi30k"):
        table = pq.read_table(ours.root / name)
        save(table.filter(pc.equal(table["id"], identity)), tmp_path / name / "0001.parquet")
    monkeypatch.setattr(Multi30k, "at_hand", lambda self: False)
    evidence._corpus.cache_clear()
    assert evidence.corpus_of(ours.store.record(identity)) is None
    assert list(evidence.examine(Store(tmp_path), identity)) == []
    edited(tmp_path, "sentences/multi30k", "correct1", lambda t: t.sentence == 0, 99)
    found = "\n".join(evidence.examine(Store(tmp_path), identity))
    assert re.search(r"scores\.valid\.bleu: expected [\d.]+, got ", found)
    monkeypatch.undo()
    evidence._corpus.cache_clear()
    if Multi30k().at_hand():
        found = "\n".join(evidence.examine(Store(tmp_path), identity))
        assert "counts of valid: expected those of the translations, got others" in found
