"""Whatever the text of a file or an option is, readers give a value or refuse it in one line."""

import json
from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from study.config import Experiment, experiment_from
from study.config.fields import declared
from study.config.overrides import flat
from study.corpora.parallel import read_lines
from study.errors import InputError
from study.sweep.fields import expand
from study.sweep.file import read_file, read_yaml

NAMES = sorted(declared())
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_subnormal=False),
    st.text(max_size=20),
    st.sampled_from(["٣", "²", "1e999", "9" * 5000, "[" * 50, "~x", "https://x", "a\0b", "\ud800", "x" * 300, "-0.0"]),
)
VALUES = ODD | st.lists(ODD, max_size=2) | st.dictionaries(st.text(max_size=8), ODD, max_size=2)
EDGES = st.sampled_from([*NAMES, "model", "data", "model.attention", "model.attention.cross", "arm", "", ".", "a..b"])
MANY = settings(
    max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def one_line(problem):
    assert "\n" not in str(problem)
    assert 0 < len(str(problem)) < 2000


@MANY
@given(st.dictionaries(EDGES, VALUES, max_size=3))
def test_fields_of_any_value_make_an_experiment_or_one_line(tree):
    try:
        assert isinstance(experiment_from(expand(tree)), Experiment)
    except InputError as problem:
        one_line(problem)


@MANY
@given(name=st.sampled_from(NAMES), value=ODD)
def test_a_refusal_names_the_field(name, value):
    with suppress(InputError):
        experiment_from({name: value})
        return
    with pytest.raises(InputError, match=name.split(".")[0]) as caught:
        experiment_from({name: value})
    one_line(caught.value)


@pytest.mark.parametrize("family", ["recurrent", "transformer", "decoder_only"])
@pytest.mark.parametrize("corpus", ["grammar", "multi_lookup", "multi30k"])
def test_a_flag_brings_each_number_as_text(corpus, family):
    """Also a choice of whole numbers, such as the protocol and the version of a corpus."""
    experiment = experiment_from({"data.name": corpus, "model.family": family})
    numbers = {field: value for field, value in flat(experiment.model_dump()) if isinstance(value, int | float)}
    assert {"protocol", "data.version", "seed"} <= numbers.keys()
    texts = {field: str(value).lower() for field, value in numbers.items()}
    assert experiment_from({"data.name": corpus, "model.family": family}, texts) == experiment


YAML = st.text(st.sampled_from("ab1:&*!<[]{}'\",-?|># \n\t~.%@`\\\0é"), max_size=60) | st.sampled_from(
    ["a: " + "[" * 3000, "a: &a [*a]", "a: &a {<<: *a}", "seed: 1:30", "seed: 010", "a: !!python/name:os.system x"]
    + [f"seed: !!{kind} {value}" for kind in ("bool", "int", "float", "set", "omap", "binary") for value in ("x", "''")]
)


@MANY
@given(YAML)
def test_yaml_is_data_or_one_line(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "odd.yaml"
    path.write_text(text, encoding="utf-8")
    with suppress(InputError):
        read_yaml(path)
    with pytest.raises(InputError) as caught:
        read_file(path)
    one_line(caught.value)


@MANY
@given(st.binary(max_size=80), st.sampled_from([b"", b"\x1f\x8b", b"\xef\xbb\xbf", b"\xff\xfe"]))
def test_bytes_are_text_or_one_line(tmp_path_factory, content, start):
    path = tmp_path_factory.getbasetemp() / "text"
    path.write_bytes(start + content)
    try:
        lines = read_lines(path)
        assert not any("\n" in line or "\0" in line for line in lines)
    except InputError as problem:
        one_line(problem)


@pytest.mark.parametrize("odd", [None, True, -1, [[1]], "../../x"])
def test_a_record_with_an_odd_value_is_shown_or_refused_in_one_line(odd, tiny, capsys):
    from study.__main__ import main

    path = tiny.write("dot", 1, 80.0)
    tree = json.loads(path.read_text(encoding="utf-8"))
    for name in tree:
        for place in [(name,), *((name, inner) for inner in (tree[name] if isinstance(tree[name], dict) else ()))]:
            changed = json.loads(json.dumps(tree))
            (changed if len(place) == 1 else changed[name])[place[-1]] = odd
            path.write_text(json.dumps(changed), encoding="utf-8")
            status, told = main(["show", str(path)]), capsys.readouterr()
            assert status in (0, 2), (place, told.err)
            assert status == 0 or told.err.count("\n") == 1, place
