"""Run cases of bad input, each in a forked process with limits: `python tests/bad_input.py [COUNT [I/N [NAME]]]`.

It prints counts, and each case that ends in another way than one line with a status. COUNT: a sample of so many, the
same each time. I/N: part I of N of them, so that N processes share them. NAME: only cases whose names have it.
Training is left out: a run that would begin ends there.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).with_name("support")), str(Path(__file__).parents[1])]

os.environ |= {"WANDB_MODE": "disabled", "OMP_NUM_THREADS": "1", "WANDB_SILENT": "true"}

from bad_cases import Case, cases, workplace  # noqa: E402

from study.__main__ import BROKEN, main  # noqa: E402

LIMIT = 20.0
"""Seconds for a case."""
MEMORY = 12 * 2**30


def ended(case: Case, template: Path, folder: Path) -> tuple[str, int | None, str]:
    """Outcome of a case (`fine`, `hang`, …), its status and its standard error."""
    shutil.copytree(template, folder, symlinks=True)
    case.change(folder)
    there = set(folder.rglob("*"))
    child = os.fork()
    if child == 0:
        _run(case, folder)
    deadline = time.monotonic() + LIMIT
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hang", None, ""
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(found[1])
    told = Path(f"{folder}.err").read_text(errors="replace") if Path(f"{folder}.err").exists() else ""
    new = set(folder.rglob("*")) - there
    left = {path.name for path in new if not {"cache", ".cache", "attention-ablation"} & set(path.parts)}
    return _judge(case, code, told, left), code, told


def _run(case: Case, folder: Path) -> None:
    try:
        os.chdir(folder)
        for number, name in ((1, "out"), (2, "err")):
            target = os.open(f"{folder}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(target, number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        os.environ |= {"XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)}
        for name, value in case.environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        code = main(list(case.argv))
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        import traceback

        traceback.print_exc()
        code = BROKEN
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def _judge(case: Case, code: int, told: str, left: set[str]) -> str:
    last = told.splitlines()[-1:]
    if code == BROKEN or "Traceback" in told or "Exception ignored" in told:
        return "traceback"
    if code not in (0, 1, 2, 74, 143):
        return "odd status"
    if code == 2 and not (last and last[0].startswith("study: ")):
        return "not one line"
    if case.refused and code != 2:
        return "accepted"
    if code == 2 and left:
        return f"left behind: {', '.join(sorted(left)[:3])}"
    return "fine"


def _no_training() -> None:
    """Whatever would be trained is prepared, and no more."""
    from study import records
    from study.errors import InputError
    from study.training import run as training

    class Prepared(training.Run):
        def record(self) -> records.Record:
            raise InputError("prepared")

    training.Run = Prepared  # type: ignore[misc]


def run_all(count: str = "100000", part: str = "1/1", only: str = "") -> int:
    """Run a sample of the cases and print what was found; the exit status."""
    import torch  # noqa: F401
    import wandb  # noqa: F401

    import study.pruning.run  # noqa: F401

    top = Path(tempfile.mkdtemp(prefix="bad-input-"))
    template = top / "template"
    template.mkdir()
    os.environ["XDG_CACHE_HOME"] = str(template / "cache")
    run = workplace(template)
    _no_training()
    counts: Counter[str] = Counter()
    statuses: Counter[int | None] = Counter()
    began = time.monotonic()
    chosen = [case for case in cases(run) if only in case.name]
    first, parts = map(int, part.split("/"))
    for case in random.Random(1).sample(chosen, min(int(count), len(chosen)))[first - 1 :: parts]:
        folder = top / "case"
        how, code, told = ended(case, template, folder)
        counts[how.partition(":")[0]] += 1
        statuses[code] += 1
        if how != "fine":
            last = (told.strip().splitlines() or [""])[-1]
            print(f"{how}: {case.name}  [{code}] {last[:200]}", flush=True)
        if sum(counts.values()) % 100 == 0:
            print(f"{sum(counts.values())} cases: {dict(counts)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        for path in top.glob("case.*"):
            path.unlink()
    print(f"{sum(counts.values())} cases in {time.monotonic() - began:.0f} s: {dict(counts)}, status {dict(statuses)}")
    shutil.rmtree(top, ignore_errors=True)
    return int(set(counts) != {"fine"})


if __name__ == "__main__":
    sys.exit(run_all(*sys.argv[1:]))
