"""Commands that list cost little: each is a process of its own, which says what it has loaded."""

import resource
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from study.__main__ import main
code = main(sys.argv[1:])
print(code, *sorted({"pydantic", "pandas", "torch", "matplotlib"} & set(sys.modules)))
"""
AT_THE_END = """
import atexit, gc, sys
from study.__main__ import main
atexit.register(lambda: print(gc.get_freeze_count() > 10_000))
sys.exit(main(sys.argv[1:]))
"""
CELLS = """
name: many
method: grid
metric: {name: test/exact}
parameters:
  training.learning_rate: {values: [%s]}
  seed: {values: [%s]}
  data.name: {value: copy}
"""


@pytest.mark.parametrize(
    ("words", "loads"),
    [
        ("--version", ""),
        ("--help", ""),
        ("sweep recipe_hard --seeds 101 --unpublished --dry-run", "pydantic"),  # nothing is due
        ("sweep quickstart --status", "pydantic"),
    ],
)
def test_a_command_loads_what_it_needs(words, loads, tmp_path):
    command = [sys.executable, "-P", "-c", PROGRAM, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"0 {loads}".strip()


@pytest.mark.parametrize(("words", "frozen"), [("ls presets", True), ("plan --help", False)])
def test_a_verb_that_reads_ends_without_a_collection_of_garbage(words, frozen, tmp_path):
    """Objects that are frozen are not collected. Others may be freed at the end of a training, and are."""
    command = [sys.executable, "-P", "-c", AT_THE_END, *words.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(frozen)


def test_the_time_of_a_list_grows_with_its_cells_and_not_with_their_square(tmp_path):
    """10,000 cells take 2 s of a processor; a walk over all cells for each of them took 40."""
    rates = ", ".join(str(rate / 10_000) for rate in range(1, 101))
    (tmp_path / "many.yaml").write_text(CELLS % (rates, ", ".join(map(str, range(1, 101)))))
    command = [sys.executable, "-P", "-m", "study", "sweep", "many.yaml", "--dry-run"]

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (15, 15))

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 0, done.stderr
    assert "many: 10000 of 10000 declared would run" in done.stdout
