"""The command line as a user meets it: what it lists, and one line with status 2 for each mistake."""

import csv
import gc
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from study.__main__ import main
from study.commands import VERBS, train
from study.config import experiment_from, plugins
from study.config.fields import declared, is_of_a_site
from study.config.identity import recorded
from study.errors import EXIT_STATUS, InputError
from study.sweep.fields import full_name

ROOT = Path(__file__).parents[2]
CATALOGUE = ROOT / "tests" / "corpora" / "catalogue_cs_en"


def run(*argv):
    try:
        return main(argv)
    except SystemExit as end:  # argparse's --help
        return int(end.code or 0)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def trained(monkeypatch):
    """Collect the experiments of `study train` instead of training them."""
    given = []
    monkeypatch.setattr(train, "_run", lambda experiment, folder: given.append((experiment, folder)) or 0)
    return given


def test_the_verbs_are_listed_on_one_screen(capsys):
    gc.set_threshold(700)
    assert run("--help") == 0
    assert gc.get_threshold()[0] > 10_000, "imports and data are read without walks of the collector"
    told = capsys.readouterr().out
    assert len(told.splitlines()) <= 36
    assert all(f"\n  {verb} " in told for verb in VERBS)
    assert all(f" {code} " in " ".join(told.split()) for code in EXIT_STATUS)
    assert run() == 2


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb, capsys):
    assert run(verb, "--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: study {verb}")


def test_help_mentions_every_field_and_lists_agree_with_it(capsys, printed):
    assert run("train", "--help") == 0
    told = capsys.readouterr().out
    names = {name for name in declared() if not is_of_a_site(name)} - {"out"}  # --runs in every verb
    assert len(names) > 80
    assert [name for name in names if f"--{name} " not in told] == []
    assert "--model.attention.SITE.FIELD" in told
    assert "model.attention.cross.heads" not in told
    found = {row["field"]: row for row in rows_of(printed("ls", "fields", "--csv"))}
    assert found.keys() == names
    expected = {"training.learning_rate": "0.003", "model.attention.heads": "1 / 4", "data.tokens": "words | subwords"}
    assert {name: found[name]["default"] for name in expected} == expected
    assert found["model.attention.window"]["default"] == "derived: 4"
    assert all(full_name(row["short"]) == name for name, row in found.items())


@pytest.mark.parametrize(
    ("what", "known"), [("presets", "lin2017"), ("scores", "bleu"), ("fields", "seed"), ("corpora", "copy_far")]
)
def test_what_there_is_is_listed_as_a_table_and_as_csv(what, known, printed):
    rows = rows_of(printed("ls", what, "--csv"))
    assert any(known in row.values() for row in rows)
    head, *lines = printed("ls", what).splitlines()
    assert head.split() == list(rows[0])[: len(head.split())]
    assert len(lines) == len(rows)


def test_flags_beat_json_and_json_beats_yaml(tmp_path, trained):
    path = tmp_path / "e.yaml"
    path.write_text("seed: 5\nmodel: {width: 32, family: transformer}\nmodel.layers: 3\ntraining.steps: 7\n")
    overrides = json.dumps({"model.width": 48, "training": {"steps": 8}, "arm": "model.attention.heads=2 seed=6"})
    flags = ["--training.steps", "9", "--model.attention.cross.heads=4", "--runs", str(tmp_path / "runs")]
    assert run("train", "--config", str(path), "--overrides-json", overrides, *flags) == 0
    wanted = {"model.width": 48, "model.family": "transformer", "model.layers": 3, "model.attention.heads": 2}
    wanted |= {"training.steps": 9, "seed": 6, "model.attention.cross.heads": 4}
    ((experiment, folder),) = trained
    assert experiment == experiment_from(wanted)
    assert folder.parent == tmp_path / "runs"


