"""`study sweep`: which runs it chooses, lists and refuses."""

import pytest

from study.__main__ import main


def test_the_command_lists_and_narrows(file, out, capsys):
    path = str(file(1, 2, 3))
    assert main(["sweep", path, "--runs", str(out), "--dry-run", "--seeds", "2"]) == 0
    printed = capsys.readouterr().out
    assert "seed=2" in printed
    assert "seed=3" not in printed
    assert "time: about " in printed  # from published runs
    assert main(["sweep", path, "--runs", str(out), "--dry-run", "--only", "seed=[12]*", "--only", "*=2*"]) == 0
    printed = capsys.readouterr().out
    assert ("seed=1" in printed, "seed=2" in printed, "seed=3" in printed) == (False, True, False)
    given = ["sweep", "recipe_hard", "--runs", str(out), "--seeds", "101", "--unpublished"]
    assert main([*given, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("recipe_hard: 0 of 12 declared would run")
    assert main(given) == 0
    assert capsys.readouterr().out.startswith("recipe_hard: nothing to do, all 0 runs are there\n")
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
def test_a_wrong_option_is_one_line(words, file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    assert main(["sweep", str(file(1, 2, 3)), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert BAD[words] in line
