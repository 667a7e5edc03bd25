"""RUN: the name of a run on the command line and in `study.load`, tried on a folder of runs and the published ones."""

import os

import pytest

from study.errors import InputError
from study.store.find import find, model_of
from study.store.folder import Store

PUBLISHED = "grammar-recurrent-dot-c61874e4"


def test_a_run_has_many_names_and_own_runs_come_first(tiny):
    made = {name: tiny.write(name, 1, 80.0) for name in ("dot", "bilinear")}
    dot, bilinear = made.values()
    names = {path: path.parent.name for path in made.values()}
    for given in (str(dot.parent), str(dot)):
        assert find(given, tiny.runs / "elsewhere")[1] == names[dot]
    hexadecimals = names[bilinear].split("-")[3]
    for given in (names[bilinear], "grammar-recurrent-b", hexadecimals, f"{hexadecimals}-s1", f"{tiny.spec.path}/2"):
        store, identity = find(given, tiny.runs)
        assert (store.folder, identity) == (tiny.runs, names[bilinear])
    for path, time in zip((dot, bilinear), (2, 1), strict=True):
        os.utime(path, (time, time))
    assert find("last", tiny.runs)[1] == names[dot]
    store, identity = find(f"{PUBLISHED}-s2", tiny.runs)
    assert (store.folder.name, identity) == ("results", f"{PUBLISHED}-s2")
    assert find("quickstart/9", tiny.runs)[1] == f"{PUBLISHED}-s2"  # eight runs of the first seed come before
    assert find("c61874e4-s2", tiny.runs)[1] == f"{PUBLISHED}-s2"
    own = tiny.runs / f"{PUBLISHED}-s2"
    dot.parent.rename(own)
    assert find("quickstart/9", tiny.runs)[0].folder == tiny.runs


def test_a_name_that_fits_no_run_or_several_is_one_line_with_the_nearest_ids(tiny, refused):
    dot, bilinear = tiny.write("dot", 1, 80.0), tiny.write("bilinear", 1, 70.0)
    (tiny.runs / "half").mkdir()
    runs = ["--runs", str(tiny.runs)]
    for given, problem in {
        "grammar-recurrent": rf"expected one run, got 2: {bilinear.parent.name}, {dot.parent.name}\.",
        PUBLISHED: rf"expected one run, got 2: {PUBLISHED}-s1, {PUBLISHED}-s2\. Give more",
        f"{PUBLISHED}-s3": rf"no such run in .* The nearest: .*{PUBLISHED}-s",
        "half": "which has none",
        "quickstart/17": "expected a number from 1 to 16, got 17",
        "quick/1": "there is no sweep",
        f"{tiny.spec.path}/3": "which has none",
        "last": "expected a folder with runs",
    }.items():
        with pytest.raises(InputError, match=problem):
            find(given, tiny.runs / "none" if given == "last" else tiny.runs)
        refused("show", given, *(["--runs", "none"] if given == "last" else runs))


@pytest.mark.parametrize("verb", ["translate", "compare"])
def test_a_run_without_a_model_is_named_with_the_command_that_makes_one(tiny, refused, verb):
    path = tiny.write("dot", 1, 80.0)
    said = refused(verb, path.parent.name, "Der Hund", "--runs", tiny.runs)
    assert "expected a run with a model" in said
    assert f"`study rerun {path.parent.name}`" in said
    assert "`study rerun" in refused("prune", f"{PUBLISHED}-s1", "--runs", tiny.runs)
    bad = tiny.write("dot", 2, 0.0, status="diverged")
    with pytest.raises(InputError, match="got one that diverged"):
        model_of(Store(tiny.runs), bad.parent.name)
