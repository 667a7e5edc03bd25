"""Lease on a run's folder: the training process holds it, and it ends with that process.

Both locks of it are those of the library filelock:

* a native lock on the file `lease`. The kernel releases it however its holder ends, and nothing has to be cleaned up;
* a `SoftFileLease`, the file `claim.<n>`, for machines that share the folder. There a native lock may be refused, known
  to one machine only, or kept by a dead one. The claim names its machine, and a thread touches it every few seconds.

A claim of this machine is judged by the native lock, one of another machine by its heartbeat: beyond `LIMIT` seconds
without one it is stale. So is one that was made without the native lock; its name ends in `.beats`. Ages are
differences between times of the file server, so clocks need not agree. Should the server's clock be set back, a claim's
time lies ahead: whoever wants the run sets it to now.

filelock takes over a stale file by exchanging two names, which NFS and SMB refuse. So who takes over the stale claim n
makes the claim n + 1 beside it, which succeeds once, then removes the stale one, by which a holder that was only asleep
learns of its loss. A new claim that finds another one beside it, but those that were judged stale, is given back.
"""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from filelock import OwnerRecord, SoftFileLease, Timeout, lock_descriptor

from study import files
from study.errors import BusyError, InputError

FILE = "lease"
CLAIM = "claim."
BEAT = 10.0
"""Seconds from one sign of life to the next."""
LIMIT = 12 * BEAT
"""Seconds of silence that make a claim of another machine stale; above the minute that NFS may cache a time."""
UNUSABLE = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL, errno.EBADF)
"""Errors of a native lock on file systems without locks; NFS has none on a file that is open for reading (EBADF)."""
POLL = 0.5
"""Seconds between two looks of who waits for a lease."""
PATIENCE = 0.25
"""Seconds in which a lock counts as passing: who looks at a lease has it for a moment, too."""
NUMBERED = re.compile(r"claim\.(\d{1,9})(\.beats)?", re.ASCII)
"""A claim, and no copy of one that an editor or a file service has made."""
OPEN = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOFOLLOW"))
"""Flags for opening. Without O_NONBLOCK, opening a pipe of that name waits for ever; Windows has neither."""


class Lease:
    """A lease that this process holds.

    Args:
        descriptor: the open file of the native lock.
        claim: path of the claim, which must not exist.
    """

    def __init__(self, descriptor: int, claim: Path) -> None:
        self.claim, self.descriptor = claim, descriptor
        self._lost: Callable[[], object] | None = None
        self._soft = SoftFileLease(
            claim, lease_duration=LIMIT, heartbeat_interval=BEAT, on_compromise=self._tell, thread_local=False
        )
        self._soft.acquire(blocking=False)

    @property
    def lost(self) -> bool:
        """Return True if another machine has taken the run over."""
        return self._soft.compromise is not None

    def keep(self, lost: Callable[[], object]) -> None:
        """Set what is called once, from a thread, if another machine takes the lease over."""
        self._lost = lost
        if self.lost:
            lost()

    def _tell(self, _: object) -> None:
        if self._lost is not None:
            self._lost()

    def release(self, forget: bool = False) -> None:
        """Give it back. `forget`: remove a folder in which nothing was done, which would count as interrupted."""
        self._lost, folder = None, self.claim.parent
        with suppress(OSError):
            self._soft.release()
        with suppress(OSError):
            if forget and os.listdir(folder) == [FILE]:
                (folder / FILE).unlink()
                folder.rmdir()
        os.close(self.descriptor)


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
            raise files.unwritable(folder, problem) from None
        if not isinstance(got, bool):
            return got
        if got and time.monotonic() > deadline:
            return None
        time.sleep(random.uniform(0, PATIENCE / 25))


