"""The machine as a run uses it (device, threads, memory), and the provenance of a run's numbers.

Provenance is device, commit and versions. It has no user, path or host name.
"""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from study.config import Experiment
from study.corpora import Corpus
from study.errors import InputError
from study.files import CHECKOUT
from study.records import Call, DataFacts, Provenance
from study.training.checkpoint import Kept
from study.training.vocabulary import Vocabulary

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def device_for(experiment: Experiment) -> torch.device:
    """The device that the trainer section asks for.

    Raises:
        InputError: it asks for what the machine does not have.
    """
    cuda = torch.cuda.is_available()
    wanted = experiment.trainer.device
    if wanted == "cuda" and not cuda:
        raise InputError("trainer.device: expected cpu or auto on a machine without a GPU, got cuda.")
    device = torch.device("cuda" if cuda and wanted != "cpu" else "cpu")
    _check_count(experiment.trainer.devices, torch.cuda.device_count() if cuda and wanted != "cpu" else 0, wanted)
    if experiment.training.precision == "bfloat16" and not (device.type == "cuda" and torch.cuda.is_bf16_supported()):
        raise InputError("training.precision: expected float32 on a machine without a GPU for bfloat16, got bfloat16.")
    return device


def _check_count(devices: int, gpus: int, wanted: str) -> None:
    if 1 < devices > gpus and wanted != "cpu":
        raise InputError(
            f"trainer.devices: expected at most {max(gpus, 1)} (GPUs of this machine: {gpus}), got {devices}. "
            f"Use {gpus or 1}{' or fewer' * (gpus > 1)}, or as many processes on the CPU with trainer.device cpu."
        )


def peak_memory(device: torch.device) -> int:
    """Bytes: of this process's GPU where there is one, else the largest resident set of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    import resource  # here, since only Unix has it

    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024  # macOS counts bytes, Linux kibibytes


def keep_memory() -> None:
    """Make glibc's allocator serve every block from the heap, and never give the heap back. Without glibc, nothing.

    A training step frees and takes the same hundreds of megabytes. By default every block above 32 MB is mapped,
    zeroed page by page and unmapped again at each use, which cost a third of a step with a vocabulary of 8,000
    (`benchmarks/`).
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    except (OSError, AttributeError):
        pass


PACKAGES = ("attention-ablation", "numpy", "pytorch-lightning", "sacrebleu", "sentencepiece", "torch", "wandb")


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
    if not (CHECKOUT / ".git").exists():
        return None, None
    try:
        commit = _run("rev-parse", "HEAD")
        return commit, bool(_run("status", "--porcelain", "--", "study", "sweeps", "requirements.lock"))
    except (OSError, subprocess.CalledProcessError):
        return None, None


def _run(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout.strip()
