"""Sweep files: what they declare, how their arms are called, and what is refused."""

import json
import sys
from pathlib import Path

import pytest
from processes import output_of

from study.config import Experiment, experiment_from, experiment_id
from study.errors import InputError
from study.store.manifest import Results
from study.sweep import spec
from study.sweep.fields import expand
from study.sweep.file import parse, tagged
from study.sweep.spec import load

SWEEPS = sorted((Path(__file__).parents[2] / "sweeps").glob("*.yaml"))
COMMAND = ["${env}", "${interpreter}", "-P", "-m", "study", "train", "--overrides-json", "${args_json}"]
HEAD = "method: grid\nmetric: {name: test/exact, goal: maximize}\n"


@pytest.fixture
def spec_of(tmp_path):
    def build(parameters, head=HEAD):
        path = tmp_path / "s.yaml"
        path.write_text(head + (f"parameters: {parameters}\n" if parameters else ""))
        return load(path)

    return build


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_shipped_sweep_goes_round(path):
    import yaml

    spec = load(path)
    assert spec.description
    tree = yaml.safe_load(path.read_text())
    assert tree["command"] == COMMAND
    assert tree["project"] == Experiment().tracking.project, "else `wandb sweep` takes the folder's name"
    assert len({cell.id for cell in spec.runnable}) == len(spec.runnable) > 1
    for cell in {cell.id.rpartition("-s")[0]: cell for cell in spec.runnable}.values():  # one seed of each arm
        for text in {cell.overrides_json, json.dumps(dict(cell.given))}:  # ours, and what ${args_json} becomes
            assert experiment_id(experiment_from(expand(json.loads(text)))) == cell.id


def test_an_arm_may_use_short_names_and_plain_exponents():
    long = "model.attention.score=dot model.attention.cross.heads=2 training.learning_rate=1.0e-3 data.name=copy"
    short = expand({"arm": "score=dot cross.heads=2 lr=1e-3 corpus=copy"})
    assert short == expand({"arm": long}) == expand({"arm": long.replace("model.", "")})
    assert isinstance(short["training.learning_rate"], float)
    assert expand({"arm": "seed=2 data.seed=3"}) == {"seed": 2, "data.seed": 3}


def test_arm_is_taken_apart_and_laid_over_constants(spec_of):
    spec = spec_of(
        "{model: {parameters: {width: {value: 64}, attention: {parameters: {maps: {value: separate}}}}},"
        " arm: {values: ['model.attention.score=dot model.attention.key_width=16',"
        " 'model.attention.score=additive model.attention.additive_width=32 model.width=32']},"
        " training.learning_rate: {values: [3.0e-3, 1.0e-4]}, seed: {values: [7, 8]}}"
    )
    assert spec.arms == {
        "": (
            "width=64 learning_rate=0.003 score=dot key_width=16",
            "width=64 learning_rate=0.0001 score=dot key_width=16",
            "width=32 learning_rate=0.003 score=additive additive_width=32",
            "width=32 learning_rate=0.0001 score=additive additive_width=32",
        )
    }
    assert spec.seeds == (7, 8)
    assert spec.cells[-1].experiment.model.width == 32
    assert spec.cells[0].experiment.training.learning_rate == 3e-3


def test_an_arm_is_validated_once_and_its_cells_keep_the_experiment(spec_of, monkeypatch):
    built = []
    monkeypatch.setattr(spec, "experiment_from", lambda fields: built.append(fields) or experiment_from(fields))
    heads = spec_of("{model.attention.heads: {values: [1, 2, 5]}, seed: {values: [7, 8, 9]}}")
    assert [fields["model.attention.heads"] for fields in built] == [1, 2, 5]
    assert [cell.experiment.seed for cell in heads.runnable] == [7, 8, 9] * 2
    assert [cell.id for cell in heads.runnable] == [experiment_id(cell.experiment) for cell in heads.runnable]
    assert [(cell.arm, cell.label, cell.id) for cell in heads.cells[6:]] == [
        ("heads=5", f"heads=5 seed={seed}", "") for seed in (7, 8, 9)
    ]
    assert len(built) == 3, "labels and identities build nothing"


