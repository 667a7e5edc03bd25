"""The package as it is installed: interpreter, extras, lock, wheel, other systems."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({"3.14": 1, "3.13": 0, "3.11": 0}, "python3.13 -m venv .venv"),
        ({"3.14": 0, "3.12": 0}, "python3.14 -m venv .venv"),
        ({"3.11": 1}, "PYTHON: expected Python 3.11 to 3.14 with venv, got none. Install"),
    ],
)
def test_make_takes_the_newest_python_that_works(there: dict[str, int], expected: str, tmp_path: Path) -> None:
    for version, status in there.items():
        program = tmp_path / f"python{version}"
        program.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >&2\nexit {status}\n', encoding="ascii")
        program.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    ran = subprocess.run(
        [shutil.which("make"), ".venv/bin/python"],
        env={"PATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stderr.startswith(expected)
    assert ran.returncode == (0 if "venv .venv" in expected else 2)
