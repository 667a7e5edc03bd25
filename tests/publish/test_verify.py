"""Everything published is checked: what is changed, lost or added afterwards is listed with file and field."""

import hashlib
import json
import re
import subprocess
from types import SimpleNamespace

import pytest
from published_lab import edit

from study import files, records, scoring
from study.analysis.measures import Measure
from study.analysis.runs import Runs, sentence_tests
from study.config import Grammar
from study.corpora import load as load_corpus
from study.errors import InputError
from study.files import CHECKOUT as ROOT
from study.publish import evidence, noise, supplement
from study.publish.dictionary import fields, write_index
from study.publish.models import publish_model
from study.publish.publish import publish
from study.publish.reproduce import reproduce
from study.publish.results import Manifest, Results
from study.publish.verify import verify
from study.records import Record
from study.store import Store
from study.sweep.spec import load


@pytest.fixture
def lab(published, tmp_path):
    return published.copy(tmp_path)


def problems(lab):
    return "\n".join(lab.verify().problems)


def test_everything_is_counted(lab):
    found = lab.verify()
    assert (found.problems, found.rescored, found.from_statistics) == ([], 8, 0)
    assert (found.states, found.unchecked) == ({"finished": 4}, {"nll": 8})


def test_hashes_are_checked_without_scoring(lab):
    found = lab.verify(rescore=False)
    assert (found.problems, found.hashed, found.rescored, found.unchecked) == ([], 8, None, {})
    lab.replace(2, "test.hyp.txt", lab.files_of(2)[f"{lab.ids[2]}.test.hyp.txt"] + b"more\n")
    (problem,) = lab.verify(rescore=False).problems
    assert problem.startswith(
        f"{lab.arm(2)}: {lab.ids[2]}: scores.test.hypotheses_sha256: expected that of test.hyp.txt"
    )


def test_many_processes_find_the_same(lab):
    lab.replace(2, "test.hyp.txt", b"?\n")
    alone, told = lab.verify(), []
    evidence.CHUNK, usual = 2, evidence.CHUNK
    try:
        results = Results(lab.results.root)
        assert verify(results, rescore=True, processes=2, progress=lambda *counts: told.append(counts)) == alone
    finally:
        evidence.CHUNK = usual
    assert len(alone.problems) == 1
    assert told == [(0, 4), (2, 4), (4, 4)]


@pytest.fixture
def unshipped(finished, tmp_path, monkeypatch):
    """The same runs on a corpus whose references the repository does not have."""
    monkeypatch.setattr(Grammar, "shipped", False)
    lab = finished.copy(tmp_path)
    lab.publish()
    return lab


def test_without_references_the_statistics_decide_and_are_counted(unshipped, monkeypatch):
    lab = unshipped
    assert lab.verify().problems == []
    lab.replace(2, "test.bleu.tsv", lab.files_of(2)[f"{lab.ids[2]}.test.bleu.tsv"].replace(b"1", b"2", 1))
    assert f"{lab.ids[2]}: scores.test: test.bleu.tsv: expected the statistics of the translations" in problems(lab)
    lab.replace(2, "test.bleu.tsv", lab.files_of(3)[f"{lab.ids[3]}.test.bleu.tsv"])
    monkeypatch.setattr(evidence, "references", lambda data: None)
    lab.replace(2, "test.bleu.tsv", b"\xff\xfe")
    assert f"{lab.ids[2]}: scores.test: no references at hand" in problems(lab)
    for place in range(2):
        text = lab.files_of(place)[f"{lab.ids[place]}.test.bleu.tsv"].decode()
        longer = re.sub(r"^(\d+\t\d\t)\d+", r"\g<1>99", text, count=1, flags=re.MULTILINE)
        lab.replace(place, "test.bleu.tsv", longer.encode())
    assert problems(lab).count("test.bleu.tsv: sys_len: expected the lengths of the translations") == 2
    lab.replace(0, "test.bleu.tsv", None)
    assert f"{lab.ids[0]}: test.bleu.tsv: expected a file, because the references are not shipped" in problems(lab)


def test_scores_from_statistics_are_compared(unshipped, monkeypatch):
    lab = unshipped
    monkeypatch.setattr(evidence, "references", lambda data: None)
    found = lab.verify()
    assert (found.problems, found.rescored, found.from_statistics) == ([], 0, 8)
    assert found.unchecked == {"nll": 8, "chrf": 8, "prefix": 8, "accuracy": 8}
    lab.edit(0, {"scores.0.value": 12.0})
    assert re.search(r"scores\.test\.bleu\.value: expected .*, got 12\.0", problems(lab))


