"""The file that `study translate` loads, and a look at the one that training resumes from."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from study.attention import Attention, Lengths
from study.config import Experiment, plugins, scientific
from study.errors import InputError
from study.models import Translator
from study.training.vocabulary import Vocabulary


def save_model(path: Path, experiment: Experiment, vocabulary: Vocabulary, lengths: Lengths, model: Translator) -> None:
    """The selected weights with all that is needed to translate with them."""
    temporary = path.with_suffix(".tmp")
    state = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    whole = {
        "config": experiment.model_dump(mode="json"),
        "mechanisms": list(plugins.sources(scientific(experiment).values()).values()),
        "vocabulary": vocabulary.state,
        "lengths": lengths._asdict(),
        "state": state,
    }
    if kept := cut(model):
        whole["kept"] = kept
    torch.save(whole, temporary)
    os.replace(temporary, path)


def cut(model: Translator) -> dict[str, list[int]]:
    """The heads that are left of each attention that has lost some, by its path in the model."""
    attentions = ((path, module) for path, module in model.named_modules() if isinstance(module, Attention))
    return {path: list(a.kept) for path, a in attentions if len(a.kept) < a.config.heads}


def check_resumable(path: Path, model: Translator) -> None:
    """Refuse a checkpoint, where there is one, that training could not go on from.

    Raises:
        InputError: it is damaged, or of another model.
    """
    if not path.exists():
        return
    try:
        kept = torch.load(path, map_location="cpu", weights_only=True)
        found = {name: tensor.shape for name, tensor in kept["state_dict"].items()}
        fits = found == {f"model.{name}": tensor.shape for name, tensor in model.state_dict().items()}
        fits = fits and {"study", "optimizer_states", "loops", "global_step"} <= kept.keys()
    except Exception:  # What a damaged file can raise has no end.
        raise InputError(f"{path}: cannot be read; remove it to start again") from None
    if not fits:
        raise InputError(f"{path}: is of another version of this model; remove it to start again")
