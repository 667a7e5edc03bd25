"""The site as a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from study import files as disk
from study.errors import InputError
from study.publish.site.content import Content, pages

PAGE = "index.html"
OURS = b"<title>Attention, ablated</title>"
"""A mark that the first page of a site has, and that of another folder has not."""


def write(content: Content, folder: Path) -> tuple[int, int]:
    """Write a site; the number of files and of bytes.

    Raises:
        InputError: the folder has other files than those of a site, or a record cannot be used.
        OSError: the folder cannot be written.
    """
    files = dict(pages(content))
    check(folder)
    if not (folder / PAGE).exists():
        disk.write(folder / PAGE, OURS, durable=False)  # a call that is interrupted leaves a site, not other files
    shutil.rmtree(folder / "data", ignore_errors=True)
    disk.clean(folder, *{(folder / name).parent for name in files})
    for name, text in files.items():
        disk.write(folder / name, text, durable=False)
    return len(files), sum(map(len, files.values()))


def check(folder: Path) -> None:
    """Make the folder of a site, if it is absent.

    Raises:
        InputError: the folder has other files than those of a site.
        OSError: it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / PAGE
    foreign = {*folder.iterdir()} - {*disk.leftovers(folder)}
    if foreign and not (page.is_file() and OURS in disk.read(page)):
        raise InputError(f"{folder}: expected a site or an empty folder, got other files. Name another with --out.")
