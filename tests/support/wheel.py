"""The package as a wheel installs it, in a folder of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

from study.folders import CHECKOUT

SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
OFFLINE = "--quiet --no-deps --no-index --no-build-isolation --no-compile --disable-pip-version-check"


def installed(top: Path, repository: str = "") -> Path:
    """Install a wheel of this checkout below a folder, offline; return where.

    Args:
        top: the folder.
        repository: the URL that pyproject.toml names.
    """
    source, site = top / "source", top / "site"
    shutil.copytree(CHECKOUT / "study", source / "study", ignore=shutil.ignore_patterns("__pycache__"))
    for name in SOURCES:
        shutil.copy(CHECKOUT / name, source)
    if repository:
        project = source / "pyproject.toml"
        urls = f'[project.urls]\nRepository = "{repository}"\n\n[project.scripts]'
        project.write_text(project.read_text("utf-8").replace("[project.scripts]", urls), "utf-8")
    subprocess.run([sys.executable, "-m", "pip", "install", *OFFLINE.split(), "--target", site, source], check=True)
    return site