def test_lost_files_are_missed(lab):
    lab.replace(0, "test.hyp.txt", None)
    lab.replace(1, "other.txt", b"?")
    lab.replace(3, "test.hyp.txt", b"\xff\xfe")
    lab.arm(2).write_text(json.dumps(json.loads(lab.arm(2).read_text())[:1]))
    said = problems(lab)
    assert f"{lab.ids[0]}: scores.test.hypotheses: test.hyp.txt: no such file" in said
    assert f"{lab.ids[1]}: other.txt: expected a file that the record names, got a stray one" in said
    assert f"{lab.results.runs}: {lab.ids[2]}: expected a record, since sweep tiny declares it" in said
    assert f"{lab.arm(2, '.tar.xz')}: {lab.ids[2]}.test.hyp.txt: expected files of runs in" in said


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[1]", b"\xff", b'[{"id": "another-s1"}]'])
def test_an_arm_that_cannot_be_read_is_told_and_the_rest_checked(lab, content):
    lab.arm(0).write_bytes(content)
    found = lab.verify()
    assert [p for p in found.problems if p.startswith(f"{lab.arm(0)}: ")]
    assert not [p for p in found.problems if "since sweep tiny" in p]
    assert found.rescored == 4


def test_an_archive_that_cannot_be_read_is_told_once(lab):
    path = lab.arm(0, ".tar.xz")
    for content in (b"", path.read_bytes()[:-40], path.read_bytes().replace(b"a", b"b")):
        path.write_bytes(content)
        found = lab.verify()
        assert len([p for p in found.problems if p.startswith(f"{path}: expected an archive")]) == 1
        assert found.rescored == 4
    path.unlink()
    assert problems(lab).count("test.hyp.txt: no such file") == 2


def test_names_that_lead_elsewhere_are_told(lab):
    place = next(i for i, s in enumerate(Store(lab.results.root).record(lab.ids[1]).scores) if s.hypotheses)
    lab.edit(1, {f"scores.{place}.hypotheses": "../../outside"})
    assert "got ../../outside" in problems(lab)


