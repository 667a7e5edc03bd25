"""The site as a folder, and as a server on this machine that follows the records."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from study import files as disk
from study.errors import InputError
from study.publish.site.content import Content, pages

PAGE = "index.html"
OURS = b"<title>Attention, ablated</title>"
"""A mark that the first page of a site has, and that of another folder has not."""
EVERY = 1.0
"""Seconds between two looks at the records."""
HERE = "127.0.0.1"
Build: TypeAlias = Callable[[], Content]
Say: TypeAlias = Callable[[str], object]
Changes: TypeAlias = dict[Path, int]
"""Record ↦ the time of its last change."""


def write(content: Content, folder: Path) -> tuple[int, int]:
    """Write a site; the number of files and of bytes.

    Raises:
        InputError: the folder has other files than those of a site, or a record cannot be used.
        OSError: the folder cannot be written.
    """
    made = dict(pages(content))
    check(folder)
    if not (folder / PAGE).exists():
        disk.write(folder / PAGE, OURS, durable=False)  # a call that is interrupted leaves a site, not other files
    shutil.rmtree(folder / "data", ignore_errors=True)
    disk.clean(folder, *{(folder / name).parent for name in made})
    for name, text in made.items():
        disk.write(folder / name, text, durable=False)
    return len(made), sum(map(len, made.values()))


def check(folder: Path) -> None:
    """Make the folder of a site, if it is absent.

    Raises:
        InputError: the folder has other files than those of a site.
        OSError: it cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / PAGE
    others = {*folder.iterdir()} - {*disk.leftovers(folder)}
    if others and not (page.is_file() and OURS in disk.read(page)):
        raise InputError(f"{folder}: expected a site or an empty folder, got other files. Name another with --out.")


def refresh(build: Build, runs: Path, folder: Path, before: Changes | None, say: Say) -> Changes:
    """Write a site again if its runs have changed, and return their times. A bad record keeps the old site.

    Args:
        build: reads the content.
        runs: the folder that is watched.
        folder: where the site is.
        before: times of the records when it was written; None: there is no site yet.
        say: called with a line for the terminal.

    Raises:
        InputError: the first site cannot be written.
    """
    now: Changes = {}
    for path in runs.glob("*/record.json"):
        with suppress(FileNotFoundError):  # a failed run begins again
            now[path] = path.stat().st_mtime_ns
    if now != before:
        try:
            count, _ = write(build(), folder)
            say(f"built: {count} files")
        except Exception as problem:  # whatever one file does, the site of the others stays
            if before is None:
                raise
            say(f"not built: {problem or type(problem).__name__}".splitlines()[0])
    return now


def serve(build: Build, runs: Path, port: int, say: Say) -> None:
    """Serve a site of runs on this machine until the process is interrupted.

    Raises:
        InputError: the port is taken, or the first site cannot be written.
        KeyboardInterrupt: Ctrl-C.
    """
    with tempfile.TemporaryDirectory() as folder:
        known = refresh(build, runs, Path(folder), None, say)
        try:
            server = ThreadingHTTPServer((HERE, port), partial(_Handler, directory=folder))
        except (OSError, OverflowError) as problem:
            raise InputError(f"--serve: port {port}: {problem}. Name another, or 0 for any free one.") from None
        with server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            say(f"http://{HERE}:{server.server_port}/  (Ctrl-C ends it)")
            while True:
                time.sleep(EVERY)
                known = refresh(build, runs, Path(folder), known, say)


class _Handler(SimpleHTTPRequestHandler):
    timeout = 30
    """Seconds that a silent connection stays open."""

    def send_head(self) -> Any:
        """Refuse the request of a page that found this port under another name."""
        if (self.headers.get("Host") or "").partition(":")[0] not in (HERE, "localhost"):
            self.send_error(403)
            return None
        return super().send_head()

    def end_headers(self) -> None:
        """Let no other page load or frame what is served."""
        self.send_header("Cache-Control", "no-store")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        super().end_headers()

    def log_message(self, *words: object) -> None:
        """Print nothing for each request."""
