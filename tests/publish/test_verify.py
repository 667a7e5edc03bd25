"""Everything published is checked: what is changed, lost or added afterwards is listed with its file and field."""

import hashlib
import os
import re
import shutil
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from study.config import Multi30k
from study.errors import InputError
from study.files import CHECKOUT as ROOT
from study.publish import evidence
from study.publish.results import Results, write_manifest
from study.publish.verify import drawn, verify
from study.store import Store

SWEEP = "hard_2"
"""A small published sweep whose runs have the NLL of each sentence."""
TABLES = ("runs", "scores", "curves", "maps", "sentences/grammar")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with one published sweep, a model, a table, measured times, and the pages that state its numbers."""
    top, ours = tmp_path_factory.mktemp("whole"), Results(ROOT / "results")
    runs = ours.store.runs
    ids = pa.array(runs.id[runs.sweeps.map(lambda some: SWEEP in some)])
    for name in TABLES:
        table = pq.read_table(ours.root / f"{name}.parquet")
        save(table.filter(pc.is_in(table["id"], ids)), top / "results" / f"{name}.parquet")
    model = min((ours.root / "models").iterdir(), key=lambda path: path.stat().st_size)
    for path in (ours.root / "tables" / f"{SWEEP}.csv", ours.root / "benchmarks" / "cost.json", model):
        copy = top / "results" / path.relative_to(ours.root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (top / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "verdicts.md", top / "docs")
    seal(top / "results", {SWEEP: ours.manifests[SWEEP]})
    return top / "results"


@pytest.fixture
def root(whole, tmp_path):
    shutil.copytree(whole.parent, tmp_path / "copy")
    return tmp_path / "copy" / "results"


def seal(root, sweeps=None):
    """Write all hashes and the root hash again, as one does who forges everything."""
    write_manifest(root, sweeps)
    (root.parent / "README.md").write_text(f"<!-- root -->\nRoot hash: `{Results(root).root_hash}`\n<!-- end -->\n")


def problems(root, **options):
    return "\n".join(verify(Results(root), **options).problems)


def change(root, name, edit):
    """Change rows of a table, as pandas has them, and write it as it was."""
    path = root / f"{name}.parquet"
    old = pq.read_table(path)
    new = edit(old.to_pandas())
    save(pa.Table.from_pandas(new, old.schema, False), path)


def save(table, path):
    """Write a table; one of sentences has each split in parts of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [table]
    if "sentence" in table.column_names:
        parts = [table.filter(pc.equal(table["split"], split)) for split in sorted(table["split"].unique().to_pylist())]
    with pq.ParquetWriter(path, table.schema) as writer:
        for part in parts:
            writer.write_table(part)


def edited(root, name, column, rows, value):
    def edit(frame):
        chosen = rows(frame)
        assert chosen.any()
        frame.loc[chosen, column] = value(frame.loc[chosen, column]) if callable(value) else value
        return frame

    change(root, name, edit)


def first(root):
    return Store(root).ids()[0]


def test_nothing_differs(root):
    found = verify(Results(root))
    assert (found.problems, found.summary["sweeps"]) == ([], "1; runs: 10 finished")
    assert found.summary["files"].startswith("9 have")
    assert "root hash" not in found.summary


def test_the_published_results_agree():
    assert verify(Results(ROOT / "results")).problems == []


def replaced(path, pattern, by):
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(pattern, by, text, count=1), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text


def flip(root):
    (path,) = (root / "models").iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


TAMPERINGS = {
    f"tables/{SWEEP}.csv": lambda root: replaced(root / "tables" / f"{SWEEP}.csv", r"(\d\d\.\d\d)", r"1\1"),
    "benchmarks/cost.json": lambda root: replaced(root / "benchmarks" / "cost.json", r"(\d\.\d+)", r"1\1"),
    "docs/verdicts.md": lambda root: replaced(root.parent / "docs" / "verdicts.md", r"\b(\d+\.\d+)\b", r"1\1"),
    "maps.parquet": lambda root: change(
        root, "maps", lambda maps: maps.assign(content=maps.content.str.replace("0.", "1.", n=1))
    ),
    "models/": flip,
}


