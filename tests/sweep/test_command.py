"""`study sweep`: which runs it chooses, lists and refuses."""

import pytest


def test_the_command_lists_and_narrows(file, out, printed):
    path = str(file(1, 2, 3))
    told = printed("sweep", path, "--runs", out, "--dry-run", "--seeds", "2")
    assert "seed=2" in told
    assert "seed=3" not in told
    assert "time: about " in told  # from published runs
    told = printed("sweep", path, "--runs", out, "--dry-run", "--only", "seed=[12]*", "--only", "*=2*")
    assert ("seed=1" in told, "seed=2" in told, "seed=3" in told) == (False, True, False)
    given = ["sweep", "recipe_hard", "--runs", str(out), "--seeds", "101", "--unpublished"]
    assert printed(*given, "--dry-run").startswith("recipe_hard: 0 of 12 declared would run")
    assert printed(*given).startswith("recipe_hard: nothing to do, all 0 runs are there\n")
    assert not out.exists()


BAD = {
    ("--runs", "taken"): "expected a folder of runs",
    ("--status", "--runs", "taken"): "expected a folder of runs",
    ("--slots", "0"): "--slots",
    ("--seeds", "9"): "--seeds: expected some of 1, 2, 3, got 9.",
    ("--only", "zebra"): "no run of",
    ("--only", "seed=1", "--only", "seed=2"): "'seed=1' and 'seed=2'",
    ("--retries=-1",): "--retries",
}


@pytest.mark.parametrize("words", BAD)
def test_a_wrong_option_is_one_line(words, file, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    assert BAD[words] in refused("sweep", file(1, 2, 3), *words)
