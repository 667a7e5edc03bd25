"""The generated blocks of README.md: the list of files with what each is for, and the table of a sweep.

`python -m study.publish.readme` writes the list of files; followed by `runs/report/quickstart`, also the table that a
report wrote there.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import yaml

from study.analysis.wording import NOTHING
from study.claims.claims_table import summaries
from study.claims.verdicts import Outcome
from study.corpora.catalogue import KINDS
from study.errors import InputError
from study.publish.store import Results
from study.records import write

ROOT = Path(__file__).parents[2]
WIDTH = 26


def main(argv: Sequence[str]) -> int:
    """Write the blocks; the exit status.

    Raises:
        InputError: no such table, or no such block in the README.
    """
    readme = ROOT / "README.md"
    lines = [line for folder in ("sweeps", "study") for line in files(ROOT / folder)]
    text = filled(readme.read_text(encoding="utf-8"), "files", "\n".join(["```", *lines, "```"]))
    for folder in map(Path, argv):
        try:
            table = (folder / "table.md").read_text(encoding="utf-8")
        except OSError as problem:
            raise InputError(f"{folder / 'table.md'}: {problem.strerror}; give a folder of `study report`") from None
        text = filled(text, f"table: {folder.name}", table)
    write(readme, text)
    return 0


def update(results: Path) -> list[Path]:
    """Write every block anew from published results: files, verdicts, root hash, tiers, and each table with a block."""
    readme = ROOT / "README.md"
    main([])
    text = filled(readme.read_text(encoding="utf-8"), "verdicts", _verdicts(results / "tables" / "claims.json"))
    text = filled(text, "root", f"Root hash: `{Results(results).root_hash}`")
    text = filled(text, "tiers", _tiers(results / "tables" / "study.json"))
    for path in sorted((results / "tables").glob("*.md")):
        if f"<!-- table: {path.stem} -->" in text:
            text = filled(text, f"table: {path.stem}", path.read_text(encoding="utf-8"))
    write(readme, text)
    return [readme]


def _verdicts(path: Path) -> str:
    """The verdicts in short: one line for each claim, corpus and family that has runs, and who has none."""
    rows = [row["cells"] for block in json.loads(path.read_text(encoding="utf-8"))["blocks"] for row in block["rows"]]
    lines = [
        "| # | claim | data and model | verdict | finding | contrast | estimate | 95% CI | 90% CI | margin | seeds |"
    ]
    lines.append("|--:|---|---|---|---|---|--:|--:|--:|--:|--:|")
    claim, waiting = "", []
    for cells in rows:
        claim, (verdict, *behind) = cells["claim"] or claim, cells["verdict"].split(": ")
        if verdict == "not yet run":
            waiting.append(cells["id"])
            continue
        bold = verdict if verdict == NOTHING else f"**{verdict}**"
        shown = [cells["id"], claim, cells["asked"], ": ".join([bold, *behind])]
        shown += [cells[name] for name in ("finding", "contrast", "estimate", "interval", "inner", "margin", "n")]
        lines.append("| " + " | ".join(shown) + " |")

    open_ = list(dict.fromkeys(waiting))
    said = f"\nNot yet run, in whole or in part: claim{'s' * (len(open_) > 1)} {', '.join(open_)}." if waiting else ""
    marks = (
        "\nDetectable: the smallest difference that these runs could show. † Standard deviations differ threefold, so "
        "the paired t decides. ‡ An arm collapsed, so Welch's t decides. § Arms are resampled. ¶ Student's t of "
        "differences within runs, or of ratios within processes. If a claim needs several contrasts, the row shows the "
        "weakest one, or the strongest if one is enough. "
        "[results/tables/claims.md](results/tables/claims.md) has the rules and the distance of every estimate to its "
        "margin, [results/tables/contrasts.md](results/tables/contrasts.md) every contrast."
    )
    whole = summaries(path.with_suffix(".csv"))
    ids = {verdict: [claim for claim, one in whole.items() if one == verdict] for verdict in get_args(Outcome)}
    told = "; ".join(f"**{verdict}**: {', '.join(some)}" for verdict, some in ids.items() if some)
    return "\n".join([*lines, f"\nClaims as a whole, mixed where their rows differ: {told}.", marks, said])


TIERS = {
    "quickstart": ("`quickstart`, the table above", "`make sweep`"),
    "embedded": ("what is published of the embedded tier, at five seeds", "`make embedded`"),
    "further": ("other sweeps on the embedded corpus", "`make sweep SWEEP=sweeps/…`"),
}
TIERS |= {
    kind.tier: (f"what has been run on {kind.title}", "`make sweep SWEEP=sweeps/…`")
    for kind in KINDS.values()
    if kind.tier != "embedded"
}


def _tiers(path: Path) -> str:
    """How long each tier took, on which hardware: every run has one core."""
    took = json.loads(path.read_text(encoding="utf-8"))["tiers"]
    lines = ["| what | command | runs | hours of one core | on |", "|---|---|--:|--:|---|"]
    for tier, (what, command) in TIERS.items():
        if tier in took:
            facts = took[tier]
            devices = ", ".join(facts["devices"])
            lines.append(f"| {what} | {command} | {facts['runs']} | {facts['hours']} | {devices} |")
    return "\n".join(lines)


def filled(text: str, name: str, content: str) -> str:
    """The text with `content` between `<!-- name -->` and `<!-- end -->`.

    Raises:
        InputError: there is no such block.
    """
    block = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not block.search(text):
        raise InputError(f"README.md has no block `<!-- {name} -->` … `<!-- end -->`; add one")
    return block.sub(lambda found: f"{found[1]}\n{content.strip()}\n\n{found[2]}", text)


def files(folder: Path, depth: int = 0) -> Iterator[str]:
    """One line a file: its name and the first sentence of what it says of itself. Packages come after modules."""
    package = folder / "__init__.py"
    yield _line(f"{folder.name}/", depth, _purpose(package) if package.exists() else "")
    inside = sorted(path for path in folder.iterdir() if path.name[0] not in "_." or path.stem == "__main__")
    for path in inside:
        if path.is_file():
            yield _line(path.name, depth + 1, _purpose(path))
    for path in inside:
        if path.is_dir():
            yield from files(path, depth + 1)


def _line(name: str, depth: int, purpose: str) -> str:
    return (f"{'  ' * depth}{name}".ljust(WIDTH) + f"  {purpose}").rstrip()


def _purpose(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".py":
            said = ast.get_docstring(ast.parse(text)) or ""
        case ".json":
            said = json.loads(text)["title"]
        case ".yaml":
            said = yaml.safe_load(text)["description"]
        case _:
            said = next(line for line in text.splitlines() if not line.startswith("#!")).lstrip("# ")
    sentence = re.split(r"(?<=[.?])\s(?=[A-Z`])", " ".join(said.split("\n\n")[0].split()))[0]
    return sentence.removesuffix(".")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except InputError as problem:
        print(f"study: {problem}", file=sys.stderr)
        sys.exit(2)