def test_corpus_and_family_make_facets_each_with_its_own_baseline(spec_of):
    spec = spec_of(
        "{data.name: {values: [grammar, multi30k]}, arm: {values: [model.family=recurrent,"
        " 'model.family=transformer model.attention.heads=4', 'model.family=transformer model.attention.heads=8']}}",
        HEAD.replace("test/", "valid/"),  # the split that both corpora have
    )
    assert spec.arms["name=multi30k family=recurrent"] == ("base",)
    assert spec.baseline("name=grammar family=transformer") == "heads=4"


def test_a_combination_that_no_experiment_allows_is_listed_not_run(spec_of):
    spec = spec_of(
        "{model.family: {values: [transformer, recurrent]}, model.memory: {values: [states, empty]},"
        " model.attention.heads: {values: [4, 5]}, model.attention.maps: {value: separate}}"
    )
    reasons = {cell.label: cell.reason for cell in spec.cells if not cell.id}
    assert "heads: expected a divisor of the width 64" in reasons["family=transformer memory=states heads=5"]
    assert "model.memory: expected states, final, " in reasons["family=transformer memory=empty heads=4"]
    assert "maps: separate has no effect" in reasons["family=recurrent memory=empty heads=4"]
    assert len(spec.runnable) == 2


def test_a_metric_of_a_part_and_one_without_a_goal(spec_of):
    by_length = spec_of(GRID, "method: grid\nmetric: {name: test/exact/length 4-7}\n")
    assert by_length.metric == "test/exact/length 4-7"
    assert spec_of(GRID, "method: grid\nmetric: {name: valid/nll}\n").metric == "valid/nll"


def test_tags_choose_files_and_are_no_part_of_a_sweep(spec_of, tmp_path):
    plain = spec_of(GRID)
    assert (plain.tags, plain.sweep_id) == ((), spec_of(GRID, f"# tags: short, own\n{HEAD}").sweep_id)
    assert load(tmp_path / "s.yaml").tags == ("short", "own")
    (tmp_path / "a.yaml").write_text("# tags: own\nname: a\n")
    assert tagged(tmp_path, "own") == [tmp_path / "a.yaml", tmp_path / "s.yaml"]
    assert tagged(tmp_path, "short") == [tmp_path / "s.yaml"]
    with pytest.raises(InputError, match=r"no sweep file of .* has the tag 'sort'"):
        tagged(tmp_path, "sort")


def test_the_sweep_id_follows_the_content(spec_of):
    published = Results(SWEEPS[0].parents[1] / "results").manifests["quickstart"].sweep_id
    assert load(SWEEPS[0].with_name("quickstart.yaml")).sweep_id == published  # with -P in its command since
    one = spec_of("{seed: {values: [1, 2]}}").sweep_id
    assert one == spec_of("{seed: {values: [1, 2]}} # a comment").sweep_id
    assert one != spec_of("{seed: {values: [2, 1]}}").sweep_id
    assert one == spec_of("{seed: {values: [1, 2]}, protocol: {value: 1}}").sweep_id  # published before it was written
    assert one != spec_of("{seed: {values: [1, 2]}, protocol: {value: 2}}").sweep_id
    assert len(one) == 8


