"""The workflow: its commands exist, and it takes every Python that the project does."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def test_the_workflow_runs_the_checks_on_every_python() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == versions
    low, high = re.search(r"\(3, (\d+)\) <= sys.version_info < \(3, (\d+)\)", (ROOT / "Makefile").read_text()).groups()
    assert versions == [f"3.{minor}" for minor in range(int(low), int(high))]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands
    assert all((ROOT / name).is_file() for name in (".ci/run", "Containerfile"))
    assert jobs["tests"]["env"] == {"PYTHON": "python"}