def _try(folder: Path) -> Lease | bool | None:
    """A lease, or None where another has it. True: another may have it for a moment. False: the folder is gone."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | OPEN, 0o644)
    except FileNotFoundError:
        return False
    got: Lease | bool | None = None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError(f"{folder / FILE}: expected a file, got a pipe or a device. Remove it.")
        locked = _lock(descriptor)
        got = False if locked and not _same(descriptor, folder / FILE) else _claim(folder, descriptor, locked)
    except (Timeout, FileNotFoundError):  # somebody else took it over, or gave it back, just now
        got = True
    finally:
        if not isinstance(got, Lease):
            os.close(descriptor)
    return got


def _claim(folder: Path, descriptor: int, locked: bool | None) -> Lease | bool | None:
    """A lease from the state of the native lock and the claims that are there; else as `_try`."""
    stale = {path: _owner(path) for _, path in _claims(folder)}
    newest = next(iter(stale), None)
    by_lock = locked is not None and (newest is None or _by_lock_here(newest))
    if not by_lock and newest is not None and _living(newest):
        return None
    if by_lock and not locked:
        return True
    number = _number(newest) + 1 if newest else 1
    lease = Lease(descriptor, folder / f"{CLAIM}{number}{'' if locked else '.beats'}")
    try:
        others = [path for _, path in _claims(folder) if path != lease.claim]
        if all(path in stale and _owner(path) == stale[path] for path in others):
            for path in others:
                path.unlink(missing_ok=True)
            return lease
    except BaseException:
        lease._soft.release()
        raise
    lease._soft.release()  # a claim that was not there before: whoever made it may have the run
    return True


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


def _end(folder: Path) -> None:
    print(f"study: {folder.name}: another machine has taken this run over, so it ends here", file=sys.stderr)
    os.kill(os.getpid(), signal.SIGTERM)


def held(folder: Path) -> bool:
    """Return True if a process is running this run now. Writes nothing, so another user's folder can be checked."""
    try:
        claims = _claims(folder)
        if not claims:
            return False
        if _by_lock_here(claims[0][1]) and (free := _free(folder / FILE)) is not None:
            return not free
        age = _time_of(folder) - claims[0][1].stat().st_mtime
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    except OSError:  # a server that does not answer: the holder, if there is one, may go on
        return True
    return abs(age) < _limit(claims[0][1])


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
    """Return True if no process on this machine holds the native lock; None if it cannot be tried."""
    try:
        descriptor = os.open(lease, os.O_RDONLY | OPEN)
    except FileNotFoundError:
        return True
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """True: ours, so no other process of this machine has it; False: another has it; None: there is none here."""
    try:
        return lock_descriptor(descriptor, blocking=False)
    except PermissionError:  # CIFS has it for a lock that another has
        return False
    except OSError as problem:
        if problem.errno in UNUSABLE:
            return None
        raise


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
    return int(claim.name.split(".")[1])


def _owner(claim: Path) -> OwnerRecord | None:
    """Return the process that made a claim; None for a file that is something else."""
    return SoftFileLease(claim).owner


def _by_lock_here(claim: Path) -> bool:
    """Return True if a claim is of this machine since it was started, and was made with the native lock.

    On Linux, the number by which filelock tells a process from later ones of its number begins with that of the start
    of the machine, so that two machines of one name are told apart.
    """
    own, owner = _self(), _owner(claim)
    if owner is None or claim.suffix == ".beats":
        return False
    return (owner.hostname, (owner.start or 0) >> 64) == (own.hostname, (own.start or 0) >> 64)


@cache
def _self() -> OwnerRecord:
    """Return what filelock writes about a process of this machine."""
    with tempfile.TemporaryDirectory() as folder, SoftFileLease(Path(folder) / CLAIM) as lease:
        assert lease.owner is not None
        return lease.owner


def _living(claim: Path) -> bool:
    """Return True if the heartbeat of a claim is younger than its limit."""
    limit = _limit(claim)  # opening makes NFS ask the server for the time
    age = _now(claim.parent) - claim.stat().st_mtime
    if age < 0:
        with suppress(OSError):
            os.utime(claim)
    return age < limit


def _limit(claim: Path) -> float:
    """Return the seconds of silence that make a claim stale. One without an owner is of who died while making it."""
    return LIMIT if _owner(claim) is not None else 2 * BEAT


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
