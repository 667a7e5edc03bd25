"""Publishing: conditions, completeness, and that a published run never changes."""

import re
import subprocess
import sys

import published_lab
import pytest
import yaml
from claim_cases import CLAIM

from study.__main__ import main
from study.analysis.report import compared
from study.analysis.runs import Runs
from study.claims import schema
from study.config import config_hash, experiment_from, plugins
from study.errors import InputError
from study.publish import evidence, publish
from study.store import records, tables
from study.store.folder import Store


@pytest.fixture
def lab(finished, tmp_path):
    return finished.copy(tmp_path)


def test_a_whole_sweep_is_published_once(lab):
    done = lab.publish()
    assert done.states == {"finished": 4, "diverged": 0, "failed": 0, "missing": 0}
    assert (done.new, done.kept) == (4, 0)
    names = {f"{name}/0001.parquet" for name in ("runs", "arms", "scores", "curves", "maps", "sentences/grammar")}
    assert set(lab.files()) == names | {"manifest.json"}
    assert dict(lab.results.changed()) == {}
    store = Store(lab.results.root)
    assert store.ids() == sorted(lab.ids)
    assert store.text(lab.ids[0]).encode() == lab.path(0).read_bytes()
    assert store.counts(lab.ids[0], "test") == []  # the references are shipped
    sentences = store.frame("sentences/grammar", ["id", "split", "exact"])
    wrong = sentences[~sentences.exact.astype(bool) & (sentences.split == "test")]
    assert wrong.id.value_counts().reindex(lab.ids, fill_value=0).tolist() == [0, 1, 2, 3]
    assert sorted({tuple(labels) for labels in store.runs.labels}) == [("bilinear",), ("dot",)]
    assert store.content(lab.ids[0], "test.hyp.txt") == lab.path(0).with_name("test.hyp.txt").read_bytes()
    first = lab.files()
    again = lab.publish()
    assert (again.new, again.kept) == (0, 4)
    assert lab.files() == first
    lab.committed()  # a later commit: the runs are still in its history
    assert lab.publish().sweep == done.sweep
    assert lab.verify().problems == []


IMPOSSIBLE = [
    ({"schema_version": 0}, r"schema_version: expected 1 to 2"),
    ({"config.training.steps": 7}, r"config_hash: expected \w+, got \w+"),
    ({"seed": 5}, r"seed: expected 2, got 5"),
    ({"scores.0.value": 99.9}, r"scores\.test\.bleu: expected \([\d.]+, 30, .*\), got \(99\.9, 30, "),
    ({"scores.0.signature": "mine"}, r"scores\.test\.bleu: expected \(.*, got \(.*'mine'\)"),
    ({"scores.2.metric": "bleu2"}, r"scores\.test\.bleu2: expected no score"),
    ({"data.files.test": "ab"}, r"data\.files\.test: expected \w+, got ab"),
    ({"provenance.precision": "bfloat16"}, r"provenance\.precision: expected float32, got bfloat16"),
    ({"resources.train_seconds": -1}, r"resources\.train_seconds: "),
    ({"diagnostics": {"cross": "x"}}, r"diagnostics: .*cross: expected an object or a list"),
    ({"selection.rule": "last"}, r"selection\.rule: expected best_valid_bleu, got last"),
    ({"selection.step": 7}, r"selection\.step is a step of history: expected True, got False"),
    ({"history.0.step": "x"}, r"selection\.step is a step of history: expected True, got False"),
    ({"history.0.step": 10, "selection.step": 10}, r"record: .* got history: expected 1 validations up to step 20"),
    ({"scores.13.split": "valid"}, r"record: .* got scores: expected the split deep, got none"),
    ({"scores.0.split": "../../x", "scores.0.hypotheses": "../../x.hyp.txt"}, r"scores\.0\.split: "),
    ({"scores.0.hypotheses": "../../x.hyp.txt"}, "expected the files of a run"),
]
"""Fields of a record that are changed, and what is wrong with it."""


def test_a_run_that_cannot_be_believed_is_refused_and_nothing_written(lab):
    text = lab.path(2).read_text(encoding="utf-8")
    for changes, said in IMPOSSIBLE:
        lab.change(2, **changes)
        problem = next(evidence.examine(Store(lab.runs), lab.ids[2]))
        assert re.search(rf"{lab.ids[2]}/record\.json: {said}[^\n]*\Z", problem)
        lab.path(2).write_text(text, encoding="utf-8")
    lab.path(2).write_text(text.replace("{", "{ ", 1), encoding="utf-8")
    with pytest.raises(InputError, match=r"record\.json: text: expected the one that a run writes"):
        lab.publish()
    assert lab.files() == {}


