"""Signals: Ctrl-C and SIGTERM, for a sweep that answers them and for a trial that another program started."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from study.records import CHECKPOINT, PARTS
from study.sweep.outcome import STOPPED

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK = 0.5
LAST_WORDS = 30.0
"""Seconds for the checkpoint and for what a server is still to be told."""


class Interrupts:
    """Context in which the first SIGINT or SIGTERM raises KeyboardInterrupt; later ones only set `again`.

    Were every one of them to raise, one that comes while the first is being answered would end up in whatever runs
    then: it would be lost there, or leave trials behind. A signal that is ignored on entry stays ignored, as `nohup`
    and shells' background jobs want it for SIGINT.
    """

    def __init__(self) -> None:
        self.again = False
        self._answering = False
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Interrupts:
        for one in SIGNALS:
            if signal.getsignal(one) is not signal.SIG_IGN:
                self._before[one] = signal.signal(one, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: TracebackType | None
    ) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def answer(self) -> None:
        """From here on no signal raises: what is under way is being ended, whatever the reason."""
        self._answering = True

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._answering:
            self.again = True
            return
        self._answering = True
        raise KeyboardInterrupt


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
def announced(folder: Path) -> Iterator[None]:
    """Print how a run continues that is stopped within, by Ctrl-C or SIGTERM."""
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
