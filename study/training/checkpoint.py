"""The file that `study translate` loads: the selected weights with their configuration and vocabulary."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from study.attention import Lengths
from study.config import Experiment
from study.models import Translator
from study.training.vocabulary import Vocabulary


def save_model(path: Path, experiment: Experiment, vocabulary: Vocabulary, lengths: Lengths, model: Translator) -> None:
    """The selected weights with all that is needed to translate with them."""
    temporary = path.with_suffix(".tmp")
    state = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    whole = {
        "config": experiment.model_dump(mode="json"),
        "vocabulary": vocabulary.state,
        "lengths": lengths._asdict(),
        "state": state,
    }
    torch.save(whole, temporary)
    os.replace(temporary, path)