@pytest.mark.parametrize("name", sorted(TAMPERINGS))
def test_a_changed_file_is_found(root, name):
    TAMPERINGS[name](root)
    (problem,) = verify(Results(root)).problems
    assert name in problem
    assert "SHA-256: expected the one in" in problem


def test_lost_and_added_files_and_links_are_found(root):
    (root / "tables" / f"{SWEEP}.csv").unlink()
    (root / "tables" / "new.csv").write_text("a\n")
    (root / "benchmarks" / "cost.json").unlink()
    (root / "benchmarks" / "cost.json").symlink_to("/etc/passwd")
    os.mkfifo(root / "tables" / "pipe")
    lost, added, link = sorted(verify(Results(root)).problems, key=lambda one: (SWEEP not in one, "new" not in one))
    assert "expected a file, since" in lost
    assert "new.csv: expected a file of" in added
    assert "cost.json: expected a file, since" in link


def forged_nll(root, split):
    """NLL of every sentence of a split of one run × .9, with its file, its hash and all its scores."""
    identity = first(root)
    edited(root, "sentences/grammar", "nll", lambda t: (t.id == identity) & (t.split == split), lambda nll: nll * 0.9)
    nll = ["nll", "nll_by_length"]
    chosen = lambda t: (t.id == identity) & (t.split == split) & t.metric.isin(nll)  # noqa: E731
    edited(root, "scores", "value", chosen, lambda value: value * 0.9)
    content = Store(root).content(identity, f"{split}.nll.txt")
    old = Results(root).store.tree(identity)["per_sentence"][f"{split}.nll.txt"]
    new = hashlib.sha256(content).hexdigest()
    edited(root, "runs", "record", lambda t: t.id == identity, lambda text: text.str.replace(old, new))
    text = hashlib.sha256(Store(root).text(identity).encode()).hexdigest()
    edited(root, "runs", "sha256", lambda t: t.id == identity, text)
    return identity


def test_nll_changed_with_its_file_all_scores_and_all_hashes_contradicts_perplexity(root):
    identity = forged_nll(root, "test")
    assert "README.md: root hash" not in problems(root)
    assert "SHA-256" in problems(root)
    seal(root)
    (problem,) = verify(Results(root)).problems
    assert problem.startswith(f"{root / 'runs.parquet'}: {identity}: scores.test.perplexity: expected ")


def test_perplexity_changed_along_contradicts_the_history(root):
    identity = forged_nll(root, "valid")
    chosen = lambda t: (t.id == identity) & (t.split == "valid") & (t.metric == "perplexity")  # noqa: E731
    edited(root, "scores", "value", chosen, lambda value: value**0.9)
    seal(root)
    (problem,) = verify(Results(root)).problems
    assert f"{identity}: history.valid_loss" in problem


def test_a_manifest_that_agrees_with_all_files_has_another_root(root):
    TAMPERINGS[f"tables/{SWEEP}.csv"](root)
    write_manifest(root)
    (problem,) = verify(Results(root)).problems
    assert problem.startswith("README.md: root hash: expected ")


@pytest.mark.parametrize(
    ("name", "column", "metric", "value", "said"),
    [
        (
            "scores",
            "value",
            "exact",
            lambda value: value * 0.9,
            r"scores.test.exact: expected .* by its sentences",
        ),
        ("scores", "value", "nll", lambda value: value * 0.9, r"scores.test.nll: expected .* by its sentences"),
        ("sentences/grammar", "nll", None, lambda value: value * 0.9, r"scores.test.nll: expected .* by its sentences"),
        ("sentences/grammar", "exact", None, False, r"scores.test.exact: expected 0, by its sentences"),
    ],
)
def test_numbers_that_contradict_each_other_are_found(root, name, column, metric, value, said):
    identity = first(root)

    def chosen(table):
        whole = (table.metric == metric) & table.subset.isna() if metric else True
        return (table.id == identity) & (table.split == "test") & whole

    edited(root, name, column, chosen, value)
    seal(root)
    assert re.search(rf"{identity}: {said}", problems(root))


