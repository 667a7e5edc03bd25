"""Stop a trial that another program started, on request or when that program is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from study.records import CHECKPOINT, PARTS
from study.sweep.ending import STOPPED

LOOK = 0.5
LAST_WORDS = 30.0
"""Seconds for the checkpoint and for what a server is still to be told."""


@contextlib.contextmanager
def on_request() -> Iterator[None]:
    """Context in which SIGTERM raises, so that all work is ended in order; the exit status is 128 + 15."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise SystemExit(STOPPED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def told(folder: Path) -> Iterator[None]:
    """Say how a run goes on that is stopped within, by Ctrl-C or SIGTERM."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        kept = next((folder / name for name in (CHECKPOINT, PARTS) if (folder / name).exists()), None)
        way = f"continues from {kept}" if kept else "starts again, since nothing was saved yet"
        print(f"study: stopped; the same command {way}", file=sys.stderr, flush=True)
        raise


def with_parent() -> None:
    """End when the process that started this one is gone: a killed agent would leave a trial that nobody counts."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(LAST_WORDS)
        os._exit(STOPPED)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