CALL = {"from_step": 0, "git_dirty": False, "device": "a processor", "device_count": 1, "threads": 1}
"""Fields of a call in a record, without its commit."""
ELSEWHERE = [
    ({"git_dirty": True}, r"git_commit: expected a clean commit .* got \w+ with uncommitted"),
    ({"git_commit": None}, r"git_commit: expected a clean commit .* got None"),
    ({"git_commit": "0" * 40}, r"git_commit: expected a clean commit .* got 0+\."),
    ({"calls": [CALL | {"git_commit": "0" * 40}, CALL]}, r"git_commit: expected a clean commit"),
    ({"calls": [CALL | {"from_step": 3}]}, r"git_commit: expected a clean commit"),
    ({"calls": [CALL | {"device_count": 2}, CALL]}, r"device_count: 2, then 1, and .* has 1"),
    ({"threads": 2}, r"threads: 2, and .* has 1"),
    ({"device": "a GPU", "deterministic": False}, r"device: a GPU, and .* one thread"),
    ({"packages.sacrebleu": "1"}, r"packages\.sacrebleu: 1, and .* has 2"),
]
"""Fields of a record's provenance that are changed, and the refusal."""


def test_a_run_of_other_code_or_another_machine_is_refused_and_nothing_written(lab, monkeypatch):
    monkeypatch.setattr(publish, "examine_all", lambda store, ids: [])  # its scores are right
    text = lab.path(2).read_text(encoding="utf-8")
    for changes, said in ELSEWHERE:
        for call in changes.get("calls", []):
            call.setdefault("git_commit", lab.commit)
        lab.change(2, **{f"provenance.{name}": value for name, value in changes.items()})
        with pytest.raises(InputError, match=rf"{lab.ids[2]}/record\.json: provenance\.{said}[^\n]*\Z"):
            lab.publish()
        lab.path(2).write_text(text, encoding="utf-8")
    assert lab.files() == {}


def test_translations_must_be_there_and_be_the_ones(lab):
    path = lab.path(1).with_name("long.hyp.txt")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("the", "a", 1), encoding="utf-8")
    with pytest.raises(InputError, match=r"scores\.long\.hypotheses_sha256: expected "):
        lab.publish()
    path.unlink()
    with pytest.raises(InputError, match=r"scores\.long\.hypotheses_sha256: expected .*, got no file"):
        lab.publish()
    assert lab.files() == {}


def test_holes_need_a_reason_and_stay_holes(lab):
    lab.path(3).unlink()
    lab.fail(2)
    with pytest.raises(InputError, match=rf"1 missing and 1 failed of 4 declared, such as {lab.ids[3]}"):
        lab.publish()
    with pytest.raises(InputError, match="--partial: expected a reason"):
        lab.publish(" ")
    done = lab.publish("the machine was lent")
    assert done.states == {"finished": 2, "diverged": 0, "failed": 1, "missing": 1}
    assert done.sweep.partial.missing == [lab.ids[3]]
    found = lab.verify()
    assert found.problems == []
    assert found.summary["partial tiny"] == "1 of its runs missing, as published (the machine was lent)"
    frame = Runs(lab.results.root, lab.top / "sweeps").declared(lab.spec)
    assert list(frame["state"]) == ["finished", "finished", "failed", "missing"]
    table = compared(lab.spec, Runs(lab.results.root)).table
    assert [row.cells["n"] for row in table.rows] == ["1 of 2, 1 failed", "1 of 2, 1 missing"]
    assert table.notes[0] == "Published in part, with runs missing or failed: the machine was lent."


def test_divergence_is_a_result_and_no_hole(lab):
    with pytest.raises(InputError, match="Give the reason, or remove it"):
        lab.publish("just in case")
    record = records.read(lab.path(3))
    lab.write(record.model_copy(update={"status": "diverged", "error": "NaN", "scores": []}))
    assert lab.publish().states["diverged"] == 1
    assert lab.verify().problems == []


def test_what_is_published_never_changes(lab):
    lab.publish()
    first = lab.files()
    lab.change(0, **{"resources.train_seconds": 3.0})
    with pytest.raises(InputError, match=r"expected that of .*record\.json, got another"):
        lab.publish()
    assert lab.files() == first