def test_the_value_that_chose_the_step_is_the_largest(root):
    edited(root, "runs", "selected_value", lambda t: t.id == first(root), 99.5)
    seal(root)
    assert f"{first(root)}: selection.value: expected " in problems(root)


def test_lost_and_stray_runs_are_found(root):
    identity = first(root)
    other = identity[:-1] + "9"
    for name in TABLES:
        change(root, name, lambda table: table.assign(id=table.id.replace(identity, other)))
    seal(root)
    found = problems(root)
    assert f"{identity}: expected a record, since sweep {SWEEP} declares it" in found
    assert f"{other}: expected a run of a published sweep, got a stray one" in found


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\xff" * 100])
@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table_is_told_in_one_line(root, name, content):
    path = root / f"{name}.parquet"
    path.write_bytes(content if content != b"PAR1" else path.read_bytes()[:-20])
    assert all("\n" not in problem for problem in verify(Results(root)).problems)
    assert f"{path}: SHA-256" in problems(root)


@pytest.mark.parametrize("content", ["", "[" * 100_000, "[]", '{"sweeps": {"a": 1}, "files": {}}'])
def test_a_damaged_manifest_is_refused(root, content):
    (root / "manifest.json").write_text(content)
    with pytest.raises(InputError, match=r"^[^\n]*manifest\.json: [^\n]*$"):
        verify(Results(root))


def test_translations_are_scored_again(root):
    identity, store = first(root), Store(root)
    assert evidence.examine(store, [identity]) == []
    lines = store.hypotheses(identity, "test")
    edited(root, "sentences/grammar", "translation", lambda t: (t.id == identity) & (t.split == "test"), lines[::-1])
    content = Store(root).content(identity, "test.hyp.txt")
    chosen = lambda t: (t.id == identity) & (t.split == "test") & t.hypotheses.notna()  # noqa: E731
    edited(root, "scores", "hypotheses_sha256", chosen, hashlib.sha256(content).hexdigest())
    seal(root)
    found = "\n".join(evidence.examine(Store(root), [identity]))
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
    assert re.match(r"[3-9] files of 1 runs scored again", found.summary["translations"])


def test_without_references_stored_counts_give_bleu(monkeypatch, tmp_path):
    """Multi30k's references are not shipped: BLEU of a split follows from the counts of its sentences."""
    ours = Results(ROOT / "results")
    identity = next(one for one in ours.store.ids() if one.startswith("multi30k"))
    for name in ("runs", "scores", "curves", "maps", "sentences/multi30k"):
        table = pq.read_table(ours.root / f"{name}.parquet")
        save(table.filter(pc.equal(table["id"], identity)), tmp_path / f"{name}.parquet")
    monkeypatch.setattr(Multi30k, "at_hand", lambda self: False)
    evidence._corpus.cache_clear()
    counted = Counter()
    assert evidence.examine(Store(tmp_path), [identity], counted=counted) == []
    assert counted["files without references"] == len(evidence.hypothesis_files(Store(tmp_path).record(identity)))
    assert evidence.contradictions(Store(tmp_path)) == []
    edited(tmp_path, "sentences/multi30k", "correct1", lambda t: t.sentence == 0, 99)
    found = "\n".join(evidence.contradictions(Store(tmp_path)))
    assert re.search(r"scores\.valid\.bleu: expected [\d.]+, by its sentences, got ", found)
    monkeypatch.undo()
    evidence._corpus.cache_clear()
    if Multi30k().at_hand():
        found = "\n".join(evidence.examine(Store(tmp_path), [identity]))
        assert "valid.bleu.tsv: expected the counts of the translations, got others" in found
