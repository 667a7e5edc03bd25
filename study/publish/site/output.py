"""The site as a folder, and as a server on this machine that follows the records."""

from __future__ import annotations

import hashlib
import mimetypes
import sys
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from study import files as disk
from study.errors import InputError
from study.publish.site.content import MAPS, Content
from study.publish.site.pages import files

LIST = "files.txt"
"""List of the files of a site, in its folder. What it names may be replaced and removed."""
EVERY = 1.0
"""Seconds between two looks at the records."""
WATCHED = ("record.json", "progress.json", "history.jsonl", MAPS)
HERE = "127.0.0.1"


def write(content: Content, folder: Path) -> tuple[int, int]:
    """Write a site; the number of files and of bytes.

    Raises:
        InputError: the folder has other files than those of a site, or a record cannot be used.
        OSError: the folder cannot be written.
    """
    before, listed = check(folder), folder / LIST
    made = dict(files(content))
    disk.write(listed, "".join(f"{name}\n" for name in sorted(before | made.keys())), durable=False)
    for name, content_ in made.items():
        path = folder / name
        if name not in before or not path.is_file() or path.read_bytes() != content_:
            disk.write(path, content_, durable=False)
    for name in before - made.keys():
        path = folder / name
        if path.resolve().is_relative_to(folder.resolve()):
            path.unlink(missing_ok=True)
    disk.write(listed, "".join(f"{name}\n" for name in sorted(made)), durable=False)
    return len(made), sum(map(len, made.values()))


def check(folder: Path) -> set[str]:
    """Return the files of the site in a folder; the folder may be absent. Nothing is written.

    Raises:
        InputError: the folder has other files than those of a site, or cannot be written.
    """
    listed, place = folder / LIST, folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        before = set(listed.read_text(encoding="utf-8").splitlines()) if listed.is_file() else set()
        if folder.exists() and (not folder.is_dir() or (not before and any(folder.iterdir()))):
            raise InputError(f"{folder}: expected a site or an empty folder, got other files. Name another with --out.")
        with tempfile.TemporaryFile(dir=place):
            return before
    except OSError as problem:
        raise InputError(f"{folder}: cannot be written ({problem.strerror}). Name another with --out.") from None


class Live:
    """A site that is built again when a record changes.

    Args:
        build: reads the content.
        folder: what is watched.
        say: called with a line for the terminal.
    """

    def __init__(self, build: Callable[[], Content], folder: Path, say: Callable[[str], object]) -> None:
        self.build, self.folder, self.say = build, folder, say
        self.version, self.files = "", dict[str, bytes]()

    def refresh(self) -> bool:
        """Build the site if something changed; True if it was built. A record that cannot be used keeps the old site.

        Raises:
            InputError: the first build fails.
        """
        version = fingerprint(self.folder)
        if version == self.version:
            return False
        try:
            self.files = dict(files(self.build(), version))
        except (InputError, OSError) as problem:
            if not self.files:
                raise
            self.say(f"not built: {problem}")
            self.files = {
                name: text.replace(self.version.encode(), version.encode()) for name, text in self.files.items()
            }
        self.version = version
        return True


def fingerprint(folder: Path) -> str:
    """Return a hash of names, sizes and times of the files that decide the site."""
    facts = []
    for path in sorted(folder.glob("*")):
        for one in [path / name for name in WATCHED] if path.is_dir() else [path]:
            try:
                found = one.stat()
            except OSError:
                continue
            facts.append(f"{path.name}/{one.name} {found.st_size} {found.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def serve(live: Live, port: int) -> None:
    """Serve a site on this machine until the process is interrupted. The address is printed first.

    Raises:
        InputError: the port is taken, or the first build fails.
        KeyboardInterrupt: Ctrl-C.
    """
    live.refresh()
    try:
        server = _Server((HERE, port), live)
    except (OSError, OverflowError) as problem:
        why = getattr(problem, "strerror", None) or "no such port"
        raise InputError(f"--serve: port {port}: {why}. Name another, or 0 for any free one.") from None
    ended = threading.Event()
    try:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        live.say(f"http://{HERE}:{server.server_port}/  (Ctrl-C ends it)")
        while not ended.wait(EVERY):
            if live.refresh():
                live.say(f"built again: {len(live.files)} files")
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], live: Live) -> None:
        self.live = live
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a reader that went away; print anything else."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer with a file of the site."""
        live = self.server.live
        path = unquote(urlsplit(self.path).path).lstrip("/") or "index.html"
        if (self.headers.get("Host") or "").rpartition(":")[0] not in (HERE, "localhost"):
            self._answer(403, b"", "text/plain")  # a page of another site that found this port
        elif path == "version":
            self._answer(200, live.version.encode(), "text/plain")
        elif (found := live.files.get(path)) is not None:
            kind = mimetypes.guess_type(path)[0] or "text/plain"
            self._answer(200, found, f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
        else:
            self._answer(404, b"no such page", "text/plain")

    do_HEAD = do_GET  # noqa: N815

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Print nothing for each request."""