GRID = "{seed: {values: [1, 2]}}"
THOUSAND = f"training.steps: {{values: {list(range(300, 1300))}}}"
BAD = {
    "unknown field": ("head: no such field. Did you mean", "{model.attention.head: {values: [1, 2]}}"),
    "yaml 1.1": ("numbers such as 1.0e-4", "{training.learning_rate: {values: [1e-4, 2e-4]}}"),
    "a range": ("seed: expected a grid of listed values", "{seed: {distribution: int_uniform, min: 1, max: 3}}"),
    "random": ("method: expected a grid .*see `study tune`", GRID, HEAD.replace("grid", "random")),
    "early stop": ("early_terminate: no such field", GRID, HEAD + "early_terminate: {type: hyperband}\n"),
    "metric": ("metric.name: grammar has no bleu", GRID, "method: grid\nmetric: {name: bleu}\n"),
    "no such score": (r"Did you mean test/exact\? Splits: valid, test, ", GRID, HEAD.replace("exact", "exactt")),
    "split": ("name: copy has no ", "{data.name: {values: [grammar, copy]}}", HEAD.replace("test", "long")),
    "goal": ("expected maximize for exact, got minimize", GRID, HEAD.replace("maximize", "minimize")),
    "a folder": ("out: no such field. `study train --help` lists all", "{out: {values: [a, b]}}"),
    "an empty section": ("parameters.model.parameters: Dictionary should have", "{model: {parameters: {}}}"),
    "key that is no text": ("the key 1 is no text", "{1: {values: [1, 2]}}"),
    "arm not text": ("arm: expected a text, got 1", "{arm: {values: [1, 2]}}"),
    "arm form": ("field=value", "{arm: {values: [seed, 'model.width 3']}}"),
    "arm and grid": ("got both", "{arm: {values: [model.width=8]}, model.width: {values: [8, 16]}}"),
    "same identity": ("null.* and .*64}", "{model.width: {value: 64}, model.encoder_width: {values: [null, 64]}}"),
    "a million runs": ("100,000 cells, got 1,000,000.", f"{{seed: {{values: {list(range(1000))}}}, {THOUSAND}}}"),
    "all rejected": ("expected a cell that is an experiment", "{model.attention.heads: {values: [5, 7]}}"),
}
"""What is said, the parameters, and another head."""


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(case, spec_of, tmp_path):
    expected, *given = BAD[case]
    with pytest.raises(InputError, match=expected) as caught:
        spec_of(*given)
    assert str(caught.value).startswith(str(tmp_path / "s.yaml"))
    assert "\n" not in str(caught.value)


LEVELS = [f"a{i}: &a{i} " for i in range(12)]
BOMBS = {
    "sequences": "[" * 100_000,
    "blocks": "- " * 100_000,
    "aliases": LEVELS[0] + "x\n" + "".join(f"{LEVELS[i]}[{f'*a{i - 1}, ' * 10}]\n" for i in range(1, 12)),
    "merges": LEVELS[0] + "{k: v}\n" + "".join(f"{LEVELS[i]}{{<<: [{f'*a{i - 1}, ' * 10}]}}\n" for i in range(1, 12)),
    "a long text, often": f"a: &a '{'x' * 1_000_000}'\nb: [{'*a, ' * 1000}]",
    "itself": "a: &a [*a]",
    "itself merged": "a: &a {<<: *a}",
    "minutes": f"a: {'1:' * 2_000_000}1",
    "minutes with a tag": f"a: !!int '{'1:' * 2_000_000}1'",
}


def test_a_yaml_bomb_is_one_line_in_a_second(tmp_path):
    """In a process of its own: deep texts would end it."""
    for name, text in BOMBS.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    code = "import resource, sys\nresource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n" + (
        "from study.sweep.file import read_yaml\nfrom study.errors import InputError\nfrom pathlib import Path\n"
        "for path in map(Path, sys.argv[1:]):\n    try:\n        print(read_yaml(path))\n"
        "    except InputError as problem:\n        print(problem)"
    )
    lines = output_of(sys.executable, "-P", "-c", code, *sorted(tmp_path.glob("*.yaml"))).splitlines()
    assert {Path(line.partition(".yaml: ")[0]).name for line in lines} == set(BOMBS)
    assert len(lines) == len(BOMBS)
    assert all("not a readable YAML file: " in line for line in lines)


def test_aliases_merges_long_texts_and_many_keys_are_read():
    assert len(parse("".join(f"k{i}: 1\n" for i in range(300_000)))) == 300_000
    text = f"a: &a {{k: 1}}\nb: {{<<: *a, l: 2}}\nc: [*a, *a]\nd: {'word ' * 500}\ne: '{'x' * 2000}'"
    assert parse(text) == {
        "a": {"k": 1},
        "b": {"k": 1, "l": 2},
        "c": [{"k": 1}] * 2,
        "d": ("word " * 500).strip(),
        "e": "x" * 2000,
    }
