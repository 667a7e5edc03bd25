"""A verb that is killed at its n-th write and repeated, for every n. `python killing.py OUT VERB …`

Every call is a fork of this process, which has imported what is slow. OUT is as before the first call at each kill;
after it every file is whole, an old or a new one, and after each repetition OUT has to be as an undisturbed call leaves
it. Prints the number of writes, rounded up to those tried.
"""

import hashlib
import importlib
import os
import shutil
import signal
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from study import files
from study.__main__ import main

IMPORTED = {
    "site": ("study.publish.site.content", "study.commands.site"),
    "report": ("study.analysis.figures.sweep", "study.analysis.comparison", "study.commands.report"),
    "publish": ("study.publish.publish", "pandas", "study.commands.publish"),
    "reproduce": ("study.publish.reproduce", "study.analysis.figures.catalogue", "pandas", "study.commands.reproduce"),
    "prune": ("study.pruning.run", "study.commands.prune"),
}
WHOLE = Path(f"{sys.argv[1]}.whole")
"""Digests of all that undisturbed calls have written: some files are written twice."""
EVERY = 4 if sys.argv[2] == "reproduce" and os.environ.get("STUDY_MATRIX") != "all" else 1
"""A reproduction takes seconds, so that one write in four is tried, each at another moment."""
MOMENTS = ("before it", "half-way", "after it")


def call(words, write=-1, moment=""):
    """Call the verb in a fork, which is killed at a write; return its exit status."""
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    null, replacing, number = os.open(os.devnull, os.O_WRONLY), files.replacing, count()

    @contextmanager
    def killed(path, durable=True):
        at = moment if next(number) == write else ""
        with replacing(path, durable) as temporary:
            end(at == "before it")
            yield temporary
            if write < 0:
                files.append(WHOLE, digest(temporary.read_bytes()) + "\n")
            if at == "half-way":
                os.truncate(temporary, temporary.stat().st_size // 2)
                end(True)
        end(at == "after it")

    os.dup2(null, 1)
    files.replacing = killed
    os._exit(main(words))


def digest(content):
    return hashlib.sha256(content).hexdigest()


def end(now):
    if now:
        os.kill(os.getpid(), signal.SIGKILL)


def tree(folder):
    """Return the files below a folder, but those that lock or log.

    Temporary files of a killed call stay beside a report, since another call may be writing its own there.
    """
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("lease", "log.txt"))
    paths = (path for path in paths if sys.argv[2] != "report" or not path.name.endswith(files.SUFFIX))
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def restore(folder, content):
    """Make a folder as it was."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in content.items():
        files.write(folder / name, data, durable=False)


if __name__ == "__main__":
    out, words = Path(sys.argv[1]), sys.argv[2:]
    for name in IMPORTED[words[0]]:
        importlib.import_module(name)
    before = tree(out)
    assert call(words) == 0
    calm, write = tree(out), 0
    whole = {*WHOLE.read_text().split(), *map(digest, before.values())}
    while True:
        restore(out, before)
        moment = MOMENTS[write % len(MOMENTS)]
        if call(words, write, moment) != -signal.SIGKILL:
            break
        for name, content in tree(out).items():
            known = digest(content) in whole or name.endswith(files.SUFFIX)
            assert known, f"killed {moment}, write {write}: a part of {name}"
        assert call(words) == 0, f"killed {moment}, write {write}: it cannot be repeated"
        found = tree(out)
        different = sorted(name for name in calm.keys() | found.keys() if calm.get(name) != found.get(name))
        assert not different, f"killed {moment}, write {write}: {different}"
        write += EVERY
    print(write, "writes")
