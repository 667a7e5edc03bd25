"""Lease on a run's folder: the training process holds it, and it ends with that process.

On one machine the lease is an flock: the kernel releases it however its holder ends, and nothing has to be cleaned up.
On a folder that machines share an flock may be refused, known to one machine only, or kept by a dead one. So a holder
also leaves a claim, a file `claim.<n>` that it touches every few seconds. A claim of this machine is judged by the
flock, one of another machine by its heartbeat: beyond `LIMIT` seconds without one it is stale.

Taking over the stale claim n is making the file n + 1, which succeeds once, whoever else tries. A holder that was only
asleep finds the higher claim at its next beat, and ends. Ages are differences between times of the file server, so
clocks need not agree. Should the server's clock be set back, a claim's time lies ahead: whoever wants the run sets it
to now, so that a dead holder's claim gets stale all the same.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import platform
import random
import re
import signal
import stat
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from study import files
from study.errors import BusyError, InputError

FILE = "lease"
CLAIM = "claim."
BEAT = 10.0
"""Seconds from one sign of life to the next."""
LIMIT = 12 * BEAT
"""Seconds of silence that make a claim of another machine stale; above the minute that NFS may cache a time."""
UNUSABLE = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)
"""Errors of flock on file systems without locks."""
POLL = 0.5
"""Seconds between two looks of who waits for a lease."""
LONGEST = 4096
"""Bytes of a claim."""


PATIENCE = 0.25
"""Seconds in which a lock counts as passing: who looks at a lease has it for a moment, too."""
NUMBERED = re.compile(r"claim\.(\d{1,9})", re.ASCII)
"""A claim, and no copy of one that an editor or a file service has made."""


@dataclass
class Lease:
    """A lease that this process holds: the flock's descriptor, and the claim beside it."""

    claim: Path
    descriptor: int
    _over: threading.Event = field(default_factory=threading.Event)

    def release(self, forget: bool = False) -> None:
        """Give it back. `forget`: remove a folder in which nothing was done, which would count as interrupted."""
        self._over.set()
        folder = self.claim.parent
        with suppress(OSError):
            # Not a higher one: it is of the machine that took the run over. The own one goes last.
            for _, path in reversed([c for c in _claims(folder) if c[0] <= _number(self.claim)]):
                path.unlink(missing_ok=True)
            if forget and os.listdir(folder) == [FILE]:
                (folder / FILE).unlink()
                folder.rmdir()
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
        InputError: the folder cannot be made or written, or its lease is no file.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            got = _try(folder)
        except OSError as problem:
            raise InputError(f"{folder}: cannot be written ({problem.strerror}). Use other --runs.") from None
        if not isinstance(got, bool):
            return got
        if got and time.monotonic() > deadline:
            return None
        time.sleep(random.uniform(0, PATIENCE / 25))


def _try(folder: Path) -> Lease | bool | None:
    """A lease, or None where another has it. True: another may have it for a moment. False: the folder is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    # Without O_NONBLOCK, opening a pipe of that name waits for ever.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(folder / FILE, flags, 0o644)
    except FileNotFoundError:
        return False
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError(f"{folder / FILE}: expected a file, got a pipe or a device. Remove it.")
        locked = _lock(descriptor, fcntl.LOCK_EX)
        if locked and not _same(descriptor, folder / FILE):
            os.close(descriptor)
            return False
        claims = _claims(folder)
        by_flock = locked is not None and (not claims or _by_flock_here(claims[0][1]))
        if not by_flock and claims and _living(claims[0][1]):
            os.close(descriptor)
            return None
        if by_flock and not locked:
            os.close(descriptor)
            return True
        claim = folder / f"{CLAIM}{claims[0][0] + 1 if claims else 1}"
        _write(claim, f"{_machine()} {'flock' if locked else 'beats'}\n")
    except (FileExistsError, FileNotFoundError):  # somebody else took it over, or gave it back, just now
        os.close(descriptor)
        return True
    except BaseException:
        os.close(descriptor)
        raise
    return Lease(claim, descriptor)


@contextmanager
def holding(folder: Path, wait: bool = False) -> Iterator[None]:
    """Hold a run's lease, and renew it until the end of the body. A folder in which nothing was done is removed.

    Should another machine take the run over, because this one gave no sign of life, this process gets SIGTERM.

    Args:
        folder: the run's folder; made if it is missing.
        wait: wait as long as another process has the run; else that is an error.

    Raises:
        InputError: another process has the run, or the folder cannot be written.
    """
    missing = [path for path in folder.parents if not os.path.lexists(path)]
    while (held := acquire(folder)) is None:
        if not wait:
            claims = [path.name for _, path in _claims(folder)[:1]]
            by = f" (its sign of life is {claims[0]})" if claims else ""
            raise BusyError(
                f"{folder}: another process runs this now{by}. Wait for it, or choose another folder with --runs."
            )
        time.sleep(POLL)
    held.keep(lambda: _end(folder))
    try:
        yield
    finally:
        held.release(forget=True)
        if not os.path.lexists(folder):
            with suppress(OSError):
                for path in missing:  # this call has made them
                    path.rmdir()


def waiting(folder: Path) -> AbstractContextManager[None]:
    """Hold a run's lease, however long another has it first."""
    return holding(folder, wait=True)


