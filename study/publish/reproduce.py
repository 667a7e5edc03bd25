"""Steps that compute everything from the published runs, in order, and a comparison with git.

A step takes the published inputs and returns the files that it wrote; `STEPS` is the list. Runs are read once, and
verdicts are computed once. A step writes the same bytes from the same input.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from study import files
from study.analysis.report import compared
from study.analysis.runs import Runs
from study.analysis.tables import as_csv
from study.claims import predictions, schema, table
from study.claims.evaluate import evaluate
from study.claims.multiverse import multiverse
from study.claims.sentences import SentenceNoises
from study.claims.verdicts import Finding
from study.errors import InputError
from study.folders import SWEEPS
from study.publish import pages as documents
from study.publish import paper
from study.publish.checkout import Checkout
from study.store.manifest import GENERATED, PRINTED, Results, hashes, shipped

OUTPUTS = ("paper", "README.md", "docs")
"""Files and folders beside the results that have generated parts."""


@dataclass(frozen=True)
class Inputs:
    """The published results, their runs and the verdicts on all claims, each read or computed once."""

    results: Results

    @cached_property
    def runs(self) -> Runs:
        """The published runs."""
        return Runs(self.results.root, SWEEPS)

    @cached_property
    def noises(self) -> SentenceNoises:
        """Noise of the test sentences."""
        return SentenceNoises(self.results.store)

    @cached_property
    def verdicts(self) -> list[Finding]:
        """The findings behind the verdicts on the claims of this study."""
        return evaluate([schema.read(schema.HERE)], self.runs, noises=self.noises)


def tables(inputs: Inputs) -> list[Path]:
    """Write the comparison of every published sweep, the verdicts, and the rank correlations of pairs of sweeps."""
    from study.analysis import agreement, costs, scales

    results, runs = inputs.results, inputs.runs
    folder = results.root / "tables"
    formatted = {name: compared(runs.spec(str(results.file(name))), runs).table for name in results.manifests}
    for name, pair in agreement.PAIRS.items():
        if results.manifests.keys() >= set(pair):
            formatted |= agreement.compare(runs, name)
    further = {"scales": scales.rates_table(runs), "shares": scales.shares_table(runs), "gains": agreement.gains(runs)}
    if measured := costs.compare(results.root):
        further["costs"] = measured
    formatted |= {name: comparison for name, comparison in further.items() if comparison.rows}
    paths = []
    for name, comparison in formatted.items():
        paths += comparison.write(folder, name)
    frames = {
        "contrasts": table.contrasts(inputs.verdicts),
        "summary": table.summary(inputs.verdicts),
        "tested_updates": table.tested_updates(inputs.verdicts, runs),
        "multiverse": table.multiverse(multiverse(inputs.verdicts, schema.read(schema.HERE), runs, inputs.noises)),
    }
    for end, predicted in predictions.read().items():
        if results.manifests.keys() >= set(predicted.sweeps):
            frames |= {f"{name}{end}": frame for name, frame in predictions.compare(runs, predicted).items()}
    for name, frame in frames.items():
        path = folder / f"{name}.csv"
        files.write(path, as_csv(frame))
        paths.append(path)
    return [*paths, inputs.noises.write()]


def figures(inputs: Inputs) -> list[Path]:
    """Draw the named figures, as SVG with data."""
    from study.analysis.figures.catalogue import draw_all

    return [path for _, paths in draw_all(inputs.runs, inputs.results.root / "figures") for path in paths]


STEPS: dict[str, Callable[[Inputs], list[Path]]] = {
    "tables": tables,
    "figures": figures,
    "readme": lambda inputs: documents.update(inputs.results, inputs.results.store.runs),
    "paper": lambda inputs: paper.build(inputs.results, inputs.runs),  # last, because it prints the root hash
}


def reproduce(results: Results, say: Callable[[str], None] = print, steps: Sequence[str] = ()) -> bool:
    """Run the steps (all, in order), then compare with git; whether nothing differs (or there is no git to ask).

    Raises:
        InputError: an unknown step, or a published file that cannot be used.
        ModuleNotFoundError: typst is not installed.
        OSError: a file cannot be written.
    """
    if unknown := set(steps) - STEPS.keys():
        raise InputError(f"STEP: expected {', '.join(STEPS)}, got {', '.join(unknown)}.")
    if not results.manifests:
        raise InputError(
            f"{results.root}: expected published sweeps, got none. Publish one with `study publish SWEEP`."
        )
    inputs = Inputs(results)
    top = results.root.resolve().parent
    files.clean(*(results.root / name for name in ("", "tables", "figures")), top, top / "docs", top / "paper")
    for name, step in STEPS.items():
        if name in (steps or STEPS):
            paths = step(inputs)
            seal(results, paths)
            say(f"{name}: {len(paths)} {'file' if len(paths) == 1 else 'files'}")
    return _unchanged(results, say)


def seal(results: Results, written: Sequence[Path]) -> None:
    """Write the SHA-256 of generated files into the manifest, and its root hash into the README beside the folder.

    Those of other files stay: what was changed by hand is still found.
    """
    root = results.root.resolve()
    manifest, now = Results(results.root).manifest, hashes(results.root)
    sealed: dict[str, str] = {}
    for name, digest in manifest.files.items():
        if name in now or not name.startswith(GENERATED):
            sealed[name] = digest
    for path in written:
        name = os.path.relpath(path.resolve(), root)
        if name in now:
            sealed[name] = now[name]
    manifest.model_copy(update={"files": sealed}).write(results.root)
    if results.printed_hash not in (None, results.root_hash):
        readme = root.parent / "README.md"
        files.write(readme, PRINTED.sub(rf"\g<1>{results.root_hash}`", files.read_text(readme)))


def _unchanged(results: Results, say: Callable[[str], None]) -> bool:
    """Compare with git, or outside a checkout with what this version has published."""
    try:
        changed, what = Checkout(results.root).changed([str(results.root.resolve()), *OUTPUTS]), "committed"
    except InputError:
        now, published = Results(results.root).manifest, shipped()
        if now.sweeps != published.sweeps:
            say("not in a git checkout, so there is nothing to compare with")
            return True
        differing = now.files.items() ^ published.files.items()
        changed, what = sorted({name for name, _ in differing}), "published"
    for line in changed:
        say(f"differs from what is {what}: {line}")
    if not changed:
        say(f"nothing differs from what is {what}")
    return not changed