def test_a_second_call_completes_an_interrupted_one(lab, monkeypatch):
    write = tables._write

    def interrupted(path, *content):
        if path.parent.name == "runs":  # all other tables have the new runs
            path.parent.mkdir()
            (path.parent / f".{path.name}.0123abcd.study.tmp").write_text("half")
            raise KeyboardInterrupt
        write(path, *content)

    monkeypatch.setattr(tables, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lab.publish()
    monkeypatch.undo()
    assert "manifest.json" not in lab.files()
    assert Store(lab.results.root).ids() == []
    lab.publish()
    assert lab.verify().problems == []
    assert not [name for name in lab.files() if name.endswith(".study.tmp")]


def test_the_sweep_file_must_be_committed(lab):
    with (lab.top / "sweeps" / "tiny.yaml").open("a") as file:
        file.write("# a thought\n")
    with pytest.raises(InputError, match=r"tiny\.yaml: expected a committed file"):
        lab.publish()


def test_runs_made_by_two_states_of_the_code_are_counted(lab):
    (lab.top / "study" / "models").mkdir(parents=True)
    (lab.top / "study" / "models" / "x.py").write_text("pass")
    later = lab.committed()
    lab.change(3, **{"provenance.git_commit": later})
    code = lab.publish().sweep.code
    assert [(one.runs, one.commits) for one in code] == [(3, [lab.commit]), (1, [later])]
    assert "was changed between" in compared(lab.spec, Runs(lab.results.root)).table.notes[0]


def test_the_verbs_from_the_command_line(lab, monkeypatch, capsys, printed):
    question = CLAIM["questions"][0] | {"sweep": "sweeps/tiny.yaml", "where": {}}
    (lab.top / "claims.yaml").write_text(yaml.safe_dump({"claims": [CLAIM | {"questions": [question]}]}))
    monkeypatch.setattr(schema, "HERE", lab.top / "claims.yaml")
    monkeypatch.chdir(lab.top)
    assert "tiny: 4 declared, 4 finished" in printed("publish", "sweeps/tiny.yaml")
    assert main(["reproduce"]) == 1  # nothing of it is committed
    assert "differs from what is committed: ?? results/manifest.json" in capsys.readouterr().out
    lab.committed()
    before = lab.files()
    assert before["tables/contrasts.csv"].splitlines()[1].startswith(b"mine,my-claim,superiority,grammar,recurrent,")
    assert b",30," in before["tables/sentences.csv"], "both arms translate 30 sentences"
    assert "nothing differs" in printed("reproduce")
    assert lab.files() == before
    assert re.search(r"differences +none", printed("verify"))
    assert "those of 4 runs scored again, 0 without references" in printed("verify", "--rescore")
    assert printed("show", lab.ids[1], "--runs", "results", "--json") == lab.path(1).read_text(encoding="utf-8")


def test_two_calls_at_once_publish_other_seeds_of_the_same_arms(lab):
    """Each call adds a seed to the files of both arms; neither loses what the other has written."""
    text = (lab.top / "sweeps" / "tiny.yaml").read_text()
    for seed in (1, 2):
        one = text.replace("name: tiny", f"name: seed{seed}").replace("[1, 2]", f"[{seed}]")
        (lab.top / "sweeps" / f"seed{seed}.yaml").write_text(one)
    lab.committed()
    command = [sys.executable, "-P", "-m", "study", "publish"]
    calls = [
        subprocess.Popen([*command, f"sweeps/seed{seed}.yaml"], cwd=lab.top, stdout=-1, stderr=subprocess.STDOUT)
        for seed in (1, 2)
    ]
    told = [call.communicate()[0] for call in calls]
    assert [call.returncode for call in calls] == [0, 0], told
    assert Store(lab.results.root).ids() == sorted(lab.ids), told
    assert lab.verify().problems == []


OWN = """
from study.attention import Score

class Distance(Score):
    facts = dict(formula="−½‖q − k‖²", scale="rsqrt", d="K", equal_sizes=True)
"""


def test_processes_that_share_the_runs_find_what_one_finds(lab, monkeypatch):
    lab.change(1, **{"scores.0.value": 12.5})
    alone = list(evidence.examine_all(Store(lab.runs), lab.ids))
    monkeypatch.setattr(evidence, "SHARED", 2)
    assert list(evidence.examine_all(Store(lab.runs), lab.ids)) == alone
    assert [len(problems) for problems, _ in alone] == [0, 1, 0, 0]


def test_a_mechanism_of_ones_own_is_published_with_its_runs(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    named = f'[dot, "{tmp_path / "mine.py"}"]'
    monkeypatch.setattr(published_lab, "SMALL", published_lab.SMALL.replace("[dot, bilinear]", named))
    monkeypatch.setenv(plugins.ALLOWED, "")
    lab = published_lab.Lab(tmp_path)
    lab.publish()
    (copy,) = (lab.results.root / "mechanisms").iterdir()
    assert copy.read_text(encoding="utf-8") == OWN
    (tmp_path / "mine.py").unlink()
    monkeypatch.setattr(plugins, "_known", {})
    (identity,) = [i for i in Store(lab.results.root).ids() if "distance" in i and i.endswith("-s1")]
    record = Store(lab.results.root).record(identity)
    assert config_hash(experiment_from(record.config)) == record.config_hash  # readable without the user's file
    plugins._known.clear()
    copy.unlink()
    with pytest.raises(InputError, match="no file is known for Distance@"):
        experiment_from(Store(lab.results.root).record(identity).config)


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--training.steps", "1"],
        ["sweep", "sweeps/tiny.yaml"],
        ["rerun", "last"],
    ],
    ids=lambda words: words[0],
)
def test_no_run_is_made_among_published_ones(lab, words):
    lab.publish()
    first = lab.files()
    command = [sys.executable, "-P", "-m", "study", *words, "--runs", "results"]
    done = subprocess.run(command, cwd=lab.top, capture_output=True, text=True)
    said = "results: expected a folder of working runs, got published results. Name another with --runs."
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert lab.files() == first
