"""The file that `study translate` loads, and a look at the one that training resumes from."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from study import files
from study.attention import Lengths, MultiHeadAttention
from study.config import Experiment, plugins, scientific
from study.errors import InputError
from study.models import Translator
from study.store.records import Call
from study.training.vocabulary import Vocabulary


def save_model(path: Path, experiment: Experiment, vocabulary: Vocabulary, lengths: Lengths, model: Translator) -> None:
    """The selected weights with all that is needed to translate with them."""
    state = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    whole = {
        "config": experiment.model_dump(mode="json"),
        "mechanisms": [plugin.text for plugin in plugins.among(scientific(experiment).values())],
        "vocabulary": vocabulary.state,
        "lengths": lengths._asdict(),
        "state": state,
    }
    if kept := cut(model):
        whole["kept"] = kept
    with files.replacing(path) as temporary, temporary.open("wb") as file:
        torch.save(whole, file)  # a file, because torch would write the name of a path into it


def cut(model: Translator) -> dict[str, list[int]]:
    """The heads that are left of each attention that has lost some, by its path in the model."""
    attentions = ((path, module) for path, module in model.named_modules() if isinstance(module, MultiHeadAttention))
    return {path: list(a.kept) for path, a in attentions if len(a.kept) < a.config.heads}


def cut_to(model: Translator, kept: Mapping[str, Sequence[int]]) -> None:
    """Leave to the attentions named by their paths in the model these of their heads, as a smaller checkpoint says."""
    for path, heads in kept.items():
        attention = model.get_submodule(path)
        assert isinstance(attention, MultiHeadAttention)
        model.set_submodule(path, attention.reduced([attention.kept.index(head) for head in heads]))


def resumable(path: Path, model: Translator) -> tuple[int, list[Call]]:
    """Return the step that training goes on from, and the calls that made it: 0 and none without a checkpoint.

    Raises:
        InputError: it is damaged, or of another model.
    """
    if not path.exists():
        return 0, []
    try:
        kept = load(path)
        found = {name: tensor.shape for name, tensor in kept["state_dict"].items()}
        if found != {f"model.{name}": tensor.shape for name, tensor in model.state_dict().items()}:
            raise InputError("another model's")
        return kept["global_step"], [Call.model_validate(call) for call in kept["study"]["calls"]]
    except Exception as problem:  # What a damaged file can raise has no end.
        got = problem if isinstance(problem, InputError) else "a damaged file"
        raise InputError(f"{path}: expected a checkpoint of this model, got {got}. Remove it to start again.") from None


def load(path: Path | io.BytesIO) -> dict[str, Any]:
    """Load a file, or its content, that `torch.save` wrote. Nothing in it is run, and its bytes are checked first.

    Raises:
        InputError: bytes have changed since it was written.
        Exception: it is no such file; what torch raises has no end.
    """
    with zipfile.ZipFile(path) as archive:
        if (damaged := archive.testzip()) is not None:
            raise InputError(f"a damaged part, {damaged}")
    if isinstance(path, io.BytesIO):
        path.seek(0)
    whole: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return whole
