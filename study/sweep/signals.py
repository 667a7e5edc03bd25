"""Signals, and the rule that a process ends with the one that started it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK = 0.5
"""Seconds between two looks at the process that started this one."""
GRACE = 10.0
"""Seconds that a process which was asked to end has for its checkpoint, before it is killed."""


class Interrupts:
    """Context in which the first SIGINT or SIGTERM raises KeyboardInterrupt; later ones only set `again`.

    If each of them raised, one that comes while the first is answered would leave trials behind. A signal that is
    ignored on entry stays ignored, as `nohup` and shells' background jobs want it for SIGINT.
    """

    def __init__(self) -> None:
        self.status = 0
        """Exit status of who was interrupted: 130 or 143."""
        self.answering = self.again = False
        """`answering`: no signal raises any more, since what is under way is being ended."""
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Interrupts:
        self._before = {one: signal.getsignal(one) for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN}
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def take(self) -> None:
        """Take the signals, also after a library has set handlers of its own."""
        for one in self._before:
            signal.signal(one, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.status = self.status or 128 + number
        self.again, self.answering = self.answering, True
        if not self.again:
            raise KeyboardInterrupt


def answer(line: str) -> None:
    """Print what answers an interrupt. Ctrl-C ends whoever reads through a pipe too, and the answer still goes on."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def on_request() -> Iterator[None]:
    """Context in which SIGTERM raises, so that all work is ended in order; the exit status is 143."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def with_parent() -> None:
    """End when the process that started this one is gone, however it ended: no run goes on that nobody counts.

    SIGTERM first, which lets a run keep its step; SIGKILL after `GRACE`, to all that this process has started. The
    starter is the parent, and for a process of multiprocessing's fork server also the one that asked for it.
    """
    parent, starter = os.getppid(), multiprocessing.parent_process()

    def watch() -> None:
        while os.getppid() == parent and (starter is None or starter.is_alive()):
            time.sleep(LOOK)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
