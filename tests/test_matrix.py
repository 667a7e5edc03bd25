"""Every verb in every situation: a process of its own, in a folder of its own.

A cell is a verb in a situation. It ends with its work done, or with one line and status 2; and when the situation is
over, the same command does its work. Status 70, a traceback, a run that is recorded as failed, or a file that the
repetition refuses fail the cell. A tenth of the cells is tried, drawn by the commit; STUDY_MATRIX=all tries all.
"""

import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from loopback import Loopback
from processes import output_of
from published_lab import Lab
from terminal import study_in

from study import files
from study.commands import VERBS

HERE = Path(__file__).parent
SITUATION = HERE / "support" / "situation"
PARTS = 10
LIMIT = 300
TINY = {
    "data.name": "files", "data.source": "aa", "data.target": "bb", "data.folder": "text", "data.tokens": "words",
    "model.family": "transformer", "model.layers": 1, "model.width": 16, "model.attention.heads": 2,
    "training.steps": 6, "training.validate_every": 3, "training.batch_tokens": 300,
    "decoding.beam": 1, "trainer.device": "cpu", "trainer.threads": 1,
}  # fmt: skip
WORDS = {"mira": "rami", "tolu": "luto", "keba": "bake", "sanu": "nusa", "ripo": "pori", "dela": "lade", "fono": "nofo"}
CLAIM = """
claims:
  - id: mine
    slug: mine
    statement: A dot product is better than a bilinear score
    type: superiority
    questions:
      - {sweep: sweeps/tiny.yaml, asked: [grammar/recurrent],
         contrasts: [{arm: {model.attention.score: dot}, baseline: {model.attention.score: bilinear}}]}
"""
FLAGS = tuple(f"--{name}={value}" for name, value in TINY.items())
COMMANDS = {
    "train": ("train", *FLAGS, "--seed=9", "--runs", "new"),
    "plan": ("plan", "sweeps/tiny.yaml", "--margin", "2", "--sd", "1"),
    "sweep": ("sweep", "mini.yaml", "--runs", "new", "--slots", "1", "--seeds", "3"),
    "tune": ("tune", "search.yaml", "--runs", "new", "--slots", "1"),
    "prune": ("prune", "{run}", "--runs", "new"),
    "rerun": ("rerun", "{run}", "--runs", "new"),
    "ls": ("ls", "runs", "--runs", "own"),
    "show": ("show", "{run}", "--plot", "run.png"),
    "translate": ("translate", "{run}", "mira tolu keba."),
    "compare": ("compare", "{run}", "{other}"),
    "explain": ("explain", *FLAGS),
    "check": ("check", "text", "--source", "aa", "--target", "bb"),
    "report": ("report", "mini.yaml", "--runs", "own"),
    "claims": ("claims", "--claims", "claims.yaml", "--runs", "runs"),
    "site": ("site", "--runs", "own", "--out", "pages"),
    "publish": ("publish", "sweeps/tiny.yaml"),
    "fetch": ("fetch", "results", "--from", str(HERE.parent)),
    "verify": ("verify", "--results", "published/results"),
    "reproduce": ("reproduce", "tables", "--results", "published/results"),
    "wandb": ("wandb", "push", "own"),
}
"""Verb ↦ a command that does something, in the folder that `world` makes."""
TORCH = {"train", "sweep", "tune", "prune", "rerun", "translate", "explain"}
"""Verbs that run or make a model."""
STARTED_BY = {"sweep", "tune"}
"""Verbs whose runs are processes of their own."""


