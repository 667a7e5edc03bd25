"""One record that cannot be read among good ones: each verb is a process of its own, names it and goes on."""

import subprocess
import sys

import pytest

VERBS = {
    "sweep sweeps/tiny.yaml --status": "unreadable   1",
    "sweep sweeps/tiny.yaml --dry-run": "tiny: 0 of 4 declared would run",
    "sweep sweeps/tiny.yaml": "nothing to do, 3 of 4 runs are there, 1 unreadable",
    "report sweeps/tiny.yaml": "1 of 2, 1 unreadable",
    "ls runs": "finished",
    "site": "index.html",
    "show {good}": "exact",
}
QUIET = "show {good}"
"""A verb that reads one other run."""


@pytest.mark.parametrize("verb", VERBS)
def test_an_unreadable_record_is_named_and_the_others_are_shown(verb, finished, tmp_path):
    lab = finished.copy(tmp_path / "lab")
    bad, good = lab.path(0), lab.ids[1]
    bad.write_bytes(whole := bad.read_bytes()[:900])
    words = [*verb.format(good=good).split(), "--runs", "runs"]
    command = [sys.executable, "-P", "-m", "study", *words]
    done = subprocess.run(command, cwd=lab.top, capture_output=True, text=True)
    assert done.returncode == (verb == "sweep sweeps/tiny.yaml"), done.stderr
    assert VERBS[verb] in done.stdout
    named = [line for line in done.stderr.splitlines() if line.startswith("study: ")]
    assert len(named) == (verb != QUIET), done.stderr
    for line in named:
        assert f"runs/{lab.ids[0]}/record.json: expected JSON, got something else" in line
        assert "Restore the file. Or remove its folder, and the run can be made again." in line
    assert bad.read_bytes() == whole
