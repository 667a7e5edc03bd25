"""Handle Ctrl-C and termination signals in a sweep. The first is answered; later ones do not interrupt the answer."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
