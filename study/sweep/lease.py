"""Who runs what: a lease on a run's folder, held by the process that trains and gone when that process is.

On one machine the lease is an flock: the kernel releases it however its holder ends, and nothing has to be cleaned up.
On a folder that machines share an flock may be refused, known to one machine only, or kept by a dead one. So a holder
also leaves a claim, a file `claim.<n>` that it touches every few seconds. A claim of this machine is judged by the
flock, one of another machine by its heartbeat: beyond `LIMIT` seconds without one it is stale.

Taking over the stale claim n is making the file n + 1, which succeeds once, whoever else tries. A holder that was only
asleep finds the higher claim at its next beat, and ends. Ages are differences between times of the file server, so
clocks need not agree.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import platform
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from study.errors import InputError

FILE = "lease"
CLAIM = "claim."
BEAT = 10.0
"""Seconds from one sign of life to the next."""
LIMIT = 12 * BEAT
"""Seconds of silence that make a claim of another machine stale; above the minute that NFS may cache a time."""
UNUSABLE = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
"""What flock says on file systems that have none."""
POLL = 0.5
"""Seconds between two looks of who waits for a lease."""


@dataclass
class Lease:
    """A lease that this process holds: the flock's descriptor, and the claim beside it."""

    claim: Path
    descriptor: int
    _over: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Give it back."""
        self._over.set()
        with suppress(OSError):
            claims = _claims(self.claim.parent)
            # Not a higher one: it is of the machine that took the run over. The own one goes last.
            for _, path in reversed([c for c in claims if c[0] <= _number(self.claim)]):
                path.unlink(missing_ok=True)
        os.close(self.descriptor)

    def beat(self) -> bool:
        """Give a sign of life. False: another machine thought this one dead, and has the run now."""
        with suppress(OSError):  # a server that does not answer now may answer next time
            if any(number > _number(self.claim) for number, _ in _claims(self.claim.parent)):
                return False
            os.utime(self.claim)
        return True

    def keep(self, lost: Callable[[], object]) -> None:
        """Beat from a thread until it is given back; `lost` is called once if another machine takes it over."""

        def beats() -> None:
            while not self._over.wait(BEAT):
                if not self.beat():
                    if not self._over.is_set():
                        lost()
                    return

        threading.Thread(target=beats, name="heartbeat", daemon=True).start()


def acquire(folder: Path) -> Lease | None:
    """Take a run's lease, or None where another process holds it.

    Raises:
        InputError: the folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as problem:
        raise InputError(f"{folder}: no run can write there ({problem.strerror}); use another --out") from None
    try:
        locked = _lock(descriptor, fcntl.LOCK_EX)
        claims = _claims(folder)
        if (claims and _alive(claims[0][1], locked)) or (locked is False and not claims):
            os.close(descriptor)
            return None
        claim = folder / f"{CLAIM}{claims[0][0] + 1 if claims else 1}"
        _write(claim, f"{_machine()} {'flock' if locked else 'beats'}\n")
    except FileExistsError:  # somebody else took it over just now
        os.close(descriptor)
        return None
    except OSError as problem:
        os.close(descriptor)
        raise InputError(f"{folder}: no run can write there ({problem.strerror}); use another --out") from None
    return Lease(claim, descriptor)


@contextmanager
def waiting(folder: Path) -> Iterator[None]:
    """Hold a run's lease, however long another has it first."""
    while (held := acquire(folder)) is None:
        time.sleep(POLL)
    held.keep(lambda: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        held.release()


def held(folder: Path) -> bool:
    """Whether some process is running this run now. Writes nothing, so that one may look at another's folder."""
    try:
        descriptor = os.open(folder / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        locked = _lock(descriptor, fcntl.LOCK_SH)
        claims = _claims(folder)
        return _alive(claims[0][1], locked) if claims else locked is False
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool | None:
    """True: ours, so no other process of this machine has it; False: another has it; None: there is no flock here."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as problem:
        if problem.errno in UNUSABLE:
            return None
        raise
    return True


def _claims(folder: Path) -> list[tuple[int, Path]]:
    """Every claim on a run with its number, the newest first."""
    names = (name for name in os.listdir(folder) if name.startswith(CLAIM))
    return sorted(((_number(path), path) for path in map(folder.joinpath, names)), reverse=True)


def _number(claim: Path) -> int:
    return int(claim.name.removeprefix(CLAIM))


def _alive(claim: Path, locked: bool | None) -> bool:
    """Whether the holder of a claim is there, given whether its flock is free."""
    try:
        with claim.open(encoding="utf-8") as file:  # opening makes NFS ask the server for the time
            machine, _, by = file.read().strip().partition(" ")
            touched = os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:  # given back this moment
        return locked is False
    if machine == _machine() and by == "flock" and locked is not None:
        return not locked
    return _now(claim.parent) - touched < LIMIT


def _now(folder: Path) -> float:
    """The file server's time where the folder can be written, else this machine's."""
    try:
        os.utime(folder / FILE)
        return (folder / FILE).stat().st_mtime
    except OSError:
        return time.time()


def _write(claim: Path, text: str) -> None:
    """Make a claim whole or not at all: a name that is taken fails, and nobody reads half of it."""
    draft = claim.with_name(f".{CLAIM}{uuid.uuid4().hex}")
    try:
        draft.write_text(text, encoding="utf-8")
        os.link(draft, claim)
    except FileExistsError:
        raise
    except OSError:  # a file system without links; one that is full says so again
        with claim.open("x", encoding="utf-8") as file:
            file.write(text)
    finally:
        draft.unlink(missing_ok=True)


@cache
def _machine() -> str:
    """This machine since it was started: containers on one kernel, which share its flocks, are one."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    except OSError:
        boot = f"{platform.node()} {uuid.getnode()}"
    return hashlib.sha256(boot.encode()).hexdigest()[:16]