class Call:
    """A command of a cell: its folder, its environment, and how its process is started."""

    def __init__(self, folder, words, server):
        self.folder, self.words = folder, words
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
        self.environment |= {"HOME": str(folder), "OMP_NUM_THREADS": "1", "STUDY_FILES": "text"}
        self.environment["PYTHONPATH"] = str(SITUATION)
        self.environment |= server.environment() if words[0] == "wandb" else {"WANDB_MODE": "disabled"}
        self.prepare = None

    def run(self, **more):
        """Run it; return status, standard output and error."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "study", *self.words], cwd=self.folder, env=self.environment,
            preexec_fn=self.prepare, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, **more,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


def right(call, status, error):
    """Refuse what no cell may do; a status of 1 is that of a difference, which the same command without a fault has."""
    text = error.strip()
    assert status != 70, text
    assert "report it" not in text, text
    assert "Traceback" not in text, text
    if status == 2:
        assert len([line for line in text.splitlines() if line.startswith("study: ")]) == 1, text
    for path in call.folder.glob("new/files-*/record.json"):
        assert json.loads(path.read_text())["status"] != "failed", path.read_text()


def done(call):
    """Run the command without a fault, to its end."""
    status, printed, error = call.run()
    right(call, status, error)
    assert status == 0, printed + error
    return "done"


def outcome(status):
    """Return how the call in the situation ended."""
    return {0: "done", 1: "done, status 1", 2: "one line"}.get(status, f"status {status}, then again")


def as_it_is(call, verb):
    return done(call)


def lacking(*packages):
    def situation(call, verb):
        call.environment["SITUATION_LACKS"] = " ".join(packages)
        status, _, error = call.run()
        right(call, status, error)
        needs = (verb in TORCH and "torch" in packages) or (verb == "wandb" and "wandb" in packages)
        assert status == (2 if needs else 0), error
        assert not needs or "not installed" in error
        del call.environment["SITUATION_LACKS"]
        done(call)
        return outcome(status)

    return situation


def closed_output(call, verb):
    call.prepare = lambda: os.close(1)
    status, _, error = call.run()
    right(call, status, error)
    assert status in (0, 74), error
    call.prepare = None
    done(call)
    return outcome(status)


def terminal(columns):
    """A terminal of so many columns, in which nothing is cut."""

    def situation(call, verb):
        status, text = study_in(columns, *call.words, cwd=call.folder, env=call.environment)
        assert status == 0, text
        assert not re.search(r"\w…", text), "a cut text"
        return outcome(status)

    return situation


@contextlib.contextmanager
def disk(call, free=None, options=""):
    """Put the folder of the call on a disk of its own, with so many free bytes."""
    used = int(
        subprocess.run(["du", "-s", "-B1", call.folder], check=True, capture_output=True, text=True).stdout.split()[0]
    )
    small = call.folder.with_name("disk")
    small.mkdir()
    size = used + (1 << 20) + (free or 1 << 28)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", small], capture_output=True)
    if mounted.returncode:
        pytest.skip("no right to mount a disk")
    before = call.folder
    try:
        call.folder = small / "world"
        shutil.copytree(before, call.folder, symlinks=True)
        if free is not None:  # blocks are pages, so fill to the byte
            left = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize - free
            (small / "fill").write_bytes(b"x" * max(left, 0))
        yield small
    finally:
        subprocess.run(["umount", "-l", small], check=True)
        small.rmdir()
        call.folder = before


def full_disk(free):
    def situation(call, verb):
        with disk(call, free) as small:
            status, _, error = call.run()
            right(call, status, error)
            assert status in (0, 2, 74), error
            assert status != 2 or "oom" in error or "space" in error, error
            (small / "fill").unlink()
            subprocess.run(["mount", "-o", f"remount,size={1 << 28}", small], check=True)
            done(call)
            return outcome(status)

    return situation


def read_only(call, verb):
    with disk(call) as small:
        subprocess.run(["mount", "-o", "remount,ro", small], check=True)
        status, _, error = call.run()
        right(call, status, error)
        assert status in (0, 2, 74), error
        subprocess.run(["mount", "-o", "remount,rw", small], check=True)
        done(call)
        return outcome(status)


def without_locks(call, verb):
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    library = call.folder.with_name("noflock.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SITUATION / "noflock.c", "-ldl"], check=True)
    call.environment["LD_PRELOAD"] = str(library)
    status, _, error = call.run()
    right(call, status, error)
    assert status in (0, 2), error
    assert status == 0 or "lock" in error.lower(), error
    del call.environment["LD_PRELOAD"]
    done(call)
    return outcome(status)


def long_temporary_folder(call, verb):
    folder = call.folder.with_name("t")
    folder = Path(str(folder) + "/" + "x" * (98 - len(str(folder))))
    folder.mkdir(parents=True)
    call.environment["TMPDIR"] = str(folder)
    status, _, error = call.run()
    right(call, status, error)
    assert status in (0, 2), error
    del call.environment["TMPDIR"]
    done(call)
    return outcome(status)


def little_memory(call, verb):
    """So little that Python starts, and torch or pandas does not, or fails somewhere."""
    most = 900 << 20 if verb in TORCH else 450 << 20
    call.prepare = lambda: resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    status, _, error = call.run()
    assert status != 70, error
    assert "report it" not in error, error
    call.prepare = None
    shutil.rmtree(call.folder / "new", ignore_errors=True)
    done(call)
    return outcome(status)


def killed(number):
    """Killed at a write, then repeated: what is there is what an undisturbed call leaves."""

    def situation(call, verb):
        counter = call.folder.with_name("counter")
        counter.touch()
        call.environment |= {"SITUATION_KILL": str(number), "SITUATION_COUNTER": str(counter)}
        status, _, error = call.run()
        assert status in (0, -9), error
        for name in ("SITUATION_KILL", "SITUATION_COUNTER"):
            del call.environment[name]
        done(call)
        assert not [*call.folder.glob(f"new/files-*/.*{files.SUFFIX}")], "files of the process that was killed"
        return "killed, then again" if status else "done before it"

    return situation


def an_unreadable_record(call, verb):
    for folder in ("own", "runs", "new"):
        broken = call.folder / folder / "grammar-recurrent-dot-00000000-s1"
        broken.mkdir(parents=True)
        (broken / "record.json").write_text("{")
    status, _, error = call.run()
    right(call, status, error)
    assert status in (0, 1) or (verb == "wandb" and status == 1), error
    for folder in ("own", "runs", "new"):
        shutil.rmtree(call.folder / folder / "grammar-recurrent-dot-00000000-s1")
    done(call)
    return outcome(status)


def a_clock_set_back(call, verb):
    done(call)
    call.environment["SITUATION_BACK"] = "7200"
    return done(call)


SITUATIONS = {
    "as it is": as_it_is,
    "without torch": lacking("torch", "pytorch_lightning", "sentencepiece", "entmax"),
    "without W&B": lacking("wandb"),
    "output closed": closed_output,
    "80 columns": terminal(80),
    "60 columns": terminal(60),
    "disk full": full_disk(16 << 10),
    "disk nearly full": full_disk(3 << 19),
    "read-only": read_only,
    "no locks": without_locks,
    "TMPDIR of 99 bytes": long_temporary_folder,
    "little memory": little_memory,
    "killed at write 1": killed(1),
    "killed at write 2": killed(2),
    "killed at write 3": killed(3),
    "unreadable record": an_unreadable_record,
    "clock set back": a_clock_set_back,
}
CELLS = [(verb, situation) for verb in VERBS for situation in SITUATIONS]


def drawn():
    """Return the cells that are tried: all on request, else a tenth that the commit draws."""
    if os.environ.get("STUDY_MATRIX") == "all":
        return CELLS
    asked = subprocess.run(["git", "-C", HERE, "rev-parse", "HEAD"], capture_output=True, text=True)
    order = sorted(CELLS, key=lambda cell: hashlib.sha256(f"{asked.stdout} {cell}".encode()).digest())
    return order[: -(-len(order) // PARTS)]


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A folder as a user has it: a sweep with runs, published results, own runs with models, own text and own claims.

    Workers share it, because its two trainings take seconds.
    """
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "world"
    with files.locked(folder):
        if not (folder / "lab").exists():
            make(tmp_path_factory.mktemp("made"), folder / "lab")
    return folder / "lab"


