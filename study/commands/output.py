"""Standard output and standard error that outlive their reader, so that `study sweep FILE | head` does its work."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Outlet(io.RawIOBase):
    """A stream of this process. Once it cannot be written, it takes everything and `lost` says why."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.lost: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor

    def isatty(self) -> bool:
        return os.isatty(self.descriptor)

    def write(self, data: bytes) -> int:  # type: ignore[override]
        try:
            return os.write(self.descriptor, data)
        except OSError as problem:
            self.lost = problem
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.descriptor)  # child processes and libraries write there, too
            os.close(nowhere)
            return len(data)


@contextmanager
def lasting() -> Iterator[list[Outlet]]:
    """Replace `sys.stdout` and `sys.stderr` by outlets in this context. Streams that were replaced before stay.

    Characters that the encoding of the terminal lacks become question marks.
    """
    before, outlets = (sys.stdout, sys.stderr), []
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell, `>&-`: the next file opened would be taken for it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__") and stream.fileno() == descriptor:
            stream.flush()
            outlets.append(Outlet(descriptor))
            unicode = codecs.lookup(stream.encoding).name == "utf-8"
            text = io.TextIOWrapper(
                io.BufferedWriter(outlets[-1]),  # type: ignore[type-var]
                encoding=stream.encoding,
                errors="backslashreplace" if unicode else "replace",
                line_buffering=stream.line_buffering or descriptor == 2,
            )
            setattr(sys, name, text)
    try:
        yield outlets
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before