def test_one_number_a_sentence_is_kept_and_checked(finished, tmp_path):
    lab = finished.copy(tmp_path)
    record = records.read(lab.path(0))
    n = record.scores[0].n
    text = "1.25\n1.75\n" * (n // 2)  # the mean is the NLL of the record, 1.5 nats
    files.write(lab.path(0).with_name("test.nll.txt"), text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    lab.change(0, per_sentence={"test.nll.txt": digest})
    lab.publish()
    assert Store(lab.results.root).content(lab.ids[0], "test.nll.txt") == text.encode()
    assert lab.verify(rescore=False).problems == []
    lab.replace(0, "test.nll.txt", text.replace("1.25", "9.25").encode())
    assert "per_sentence.test.nll.txt: expected the file of that SHA-256" in problems(lab)
    other = "2.0\n" * n
    lab.replace(0, "test.nll.txt", other.encode())
    lab.edit(0, {"per_sentence": {"test.nll.txt": hashlib.sha256(other.encode()).hexdigest()}})
    assert f"per_sentence.test.nll.txt: expected {n} numbers of mean 1.5, got {n} of mean 2.0" in problems(lab)


def test_older_records_get_the_scores_of_subsets_from_their_translations(lab, monkeypatch):
    """A subset that is named later has 24 of 30 test sentences; run 3 has lost a word in the first three."""
    monkeypatch.setattr(
        Grammar, "subsets", lambda self, split: {"late": lambda pairs: [i < 24 for i in range(len(pairs))]}
    )
    (path,) = supplement.write(lab.results)
    (run,) = (run for run in Runs(lab.results.root).of(lab.spec) if run.id == lab.ids[3])
    assert run.record.score("test", "exact", "late") == 87.5
    assert Measure("test/exact/late").of(run.record) == 87.5
    assert Store(lab.results.root).record(lab.ids[3]).score("test", "exact", "late") is None
    assert lab.verify().problems == []
    text = path.read_text()
    path.write_text(text.replace("87.5", "97.5"))
    assert f"{path}: {lab.ids[3]}: expected the scores of its translations" in problems(lab)
    assert supplement.write(lab.results) == [path]
    assert "97.5" in path.read_text(), "what is there is not computed again"
    path.unlink()
    assert problems(lab).count("expected the scores of its translations") == 4
    supplement.write(lab.results)
    assert path.read_text() == text


def test_tests_over_sentences_are_written_once_and_checked(lab, monkeypatch):
    """Run 3 has lost a word in sentences 0 to 2, run 1 in sentence 0. So they differ in two sentences, the same way:
    of four draws of signs two are as large, p = .5. BLEU is tested by sacreBLEU."""
    keys = [("test/exact", lab.ids[3], lab.ids[1]), ("test/bleu", lab.ids[3], lab.ids[1])]
    missing = [("test/nll", lab.ids[3], lab.ids[1])]  # no NLL of each sentence
    verdicts = [SimpleNamespace(findings=[SimpleNamespace(key=key) for key in (*keys, *missing)])]
    (path,) = noise.write(lab.results, verdicts)
    tests = sentence_tests(lab.results.root)
    assert list(tests) == keys
    assert tests[keys[0]].p == (pytest.approx(0.5, abs=0.03),)
    assert (tests[keys[0]].interval, tests[keys[0]].count) == (None, "0 of 1")
    assert tests[keys[1]].p == (0.5,)
    assert lab.verify().problems == []
    text = path.read_text()
    path.write_text(text.replace("0.5000", "0.0005"))
    assert f"test/bleu {lab.ids[3]} {lab.ids[1]}: expected" in problems(lab)
    assert noise.write(lab.results, verdicts[:0]) == []
    monkeypatch.setattr(noise, "references", lambda data: None)
    assert lab.verify().unchecked == {"nll": 8, "noise": 2}
    noise.write(lab.results, verdicts)
    assert "0.0005" in path.read_text(), "a row that cannot be computed here is kept"


def test_scores_of_subsets_follow_from_the_nll_of_each_sentence(lab, monkeypatch):
    """24 sentences of 1.25 nats and 6 of 2.5 have the mean of the record, 1.5."""
    late = [True] * 24 + [False] * 6
    monkeypatch.setattr(Grammar, "subsets", lambda self, split: {"late": lambda pairs: late[: len(pairs)]})
    nll = [1.25 if one else 2.5 for one in late]
    text = "".join(f"{one}\n" for one in nll)
    digest = hashlib.sha256(text.encode()).hexdigest()
    pairs = load_corpus(lab.spec.cells[0].experiment.data).splits["test"]
    added = scoring.score_nll(nll, pairs, "test", {"late": late})
    trees = json.loads(lab.arm(0).read_text())
    (tree,) = (tree for tree in trees if tree["id"] == lab.ids[0])
    tree["per_sentence"] = {"test.nll.txt": digest}
    tree["scores"] += [records.rounded(score.model_dump()) for score in added]
    lab.arm(0).write_text(json.dumps(trees))
    lab.replace(0, "test.nll.txt", text.encode())
    assert "nll" not in problems(lab)
    key = ("test/nll/late", lab.ids[0], lab.ids[0])  # a run does not differ from itself
    noise.write(lab.results, [SimpleNamespace(findings=[SimpleNamespace(key=key)])])
    assert sentence_tests(lab.results.root)[key].p == (1.0,)
    places = {score["metric"]: place for place, score in enumerate(tree["scores"]) if score["metric"].startswith("nll")}
    lab.edit(0, {f"scores.{place}.value": 0.3 for place in places.values()})
    assert "scores.test.nll_by_length.late.value: expected" in problems(lab)
    assert "scores.test.nll.late.value: expected 1.25, from test.nll.txt, got 0.3" in problems(lab)


@pytest.mark.parametrize("name", ["runs/notes.txt", "runs/.x.json.0123abcd.tmp", "runs/x.tar.xz", "sweeps/old.yaml"])
def test_a_stray_file_is_found(lab, name):
    (lab.results.root / name).write_text("?")
    assert f"{name}: expected a published file, got a stray one" in problems(lab)


def test_a_run_that_no_sweep_declares_is_a_stray(lab):
    lab.results.manifest_path("tiny").unlink()
    assert problems(lab).count("expected a run of a published sweep, got a stray one") == 4


@pytest.mark.parametrize(
    "changes", [{"scores.5.value": 1.25}, {"status": "diverged"}, {"resources.wall_seconds": 2}, {"history": []}]
)
def test_numbers_that_no_translation_gives_are_guarded_too(lab, changes):
    assert Store(lab.results.root).record(lab.ids[1]).scores[5].metric == "nll"
    lab.edit(1, changes)
    (problem,) = (p for p in lab.verify().problems if ": SHA-256: " in p)
    assert problem.startswith(f"{lab.arm(1)}: {lab.ids[1]}: SHA-256: expected the one in ")
    edit(lab.results.manifest_path("tiny"), {"files": {}})
    assert problems(lab).count("expected its SHA-256 in a published sweep, got none. Publish its sweep again.") == 4


def forge(lab):
    """Change an NLL, and the hash of its record in every manifest that has one."""
    lab.edit(1, {"scores.5.value": 1.25})
    digest = hashlib.sha256(Store(lab.results.root).text(lab.ids[1]).encode()).hexdigest()
    for manifest in (lab.results.root / "sweeps").iterdir():
        tree = json.loads(manifest.read_text())
        tree["files"][f"{lab.ids[1]}.json"] = digest
        manifest.write_text(json.dumps(tree, sort_keys=True, indent=1, ensure_ascii=False) + "\n")


def test_a_number_forged_with_its_hashes_in_two_manifests_is_found(lab):
    second = lab.top / "sweeps" / "second.yaml"
    second.write_text((lab.top / "sweeps" / "tiny.yaml").read_text().replace("name: tiny", "name: second"))
    lab.committed()
    publish(load(second), lab.runs, Results(lab.results.root))
    assert len(Results(lab.results.root).manifests) == 2
    reproduce(Results(lab.results.root), lambda line: None)
    assert lab.verify().problems == []
    forge(lab)
    (problem,) = lab.verify().problems
    assert problem.startswith(f"{lab.results.root / 'tables' / 'study.json'}: root hash: ")
    readme = lab.top / "README.md"
    readme.write_text(f"<!-- root -->\n\nRoot hash: `{Results(lab.results.root).root_hash}`\n\n<!-- end -->\n")
    assert len(lab.verify().problems) == 1  # a README that was forged, too
    readme.write_text(f"<!-- root -->\n\nRoot hash: `{'0' * 64}`\n\n<!-- end -->\n")
    assert re.search(rf"{readme}: root hash: expected \w+…, that of .*, got 000000000000…\. Restore", problems(lab))


def test_the_root_hash_is_that_of_sha256sum_and_is_missed_where_nothing_prints_it(lab):
    command = "LC_ALL=C sha256sum *.json | sha256sum"
    said = subprocess.run(
        command, shell=True, cwd=lab.results.root / "sweeps", capture_output=True, text=True, check=True
    )
    assert lab.results.root_hash == said.stdout.split()[0]
    forge(lab)
    found = lab.verify()
    assert (found.problems, found.unprinted) == ([], lab.results.root_hash)
    assert f"not checked   root hash {found.unprinted}: no file prints it. Run `study reproduce`." in found.lines()


def test_the_readme_and_the_paper_of_this_repository_print_its_root_hash():
    results = Results(ROOT / "results")
    assert results.printed_hashes == {
        ROOT / "README.md": results.root_hash,
        ROOT / "results" / "tables" / "study.json": results.root_hash,
    }


def test_an_attention_map_is_the_published_one(finished, tmp_path):
    lab = finished.copy(tmp_path)
    files.write(lab.path(0).with_name("attention.json"), "{}\n")
    lab.publish()
    assert lab.verify().problems == []
    lab.replace(0, "attention.json", b"[]\n")
    assert f"{lab.ids[0]}: attention.json: SHA-256: expected the one in" in problems(lab)
    lab.replace(0, "attention.json", None)
    assert f"{lab.results.runs}: {lab.ids[0]}.attention.json: expected a file, since " in problems(lab)
    lab.replace(1, "attention.json", b"[]\n")
    assert f"{lab.ids[1]}: {lab.ids[1]}.attention.json: expected its SHA-256 in a published sweep" in problems(lab)


def test_the_commits_of_a_sweep_are_those_of_its_runs(lab):
    edit(lab.results.manifest_path("tiny"), {"code.0.commits": [lab.commit, "f" * 40]})
    assert (
        "tiny.json: code.commits: expected the commits of its records, got a listed commit without records, ff"
        in problems(lab)
    )


def test_records_of_another_schema_are_told_and_the_rest_checked(lab):
    lab.edit(3, {"schema_version": 0})
    found = lab.verify()
    assert [p for p in found.problems if f"{lab.ids[3]}: schema_version: expected 1 to" in p]
    assert not [p for p in found.problems if "absent" in p]
    assert found.rescored == 6


def test_a_sweep_that_was_changed_since_is_told(lab):
    path = lab.top / "sweeps" / "tiny.yaml"
    path.write_text(path.read_text().replace("[1, 2]", "[1, 2, 3]").replace("test/exact", "test/bleu"))
    said = problems(lab)
    assert "tiny.json: metric: expected test/bleu, as in sweeps/tiny.yaml, got test/exact. Restore" in said
    assert said.count("since sweep tiny declares it") == 2


def test_a_failure_hidden_in_a_whole_sweep_is_told(lab):
    lab.edit(0, {"status": "failed"})
    assert "since sweep tiny is published as complete, got failed" in problems(lab)


def test_no_folder_and_a_broken_manifest_are_input_errors(lab):
    with pytest.raises(InputError, match="no such folder"):
        verify(Results(lab.top / "absent"))
    with pytest.raises(InputError, match=r"sweeps: expected published results, got none"):
        verify(Results(lab.top / "sweeps"))
    edit(lab.results.manifest_path("tiny"), {"metric": 3})
    with pytest.raises(InputError, match=r"tiny\.json: metric: "):
        lab.verify()


def test_the_dictionary_has_every_field_described_and_the_counts(lab):
    described = [*fields(Record), *fields(Manifest)]
    assert [name for name, _, said in described if not said] == []
    assert ("scores[].value", "number or null") in [(name, kind) for name, kind, _ in described]
    path, *_ = write_index(Results(lab.results.root), Runs(lab.results.root))
    text = path.read_text(encoding="utf-8")
    assert "| tiny | 4 | 4 | 0 | 0 | 0 | 0 | a processor | 2.00 |" in text
    write_index(Results(lab.results.root), Runs(lab.results.root))
    assert path.read_text(encoding="utf-8") == text


def test_published_models_are_checked_by_their_hashes(lab):
    contents = {lab.ids[0]: b"m" * 1_000_001, lab.ids[1]: b"model"}
    for identity, content in contents.items():
        publish_model(lab.results, identity, content)
    folder = lab.results.root / "models"
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [f"{lab.ids[0]}.pt.1", f"{lab.ids[0]}.pt.2", f"{lab.ids[1]}.pt", "models.json"]
    )
    found = lab.verify(rescore=False)
    assert (found.problems, found.models) == ([], 2)
    (folder / f"{lab.ids[0]}.pt.2").write_bytes(b"n")
    (folder / f"{lab.ids[1]}.pt").rename(folder / "other-s1.pt")
    absent, changed, stray = lab.verify(rescore=False).problems
    assert f"{lab.ids[0]}.pt: SHA-256: expected the one in models.json" in changed
    assert f"{lab.ids[1]}.pt: expected a file, since models.json names it" in absent
    assert "other-s1.pt: expected a file that models.json names, got a stray one" in stray
    publish_model(lab.results, "nothing-recurrent-dot-00000000-s1", b"x")
    (folder / "other-s1.pt").unlink()
    assert "expected the model of a published run" in problems(lab)


def test_maps_are_those_of_the_published_model_and_translations(lab):
    publish_model(lab.results, lab.ids[0], b"model")
    folder, digest = lab.results.root / "maps", lab.results.store.record(lab.ids[0]).scores[0].hypotheses_sha256
    folder.mkdir()
    facts = {"model_sha256": hashlib.sha256(b"model").hexdigest(), "hypotheses_sha256": digest, "sentences": []}
    path = folder / f"{lab.ids[0]}.json"
    path.write_text(json.dumps(facts))
    assert lab.verify(rescore=False).problems == []
    for name in ("model_sha256", "hypotheses_sha256"):
        path.write_text(json.dumps(facts | {name: "0" * 64}))
        assert f"{name}: expected that of the " in problems(lab)
    path.write_text("[")
    assert "expected attention maps in JSON" in problems(lab)
