"""Places of runs in sweeps: the sweeps that declare a run, and its arm in each. W&B shows them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from study import files
from study.config.words import label_words
from study.sweep.spec import Spec
from study.tracking.view import PLACES, Place


def places(specs: Iterable[Spec]) -> dict[str, Place]:
    """Return the place of each run that sweeps declare, by identity. The first sweep by name counts most."""
    by_id: dict[str, Place] = {}
    for spec in sorted(specs, key=lambda spec: (spec.name, str(spec.path)), reverse=True):
        for cell in spec.runnable:
            later = by_id.get(cell.id, Place())
            by_id[cell.id] = Place(
                sweep=tuple(dict.fromkeys((spec.name, *later.sweep))),
                tiers=tuple(dict.fromkeys((*spec.tags, *later.tiers))),
                question=spec.description,
                facet=_words(cell.facet),
                arm=_words(cell.arm),
                baseline=cell.arm == spec.baseline(cell.facet),
            )
    return by_id


def _words(label: str) -> str:
    return " · ".join(label_words(label))


def write(spec: Spec, out: Path) -> None:
    """Write the places of a sweep's runs into the folder of runs: see `add`."""
    add(places([spec]), out)


def add(declared: Mapping[str, Place], out: Path) -> None:
    """Add the places of runs to the file of a folder of runs, where live runs find them.

    Raises:
        InputError: the file of other sweeps that is there cannot be read.
        OSError: the folder cannot be written.
    """
    added = {identity: place.model_dump(mode="json") for identity, place in declared.items()}
    with files.locked(out):  # another sweep may add its own now
        files.clean(out)
        earlier = files.read_json(out / PLACES, below=out) if (out / PLACES).exists() else {}
        files.write(out / PLACES, json.dumps(earlier | added, ensure_ascii=False, indent=0) + "\n", durable=False)