def make(top, place):
    """Make the folder, and put it into its place when it is whole."""
    Lab(top)
    published = Lab(top).copy(top.with_name("published"))
    published.publish()
    again = [sys.executable, "-P", "-m", "study", "reproduce", "tables"]
    subprocess.run(again, cwd=published.top, check=False, capture_output=True)  # its tables are new, so it says 1
    published.committed()
    shutil.move(published.top, top / "published")
    sentences = [" ".join(list(WORDS)[(i * j) % 7] for j in range(1, 4 + i % 4)) for i in range(1, 60)]
    for split, part in {"train": sentences, "valid": sentences[:12], "test": sentences[12:30]}.items():
        rows = [f"{line}.\t{' '.join(WORDS[word] for word in line.split())}." for line in part]
        files.write(top / "text" / f"{split}.tsv", "\n".join(rows) + "\n")
    grid = {name: {"value": value} for name, value in TINY.items()}
    command = ["${env}", "${interpreter}", "-P", "-m", "study", "train", "--overrides-json", "${args_json}"]
    mini = {"name": "mini", "method": "grid", "metric": {"name": "test/bleu"}, "command": command}
    (top / "mini.yaml").write_text(yaml.safe_dump(mini | {"parameters": {"seed": {"values": [1, 2, 3]}, **grid}}))
    search = mini | {"name": "search", "metric": {"name": "valid/nll", "goal": "minimize"}}
    rates = {"training.learning_rate": {"values": [0.001]}}
    (top / "search.yaml").write_text(yaml.safe_dump(search | {"parameters": {**grid, **rates}}))
    (top / "claims.yaml").write_text(CLAIM)
    words = [
        sys.executable,
        "-P",
        "-m",
        "study",
        "sweep",
        "mini.yaml",
        "--runs",
        "own",
        "--seeds",
        "1,2",
        "--slots",
        "2",
    ]
    output_of(*words, cwd=top)
    shutil.move(top, place)


@pytest.fixture(scope="module")
def server():
    with Loopback() as running:
        yield running
        running.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "situation"), drawn(), ids=lambda part: part.replace(" ", "_"))
def test_a_verb_in_a_situation_is_done_or_says_one_line_and_does_it_later(
    verb, situation, world, server, tmp_path, record_property
):
    folder = tmp_path / "w"
    shutil.copytree(world, folder, symlinks=True)
    run, other = sorted(path.name for path in (folder / "own").glob("files-*"))[:2]
    names = {"run": f"own/{run}", "other": f"own/{other}"}
    call = Call(folder, [word.format(**names) if "{" in word else word for word in COMMANDS[verb]], server)
    record_property("outcome", SITUATIONS[situation](call, verb))


def test_every_verb_has_a_row():
    assert {*COMMANDS} == {*VERBS}
    assert len(drawn()) >= len(CELLS) / PARTS
