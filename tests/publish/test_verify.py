"""Everything published is checked: what is changed, lost or added afterwards is listed with file and field."""

import hashlib
import json
import re
import subprocess

import pytest
from published_lab import edit

from study import records
from study.analysis.runs import Runs
from study.config import Grammar
from study.errors import InputError
from study.publish import evidence
from study.publish.dictionary import fields, write_readme
from study.publish.publish import publish
from study.publish.reproduce import reproduce
from study.publish.store import ROOT, Manifest, Results
from study.publish.verify import verify
from study.records import Record
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


def test_many_processes_find_the_same(lab):
    path = lab.results.runs / f"{lab.ids[2]}.test.bleu.tsv"
    path.write_text(path.read_text().replace("1", "2", 1))
    alone = lab.verify()
    evidence.CHUNK, usual = 2, evidence.CHUNK
    try:
        assert verify(Results(lab.results.root), processes=2) == alone
    finally:
        evidence.CHUNK = usual
    assert len(alone.problems) == 1


def test_without_references_the_statistics_decide_and_are_counted(lab, monkeypatch):
    monkeypatch.setattr(evidence, "references", lambda data: None)
    found = lab.verify()
    assert (found.problems, found.rescored, found.from_statistics) == ([], 0, 8)
    assert found.unchecked == {"nll": 8, "chrf": 8, "prefix": 8, "accuracy": 8}
    record = lab.results.record_path(lab.ids[0])
    edit(record, {"scores.0.value": 12.0})
    assert "scores.test.bleu.value: 12.0, and the translations give" in problems(lab)
    path = lab.results.runs / f"{lab.ids[1]}.long.bleu.tsv"
    head, first, rest = path.read_text().split("\n", 2)
    path.write_text("\n".join([head, re.sub(r"^(\d+\t\d\t)\d+", r"\g<1>99", first), rest]))
    assert f"{path}: sys_len: not the lengths of the translations" in problems(lab)
    path.unlink()
    assert "no references at hand" in problems(lab)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("{id}.json", "absent, and tiny declares it"),
        ("{id}.test.hyp.txt", "scores.test.hypotheses: "),
        ("{id}.test.bleu.tsv", "absent; publish the sweep again"),
    ],
)
def test_a_lost_file_is_missed(lab, name, said):
    (lab.results.runs / name.format(id=lab.ids[0])).unlink()
    assert said in problems(lab)


def test_bytes_that_are_no_text_and_names_that_lead_elsewhere_are_told(lab):
    for name in ("test.bleu.tsv", "long.hyp.txt"):
        (lab.results.runs / f"{lab.ids[0]}.{name}").write_bytes(b"\xff\xfe")
    place = next(i for i, s in enumerate(records.read(lab.results.record_path(lab.ids[1])).scores) if s.hypotheses)
    edit(lab.results.record_path(lab.ids[1]), {f"scores.{place}.hypotheses": "../../outside"})
    said = problems(lab)
    assert "test.bleu.tsv: not the statistics of the translations" in said
    assert "long.hyp.txt" in said
    assert "../../outside, expected" in said


@pytest.mark.parametrize("name", ["runs/notes.txt", "runs/.x.json.12", "sweeps/old.yaml"])
def test_a_stray_file_is_found(lab, name):
    (lab.results.root / name).write_text("?")
    assert f"{name}: stray" in problems(lab)


def test_a_run_that_no_sweep_declares_is_a_stray(lab):
    lab.results.manifest_path("tiny").unlink()
    assert problems(lab).count("stray: no published sweep declares it") == 4


@pytest.mark.parametrize(
    "changes", [{"scores.5.value": 1.25}, {"status": "diverged"}, {"resources.wall_seconds": 2}, {"history": []}]
)
def test_numbers_that_no_translation_gives_are_guarded_too(lab, changes):
    path = lab.results.record_path(lab.ids[1])
    assert records.read(path).scores[5].metric == "nll"
    edit(path, changes)
    (problem,) = lab.verify().problems
    assert problem.startswith(f"{path}: changed since it was published: its SHA-256")
    edit(lab.results.manifest_path("tiny"), {"files": {}})
    assert problems(lab).count("no published sweep has its SHA-256; publish its sweep again") == 4


