"""Which room may import which, and who may import torch and wandb (W&B)."""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = {path.relative_to(ROOT).with_suffix(""): path for path in sorted((ROOT / "study").rglob("*.py"))}
DOORS = {  # all may import files, which helps to read and write
    "errors": "",
    "files": "errors",
    "config": "errors",
    "corpora": "config errors",
    "records": "errors",
    "store": "records errors",
    "scoring": "corpora records errors",
    "sweep": "config records errors pruning",  # pruning by name, when a trial starts
    "analysis": "sweep store records scoring corpora config errors",
    "claims": "analysis sweep store records scoring corpora config errors",
    "publish": "claims analysis sweep store records scoring corpora config errors",
    "attention": "config errors",
    "models": "attention config errors",
    "training": "models attention config records scoring corpora errors",
    "pruning": "training models attention config records scoring corpora errors",
    "commands": "pruning training models attention sweep publish claims analysis store records scoring corpora config errors",
    "__main__": "commands errors",
}
REMAIN = {"study/analysis/frame": {"publish"}, "study/claims/costs": {"publish"}}  # readers of files of `results/`
WITH_TORCH = ("attention", "models", "training", "pruning")
WANDB = ("study/training/tracking", "study/sweep/agents")
BLOCKED = """
import importlib, sys
sys.modules.update(dict.fromkeys(("torch", "wandb", "pytorch_lightning", "sentencepiece")))
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def imports(path: Path) -> set[str]:
    """Every module that a file names, `from study import x` as study.x."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    of = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    assert not any(node.level for node in of), f"{path}: write imports in full"
    return plain | {f"{node.module}.{alias.name}" for node in of for alias in node.names}


def test_a_room_imports_only_what_its_doors_open_to() -> None:
    for file, path in FILES.items():
        if file.parts[1] != "__init__":
            rooms = {name.split(".")[1] for name in imports(path) if name.startswith("study.")}
            known = {file.parts[1], "__version__", "files", *DOORS[file.parts[1]].split()} | REMAIN.get(
                str(file), set()
            )
            strange = rooms - known
            assert not strange, f"{file} imports {strange}"


def test_wandb_is_imported_in_two_files() -> None:
    users = {str(file) for file, path in FILES.items() if any(n.split(".")[0] == "wandb" for n in imports(path))}
    assert users <= set(WANDB)


def test_reports_need_neither_torch_nor_wandb() -> None:
    light = [str(f).replace("/", ".") for f in FILES if f.parts[1] not in WITH_TORCH and str(f) not in WANDB]
    subprocess.run([sys.executable, "-c", BLOCKED, *light], check=True, cwd=ROOT)