def test_translations_of_own_text_are_shown_beside_its_files(tiny, monkeypatch, printed, refused):
    monkeypatch.delenv("STUDY_FILES", raising=False)
    given = {"data.name": "files", "data.source": "cs", "data.target": "en", "data.folder": str(CATALOGUE)}
    experiment = experiment_from(given)
    pairs = experiment.data.read().splits["test"]
    path = tiny.write("dot", 1, 80.0, config=recorded(experiment), data=None)
    lines = ["wrong", *(pair.target for pair in pairs[1:])]
    path.with_name("test.hyp.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    show = ["show", str(path), "--sentences", "--split", "test"]
    assert "set STUDY_FILES" in refused(*show)
    rows = rows_of(printed(*show, "--data", CATALOGUE, "--csv"))
    assert {row["score"] for row in rows[1:]} == {"100.0"} != {rows[0]["score"]}
    assert (rows[0]["source"], rows[0]["reference"]) == (pairs[0].source, pairs[0].target)


FILES = {
    "bad.yaml": b"seed: [1\nmodel: {",
    "twice.yaml": b"seed: 1\nseed: 2\n",
    "ring.yaml": b"model: &model {width: *model}\n",
    "loop.yaml": None,
    "latin.py": b"# \xe9\n",
}
MISTAKES = [
    ("fly", "fly: expected a verb, got an unknown one."),
    ("train --model.widht 3", "Did you mean --model.width?"),
    ("train --heads 3", "Did you mean --model.attention.heads?"),
    ("train --seed", "--seed: expected one argument"),
    ("train --config bad.yaml", "not a readable YAML file"),
    ("train --config twice.yaml", "seed is given twice"),
    (
        "train --config ring.yaml",
        "ring.yaml: not a readable YAML file: alias *model: expected",
    ),
    ("train --config loop.yaml", "loop.yaml"),
    ("train --config /dev/zero", "/dev/zero"),
    ("train --overrides-json {", "--overrides-json: expected JSON"),
    ('train --overrides-json {"out":"a\\u0000b"}', "out: expected a file or folder on this machine"),
    ("translate run \udcff", "expected UTF-8 text"),
    ("sweep x.yaml --slots ٣", "--slots: expected a whole number from 1"),
    ("show absent", "absent: no such run"),
    ("show absent --split test", "--versus, --csv, --split, --data: expected with --sentences"),
    ("show one_space --json", "RUN: expected a run with --sentences and --json, got the corpus one_space"),
    ("show absent --sentences --json", "--json: not allowed with argument --sentences"),
    ("report", "SWEEP: expected a sweep, or --figures"),
    ("report absent", "absent: no such sweep file"),
    ("compare absent", "RUN: expected 2 to 12 runs, got 1."),
    ("ls sweeps --query seed==1", "--query, --runs: expected with `study ls runs`"),
    ("claims --runs absent", "absent: no such folder"),
    ("ls runs --runs absent", "absent: no such folder"),
    ("claims 99", "claim: expected a number or name of a claim, got 99"),
    ("check latin.py", "latin.py: cannot be read as UTF-8"),
    ("check . --source cs --target en", ".: expected files such as train.cs"),
]


@pytest.mark.parametrize(("words", "says"), MISTAKES, ids=[words[:40] for words, _ in MISTAKES])
def test_a_mistake_is_one_line_and_status_2(words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        if content is None:
            Path(name).symlink_to(name)
        else:
            Path(name).write_bytes(content)
    assert run(*words.split(" ")) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert told.err.startswith("study: ")
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert {path.name for path in tmp_path.iterdir()} == {*FILES}  # nothing half-written


ENDINGS = [
    (InputError("seed: wrong"), "seed: wrong", 2),
    (PermissionError(13, "Permission denied", "/a/b"), "/a/b: Permission denied. Check the name and your rights", 2),
    (
        OSError(28, "No space left on device", "/a/b"),
        "/a/b: the disk is full (No space left on device). Make room",
        2,
    ),
    (MemoryError(), "not enough memory. Use a smaller model", 2),
    (ModuleNotFoundError("No torch", name="torch"), "torch: not installed, and this verb needs it", 2),
    (KeyError("two\nlines"), "error of the program, in test_cli.py:", 70),
]


@pytest.mark.parametrize(("problem", "says", "code"), ENDINGS, ids=[says[:20] for _, says, _ in ENDINGS])
def test_whatever_ends_a_command_is_one_line(problem, says, code, monkeypatch, capsys):
    def broken(argv):
        raise problem

    monkeypatch.setattr(train, "main", broken)
    monkeypatch.setattr(plugins, "running", list)  # other tests of this process run own mechanisms
    assert main(["train"]) == code
    told = capsys.readouterr().err
    assert told.startswith("study: " + says)
    assert told.count("\n") == 1
    monkeypatch.setenv("STUDY_TRACEBACK", "1")
    main(["train"])
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):")


DRIVER = """
import sys, types
from study import __main__
def main(argv):
    for _ in range(20000):
        print("λ → Δ")
    return 0
sys.modules["study.commands.show"] = types.SimpleNamespace(main=main)
sys.exit(__main__.main(["show"]))
"""


@pytest.mark.parametrize("case", ["reader gone", "disk full", "ascii"])
def test_output_that_cannot_be_written_ends_in_at_most_one_line(case, tmp_path):
    reader, pipe = os.pipe()
    os.close(reader)
    stdout = {"reader gone": "2>err", "disk full": ">/dev/full 2>err", "ascii": ">out 2>err"}
    environment = os.environ | {"PYTHONIOENCODING": "ascii" if case == "ascii" else "utf-8", "PYTHONPATH": str(ROOT)}
    command = ["sh", "-c", f'"$0" -c "$1" {stdout[case]}', sys.executable, DRIVER]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, stdout=pipe, check=False)
    os.close(pipe)
    assert ended.returncode == (0 if case == "ascii" else 74)
    told = "study: standard output cannot be written (No space left on device)\n"
    assert (tmp_path / "err").read_text() == (told if case == "disk full" else "")
    if case == "ascii":
        assert (tmp_path / "out").read_text() == "\\u03bb \\u2192 \\u0394\n" * 20000


def test_control_characters_of_a_record_do_not_reach_the_terminal(tiny, printed):
    path = tiny.write("dot", 1, 80.0)
    tree = json.loads(path.read_text(encoding="utf-8"))
    tree["provenance"]["device"] = "\x1b[2Jaccelerator\x9b"
    path.write_text(json.dumps(tree), encoding="utf-8")
    told = printed("show", path)
    assert "\\x1b[2Jaccelerator\\x9b" in told
    assert not {"\x1b", "\x9b"} & set(told)