def _end(folder: Path) -> None:
    print(f"study: {folder.name}: another machine has taken this run over, so it ends here", file=sys.stderr)
    os.kill(os.getpid(), signal.SIGTERM)


def held(folder: Path) -> bool:
    """Return True if a process is running this run now. Writes nothing, so another user's folder can be checked."""
    try:
        claims = _claims(folder)
        if not claims:
            return False
        if _by_flock_here(claims[0][1]) and (free := _free(folder / FILE)) is not None:
            return not free
        age = _time_of(folder) - claims[0][1].stat().st_mtime
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    except OSError:  # a server that does not answer: the holder, if there is one, may go on
        return True
    return abs(age) < LIMIT


def claimed(folder: Path) -> bool:
    """Return True if the folder has a claim, even one of a dead process."""
    return bool(_claims(folder))


def compare_clocks(folder: Path) -> None:
    """Learn by how much the clock of a folder's file server is ahead of this machine's, for `held`."""
    with suppress(OSError), tempfile.TemporaryFile(dir=folder) as file:
        found = os.fstat(file.fileno())
        AHEAD[found.st_dev] = found.st_mtime - time.time()


AHEAD: dict[int, float] = {}
"""File system (st_dev) ↦ seconds that its clock is ahead."""


def _free(lease: Path) -> bool | None:
    """Return True if no process on this machine holds the flock; None if the file system has no locks."""
    try:
        descriptor = os.open(lease, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    try:
        return _lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool | None:
    """True: ours, so no other process of this machine has it; False: another has it; None: there is no flock here."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # CIFS has the second for the first
        return False
    except OSError as problem:
        if problem.errno in UNUSABLE:
            return None
        raise
    return True


def _same(descriptor: int, path: Path) -> bool:
    """Return True if an open file is still at `path`. It may be removed between opening and locking."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _claims(folder: Path) -> list[tuple[int, Path]]:
    """Every claim on a run with its number, the newest first."""
    names = (name for name in os.listdir(folder) if NUMBERED.fullmatch(name))
    return sorted(((_number(path), path) for path in map(folder.joinpath, names)), reverse=True)


def _number(claim: Path) -> int:
    return int(claim.name.removeprefix(CLAIM))


def _by_flock_here(claim: Path) -> bool:
    """Return True if a claim is of this machine and held by flock."""
    machine, _, by = files.read(claim, LONGEST).decode("utf-8", "replace").strip().partition(" ")
    return machine == _machine() and by == "flock"


def _living(claim: Path) -> bool:
    """Return True if the heartbeat of a claim is younger than `LIMIT`."""
    files.read(claim, LONGEST)  # opening makes NFS ask the server for the time
    age = _now(claim.parent) - claim.stat().st_mtime
    if age < 0:
        with suppress(OSError):
            os.utime(claim)
    return age < LIMIT


def _now(folder: Path) -> float:
    """The file server's time where the folder can be written, else this machine's."""
    try:
        os.utime(folder / FILE)
        return (folder / FILE).stat().st_mtime
    except OSError:
        return time.time()


def _time_of(folder: Path) -> float:
    """The file server's time as far as it is known without writing."""
    return time.time() + AHEAD.get(os.stat(folder).st_dev, 0.0)


def _write(claim: Path, text: str) -> None:
    """Make a claim whole or not at all: a name that is taken fails, and nobody reads half of it."""
    draft = claim.with_name(f".{CLAIM}{uuid.uuid4().hex[:8]}{files.SUFFIX}")
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
