"""The command line as a user meets it: what it lists, and one line with status 2 for each mistake."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from study.__main__ import main
from study.commands import VERBS, train
from study.commands.ls import LISTERS
from study.config import Attention, Experiment, Grammar, Multi30k, Recurrent, Transformer, experiment_from
from study.config.identity import recorded
from study.config.pruning import Pruning
from study.config.sites import RecurrentSites, TransformerSites
from study.corpora.parallel import Files
from study.errors import EXIT_STATUS, InputError
from study.sweep.fields import full_name

ROOT = Path(__file__).parents[2]
SECTIONS = {"data": (Grammar, Multi30k, Files), "model": (Recurrent, Transformer), "pruning": (Pruning,)}
SITES = {*RecurrentSites.model_fields, *TransformerSites.model_fields}


def run(*argv: str) -> int:
    try:
        return main(argv)
    except SystemExit as end:  # argparse's --help
        return int(end.code or 0)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Experiment, Path]]:
    """Collect the experiments of `study train` instead of training them."""
    given: list[tuple[Experiment, Path]] = []
    monkeypatch.setattr(train, "_run", lambda experiment, folder, verbose: given.append((experiment, folder)) or 0)
    return given


def fields(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        kinds = SECTIONS.get(name) or (field.annotation,)
        if name == "attention":
            yield from (f"{prefix}attention.{own}" for own in Attention.model_fields)
            yield from (f"{prefix}attention.{site}.{own}" for site in SITES for own in Attention.model_fields)
        elif isinstance(kinds[0], type) and issubclass(kinds[0], BaseModel):
            for kind in kinds:
                yield from fields(kind, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_the_verbs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    gc.set_threshold(700)
    assert run("--help") == 0
    assert gc.get_threshold()[0] > 10_000, "imports and data are read without walks of the collector"
    told = capsys.readouterr().out
    assert all(f"  {verb} " in told for verb in VERBS)
    assert all(f"  {code} " in told for code in EXIT_STATUS)
    assert run("help", "sweep") == 0
    assert capsys.readouterr().out.startswith("usage: study sweep")
    from study.publish.reproduce import STEPS

    assert run("help", "reproduce") == 0
    steps = capsys.readouterr().out.partition("STEP  ")[2]
    assert all(step in steps for step in STEPS)
    assert run() == 2


@pytest.mark.parametrize("what", LISTERS)
def test_what_there_is_is_listed_as_a_table_and_as_json(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = [what, "--sweeps", str(Path(__file__).parents[2] / "sweeps")]
    assert run("ls", *options, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert run("ls", *options) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == list(rows[0])
    assert len(lines) == len(rows)
    first = {
        "sweeps": "sweeps/asymptotes_1200.yaml",
        "presets": "bahdanau2015",
        "scores": "bleu",
    }
    first |= {"fields": "preset", "corpora": "grammar"}
    assert str(next(iter(rows[0].values()))).endswith(first[what])
    if what == "fields":
        found = {row["field"]: (row["short"], row["default"]) for row in rows}
        assert found["training.learning_rate"] == ("lr", "0.003")
        assert found["model.attention.heads"] == ("heads", "1 / 4")
        assert found["model.attention.window"] == ("window", "derived: 4")
        assert not [name for name in found if "cross" in name]
        assert all(full_name(short) == name for name, (short, _) in found.items())


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "help"])
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb, "--help") == 0
    assert capsys.readouterr().out.startswith(f"usage: study {verb}")


def test_help_mentions_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "--help") == 0
    told = capsys.readouterr().out
    names = set(fields(Experiment))
    names.remove("out")  # --runs in every verb
    sites = {name for name in names if name.startswith("model.attention.") and name.count(".") == 3}
    assert len(sites) > 50
    assert [name for name in sites if f"--{name} " in told] == [], "one line on SITE stands for them"
    assert "--model.attention.SITE.FIELD" in told
    names -= sites
    assert len(names) > 80
    assert [name for name in sorted(names) if f"--{name} " not in told] == []
    plain = " ".join(told.split())
    assert "Unit of a token. (default: words, subwords multi30k and files)" in plain
    assert "None" not in plain


def test_flags_beat_json_and_json_beats_yaml(tmp_path: Path, trained: list[tuple[Experiment, Path]]) -> None:
    path = tmp_path / "e.yaml"
    path.write_text("seed: 5\nmodel: {width: 32, family: transformer}\nmodel.layers: 3\ntraining.steps: 7\n")
    overrides = json.dumps({"model.width": 48, "training": {"steps": 8}, "arm": "model.attention.heads=2 seed=6"})
    flags = ["--training.steps", "9", "--out", str(tmp_path / "runs")]
    assert run("train", "--config", str(path), "--overrides-json", overrides, *flags) == 0
    wanted = {"model.width": 48, "model.family": "transformer", "model.layers": 3, "model.attention.heads": 2}
    ((experiment, folder),) = trained
    assert experiment == experiment_from(wanted, {"training.steps": 9, "seed": 6, "out": str(tmp_path / "runs")})
    assert folder.parent == tmp_path / "runs"


def test_a_recorded_configuration_is_a_config_file(tmp_path: Path, trained: list[tuple[Experiment, Path]]) -> None:
    experiment = experiment_from({"model.family": "transformer", "model.attention.cross.score": "additive"})
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment.model_dump(mode="json")))
    assert run("train", "--config", str(tmp_path / "e.yaml")) == 0
    assert trained[0][0] == experiment


def test_translations_of_own_text_are_shown_beside_its_files(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("STUDY_FILES", raising=False)
    text = ROOT / "tests" / "corpora" / "catalogue_cs_en"
    given = {"data.name": "files", "data.source": "cs", "data.target": "en", "data.folder": str(text)}
    experiment = experiment_from(given)
    pairs = experiment.data.read().splits["test"]
    path = tiny.write("dot", 1, 80.0, config=recorded(experiment), data=None)
    lines = ["wrong", *(pair.target for pair in pairs[1:])]
    path.with_name("test.hyp.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    show = ["show", str(path), "--sentences", "--score", "exact", "--split", "test"]
    assert run(*show) == 2
    told = capsys.readouterr().err
    assert told.startswith("study: --data-folder: expected the folder of the text, got none.")
    assert told.count("\n") == 1
    assert run(*show, "--data-folder", str(text), "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["score"] for row in rows] == [0.0] + [100.0] * (len(pairs) - 1)
    assert (rows[0]["source"], rows[0]["reference"]) == (pairs[0].source, pairs[0].target)
    monkeypatch.setenv("STUDY_FILES", str(text))
    assert run(*show, "--json") == 0
    assert json.loads(capsys.readouterr().out) == rows


MISTAKES = {
    "unknown verb": (["fly"], "fly: expected a verb, got an unknown one."),
    "unknown option": (["train", "--model.widht", "3"], "Did you mean --model.width?"),
    "short option": (["train", "--heads", "3"], "Did you mean --model.attention.heads?"),
    "field of the other family": (
        ["train", "--model.feedforward", "9"],
        "expected with model.family transformer",
    ),
    "option without value": (["train", "--seed"], "--seed"),
    "stray word": (["train", "seed=1"], "Write --seed 1."),
    "unknown value": (["train", "--model.attention.score", "dots"], "model.attention.score: expected dot, "),
    "not a number": (["train", "--training.steps", "many"], "training.steps: expected an integer, got 'many'."),
    "sizes that do not fit": (
        ["train", "--model.attention.heads", "3"],
        "model.attention.heads: expected a divisor of",
    ),
    "bad YAML": (["train", "--config", "bad.yaml"], "not a readable YAML file"),
    "YAML of another kind": (["train", "--config", "list.yaml"], "expected fields"),
    "not UTF-8": (["train", "--config", "latin.yaml"], "not a readable YAML file"),
    "no such file": (["train", "--config", "absent.yaml"], "absent.yaml"),
    "bad JSON": (["train", "--overrides-json", "{"], "--overrides-json: expected JSON"),
    "JSON of another kind": (["train", "--overrides-json", "[1]"], "expected an object"),
    "unknown field in YAML": (["train", "--config", "field.yaml"], "model.depth"),
    "unknown field in JSON": (["train", "--overrides-json", '{"model.depth": 3}'], "model.depth"),
    "a key twice in YAML": (["train", "--config", "twice.yaml"], "seed is given twice"),
    "a truth value in YAML": (["train", "--config", "true.yaml"], "seed: expected an integer, got true."),
    "a key that is no text": (["train", "--config", "key.yaml"], "the key 1 is no text"),
    "YAML inside itself": (["train", "--config", "ring.yaml"], "an alias (*) stands inside what it names"),
    "YAML too deep": (["train", "--config", "deep.yaml"], "nested too deep"),
    "JSON too deep": (["train", "--overrides-json", '{"a":' * 9999 + "1" + "}" * 9999], "--overrides-json: "),
    "a null byte": (["train", "--overrides-json", '{"out": "a\\u0000b"}'], "out: expected the name of a folder"),
    "a section's value": (["train", "--overrides-json", '{"data": "grammar"}'], "such as data.name, got 'grammar'."),
    "not UTF-8 to translate": (["translate", "run", "\udcff"], "expected UTF-8 text"),
    "unknown option of sweep": (["sweep", "x.yaml", "--sedes", "1"], "Did you mean --seeds?"),
    "absent sweep file": (["sweep", "absent.yaml"], "absent.yaml"),
    "no such run": (["show", "absent"], "absent: no such run"),
    "report without a sweep": (["report"], "SWEEP: expected a sweep file"),
    "one run to compare": (["compare", "absent"], "RUN: expected 2 to 12 runs, got 1."),
    "a query of sweeps": (["ls", "sweeps", "--query", "seed == 1"], "--query: expected with `study ls runs`"),
    "a split of a record": (["show", "absent", "--split", "test"], "--split: expected with --sentences"),
    "a run that is a corpus": (["show", "grammar", "--split", "none"], "--split: expected train, valid, test"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("seed: [1\nmodel: {")
    Path("list.yaml").write_text("- 1\n")
    Path("latin.yaml").write_bytes("out: Läufe\n".encode("latin-1"))
    Path("field.yaml").write_text("model:\n  depth: 3\n")
    Path("twice.yaml").write_text("seed: 1\nseed: 2\n")
    Path("true.yaml").write_text("seed: true\n")
    Path("key.yaml").write_text("1: 2\n")
    Path("ring.yaml").write_text("model: &model {width: *model}\n")
    Path("deep.yaml").write_text("seed: " + "[" * 200_000 + "]" * 200_000)
    argv, says = MISTAKES[mistake]
    assert run(*argv) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert told.err.startswith("study: ")
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert {path.suffix for path in tmp_path.iterdir()} == {".yaml"}  # nothing half-written


@pytest.mark.parametrize(
    ("problem", "says", "code"),
    [
        (InputError("seed: wrong"), "seed: wrong", 2),
        (
            PermissionError(13, "Permission denied", "/a/b"),
            "/a/b: Permission denied. Check the name and your rights",
            2,
        ),
        (OSError(28, "No space left on device", "/a/b"), "/a/b: No space left on device. Make room", 2),
        (MemoryError(), "not enough memory. Use a smaller model", 2),
        (
            ModuleNotFoundError("No torch", name="torch"),
            "torch: not installed, and this verb needs it",
            2,
        ),
        (KeyError("two\nlines"), "error of the program, in test_cli.py:", 70),
    ],
)
def test_whatever_ends_a_command_is_one_line(
    problem: Exception, says: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(argv: object) -> int:
        raise problem

    monkeypatch.setattr(train, "main", broken)
    assert main(["train"]) == code
    told = capsys.readouterr().err
    assert told.startswith("study: " + says)
    assert told.count("\n") == 1
    monkeypatch.setenv("STUDY_TRACEBACK", "1")
    main(["train"])
    told = capsys.readouterr().err
    assert told.startswith("Traceback (most recent call last):")
    assert f"study: {says}" in told


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
def test_output_that_cannot_be_written_ends_in_at_most_one_line(case: str, tmp_path: Path) -> None:
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


def test_control_characters_of_a_record_do_not_reach_the_terminal(
    tiny: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny.write("dot", 1, 80.0)
    tree = json.loads(path.read_text(encoding="utf-8"))
    tree["provenance"]["device"] = "\x1b[2Jaccelerator\x9b"
    path.write_text(json.dumps(tree), encoding="utf-8")
    assert run("show", str(path)) == 0
    told = capsys.readouterr().out
    assert "\\x1b[2Jaccelerator\\x9b" in told
    assert not {"\x1b", "\x9b"} & set(told)
