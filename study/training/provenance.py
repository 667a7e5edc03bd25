"""Provenance of a run's numbers: device, commit, versions. No user, path or host name."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from study.corpora import Corpus
from study.records import Call, DataFacts, Provenance
from study.training.checkpoint import Kept
from study.training.vocabulary import Vocabulary

PACKAGES = ("attention-ablation", "numpy", "pytorch-lightning", "sacrebleu", "sentencepiece", "torch", "wandb")
ROOT = Path(__file__).parents[2]


def provenance(device: torch.device, devices: int, precision: str) -> Provenance:
    """The facts of this process, one of `devices`."""
    commit, dirty = _git()
    return Provenance(
        git_commit=commit,
        git_dirty=dirty,
        python=platform.python_version(),
        packages={name: found for name in PACKAGES if (found := _version(name))},
        device=torch.cuda.get_device_name() if device.type == "cuda" else _cpu(),
        device_count=devices,
        threads=torch.get_num_threads(),
        precision=precision,
        deterministic=device.type == "cpu" and torch.get_num_threads() == 1,
        started_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def data_facts(corpus: Corpus, vocabulary: Vocabulary) -> DataFacts:
    """Return the record's section on the data."""
    return DataFacts(
        name=corpus.name,
        version=corpus.version,
        source=corpus.languages[0],
        target=corpus.languages[1],
        files=corpus.files,
        subwords=vocabulary.sha256,
    )


def continued(made: Provenance, kept: Kept | None) -> tuple[list[Call], Provenance]:
    """The calls that make a run, this one last, and its provenance, which holds them if they differ.

    Args:
        made: the facts of this call.
        kept: what earlier calls have left; None if this one begins the run.
    """
    facts = made.model_dump(include=set(Call.model_fields))
    own = Call.model_validate({**facts, "from_step": kept.step if kept else 0})
    calls = list(kept.calls) if kept else []
    if not calls or calls[-1].model_copy(update={"from_step": own.from_step}) != own:
        calls.append(own)
    if len(calls) == 1 and calls[0].from_step == 0:
        return calls, made
    dirty = {call.git_dirty for call in calls}
    alike = len({(call.device, call.device_count, call.threads) for call in calls}) == 1
    several = {
        "calls": calls,
        "git_dirty": True if True in dirty else None if None in dirty else False,
        "deterministic": made.deterministic and alike,
    }
    return calls, made.model_copy(update=several)


def _version(name: str) -> str | None:
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _git() -> tuple[str | None, bool | None]:
    """The commit, and whether what decides numbers (code, sweeps, lock) differs from it; None outside a checkout."""
    if not (ROOT / ".git").exists():
        return None, None
    try:
        commit = _run("rev-parse", "HEAD")
        return commit, bool(_run("status", "--porcelain", "--", "study", "sweeps", "requirements.lock"))
    except (OSError, subprocess.CalledProcessError):
        return None, None


def _run(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