def forge(lab):
    """Change an NLL, and the hash of its record in every manifest that has one."""
    path = lab.results.record_path(lab.ids[1])
    edit(path, {"scores.5.value": 1.25})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for manifest in (lab.results.root / "sweeps").iterdir():
        tree = json.loads(manifest.read_text())
        tree["files"][path.name] = digest
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
    assert problem.startswith(f"{lab.results.root / 'tables' / 'study.json'}: root hash ")
    readme = lab.top / "README.md"
    readme.write_text(f"<!-- root -->\n\nRoot hash: `{Results(lab.results.root).root_hash}`\n\n<!-- end -->\n")
    assert len(lab.verify().problems) == 1  # a README that was forged, too
    readme.write_text(f"<!-- root -->\n\nRoot hash: `{'0' * 64}`\n\n<!-- end -->\n")
    assert f"{readme}: root hash 000000000000, and the manifests in" in problems(lab)


def test_the_root_hash_is_that_of_sha256sum_and_is_missed_where_nothing_prints_it(lab):
    command = "LC_ALL=C sha256sum *.json | sha256sum"
    said = subprocess.run(
        command, shell=True, cwd=lab.results.root / "sweeps", capture_output=True, text=True, check=True
    )
    assert lab.results.root_hash == said.stdout.split()[0]
    forge(lab)
    found = lab.verify()
    assert (found.problems, found.unprinted) == ([], lab.results.root_hash)
    assert f"not checked   root hash {found.unprinted}: nothing prints it; `study reproduce` does" in found.lines()


def test_the_readme_and_the_paper_of_this_repository_print_its_root_hash():
    results = Results(ROOT / "results")
    assert results.printed_hashes == {
        ROOT / "README.md": results.root_hash,
        ROOT / "results" / "tables" / "study.json": results.root_hash,
    }


def test_an_attention_map_is_the_published_one(lab):
    records.write(lab.path(0).with_name("attention.json"), "{}\n")
    lab.publish()
    assert lab.verify().problems == []
    path = lab.results.runs / f"{lab.ids[0]}.attention.json"
    path.write_text("[]\n")
    assert f"{path}: changed since it was published" in problems(lab)
    path.rename(lab.results.runs / f"{lab.ids[1]}.attention.json")
    assert f"{path}: absent, and it was published" in problems(lab)
    assert f"{lab.ids[1]}.attention.json: stray" in problems(lab)


def test_the_commits_of_a_sweep_are_those_of_its_runs(lab):
    edit(lab.results.manifest_path("tiny"), {"code.0.commits": [lab.commit, "f" * 40]})
    assert "tiny.json: code.commits: ffffffffffff: no record has it" in problems(lab)


def test_records_of_another_schema_are_told_and_the_rest_checked(lab):
    edit(lab.results.record_path(lab.ids[3]), {"schema_version": 2})
    found = lab.verify()
    assert [p for p in found.problems if "schema_version is 2" in p]
    assert not [p for p in found.problems if "absent" in p]
    assert found.rescored == 6


def test_a_sweep_that_was_changed_since_is_told(lab):
    path = lab.top / "sweeps" / "tiny.yaml"
    path.write_text(path.read_text().replace("[1, 2]", "[1, 2, 3]").replace("test/exact", "test/bleu"))
    said = problems(lab)
    assert "tiny.json: metric: test/exact, and sweeps/tiny.yaml has test/bleu" in said
    assert said.count("absent, and tiny declares it") == 2


def test_a_failure_hidden_in_a_whole_sweep_is_told(lab):
    edit(lab.results.record_path(lab.ids[0]), {"status": "failed"})
    assert "status: failed, and tiny is published as complete" in problems(lab)


def test_no_folder_and_a_broken_manifest_are_input_errors(lab):
    with pytest.raises(InputError, match="no such folder"):
        verify(Results(lab.top / "absent"))
    with pytest.raises(InputError, match=r"sweeps: nothing is published here"):
        verify(Results(lab.top / "sweeps"))
    edit(lab.results.manifest_path("tiny"), {"metric": 3})
    with pytest.raises(InputError, match=r"tiny\.json: metric: "):
        lab.verify()


def test_the_dictionary_has_every_field_described_and_the_counts(lab):
    described = [*fields(Record), *fields(Manifest)]
    assert [name for name, _, said in described if not said] == []
    assert ("scores[].value", "number or null") in [(name, kind) for name, kind, _ in described]
    (path,) = write_readme(Results(lab.results.root), Runs(lab.results.root))
    text = path.read_text(encoding="utf-8")
    assert "| tiny | 4 | 4 | 0 | 0 | 0 | 0 | a processor | 2.00 |" in text
    write_readme(Results(lab.results.root), Runs(lab.results.root))
    assert path.read_text(encoding="utf-8") == text
    assert Grammar().name in lab.ids[0]
