"""Steps that compute everything from `results/`, in order, and a comparison with git.

A step takes the published inputs and returns the files that it wrote; `STEPS` is the list. Records are read once, and
verdicts are computed once. A step writes the same bytes from the same input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

from study.analysis.runs import Runs
from study.claims import costs, forest, matrix, schema, table
from study.claims.evaluate import evaluate
from study.claims.verdicts import Verdict
from study.errors import INSTALL, InputError
from study.files import CHECKOUT
from study.publish import dictionary, noise, paper, readme, supplement
from study.publish.publish import Checkout
from study.publish.report import write_comparison
from study.publish.results import Results

OUTPUTS = ("results", "paper", "README.md", "docs")
"""Generated files and folders that are committed."""
DRAWN = re.compile(r"\.(svg|pdf)$")
"""Bytes of these depend on the version of matplotlib."""

LISTED = 20
"""So many differences are listed, the rest counted."""


@dataclass(frozen=True)
class Inputs:
    """The published results, their runs and the verdicts on all claims, each read or computed once."""

    results: Results

    @cached_property
    def runs(self) -> Runs:
        """The published runs."""
        return Runs(self.results.root, CHECKOUT / "sweeps")

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """The verdicts on the claims of this study."""
        return evaluate(schema.read_all(), self.runs, costs.read(self.results.benchmarks), by_score=True)


def test_set_noise(inputs: Inputs) -> list[Path]:
    """Write the tests over sentences, before the verdicts that print them."""
    found = evaluate(schema.read_all(), inputs.runs, costs.read(inputs.results.benchmarks))
    return noise.write(inputs.results, found)


def tables_and_figures(inputs: Inputs) -> list[Path]:
    """Write the comparison of every published sweep."""
    manifests = inputs.results.manifests.values()
    return [path for manifest in manifests for path in write_comparison(inputs.results, manifest, inputs.runs)[1]]


def figures(inputs: Inputs) -> list[Path]:
    """Draw the named figures of published sweeps, as SVG with their data."""
    from study.analysis.figures.catalogue import chosen, draw_all

    results = inputs.results
    published = (replace(f, sweeps=tuple(s for s in f.sweeps if s in results.manifests)) for f in chosen([]))
    drawn = draw_all([f for f in published if f.sweeps], inputs.runs, results.root / "figures", png=False)
    return [path for one in drawn for path in one.paths]


def verdicts(inputs: Inputs) -> list[Path]:
    """Write the verdicts: `tables/claims.*`, `contrasts.*`, `matrix.*`, `summary.*`, and the forest plot."""
    root, found = inputs.results.root, inputs.verdicts
    tables = [*table.write(found, root / "tables"), *matrix.table(found).write(root / "tables", "matrix")]
    return [*tables, *forest.write(found, root)]


def agreements(inputs: Inputs) -> list[Path]:
    """Write the effects of each pair of published sweeps and their rank correlations."""
    from study.analysis import agreement

    published = [name for name, pair in agreement.PAIRS.items() if set(pair) <= set(inputs.results.manifests)]
    tables = [table for name in published for table in agreement.compare(inputs.runs, name).items()]
    return [path for stem, table in tables for path in table.write(inputs.results.root / "tables", stem)]


def blocks(inputs: Inputs) -> list[Path]:
    """Write the generated parts of README.md and docs/ if the results are those of the repository."""
    root = inputs.results.root
    return readme.update(inputs.results, inputs.runs, inputs.verdicts) if root.resolve().parent == CHECKOUT else []


STEPS: dict[str, Callable[[Inputs], list[Path]]] = {
    "subsets": lambda inputs: supplement.write(inputs.results),  # first, because the runs are read with them
    "tables": tables_and_figures,
    "figures": figures,
    "noise": test_set_noise,
    "verdicts": verdicts,
    "agreement": agreements,
    "dictionary": lambda inputs: dictionary.write_index(inputs.results, inputs.runs),
    "paper": lambda inputs: [
        *paper.write_data(inputs.results, inputs.runs, inputs.verdicts),
        *paper.build(inputs.results),
    ],
    "readme": blocks,
}


def reproduce(results: Results, say: Callable[[str], None] = print, steps: Sequence[str] = ()) -> bool:
    """Run the steps (all, in order), then compare with git; whether nothing differs (or there is no git to ask).

    Raises:
        InputError: an unknown step, a published file that cannot be used, or a folder that cannot be written.
    """
    for step in steps:
        if step not in STEPS:
            raise InputError(f"STEP: expected {', '.join(STEPS)}, got {step}.")
    if not results.manifests:
        raise InputError(
            f"{results.root / 'sweeps'}: expected published sweeps, got none. Publish one with `study publish SWEEP`."
        )
    inputs = Inputs(results)
    for name, make in STEPS.items():
        if steps and name not in steps:
            continue
        try:
            paths = make(inputs)
        except OSError as problem:
            raise InputError(
                f"{problem.filename}: cannot be written ({problem.strerror}). Check the file and your rights."
            ) from None
        except ModuleNotFoundError as missing:
            if missing.name != "typst":
                raise
            say(f"{name}: tables are written, the PDF is not, because typst is not installed. " + INSTALL.format(name))
            continue
        say(f"{name}: {len(paths)} {'file' if len(paths) == 1 else 'files'}")
    return _unchanged(results, say)


def _unchanged(results: Results, say: Callable[[str], None]) -> bool:
    try:
        checkout = Checkout(results.root)
    except InputError:
        say("not in a git checkout, so there is nothing to compare with")
        return True
    changed = checkout.changed([str(results.root.resolve()), *OUTPUTS[1:]])
    drawn = [line for line in changed if DRAWN.search(line)]
    if drawn and (other := _other_matplotlib()):
        say(f"figures not compared, {len(drawn)} differ: {other}")
        changed = [line for line in changed if line not in drawn]
    for line in changed[:LISTED]:
        say(f"differs from what is committed: {line}")
    if len(changed) > LISTED:
        say(f"and {len(changed) - LISTED} more")
    if not changed:
        say("nothing differs from what is committed")
    return not changed


def _other_matplotlib() -> str:
    """Describe a matplotlib other than the locked one; empty if the versions agree or there is no lock."""
    try:
        lock = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8")
    except OSError:
        return ""
    locked = re.search(r"^matplotlib==(\S+)$", lock, re.MULTILINE)
    here = version("matplotlib")
    return f"matplotlib {here} here, {locked[1]} locked" if locked and locked[1] != here else ""
