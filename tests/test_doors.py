"""Import directions between packages, and the modules that may import torch and wandb."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = {path.relative_to(ROOT).with_suffix(""): path for path in sorted((ROOT / "study").rglob("*.py"))}
DOORS = {  # all may import files, which helps to read and write
    "errors": "",
    "files": "errors",
    "folders": "errors",
    "processes": "",
    "schema": "",
    "attention_map": "",
    "lettering": "",
    "corpora": "schema errors",
    "config": "corpora schema errors",
    "scores": "corpora schema errors",
    "sweep": "scores config errors",
    "store": "sweep scores folders config schema errors",
    # The tower of those who read records
    "analysis": "attention_map lettering scores sweep store folders corpora config schema errors",
    "claims": "analysis scores sweep store folders corpora config schema errors",
    "publish": "claims analysis scores sweep store folders processes corpora config schema errors",
    # The tower of those who make them
    "attention": "config errors",
    "models": "attention config errors",
    "tracking": "attention_map lettering config store scores corpora schema errors",
    "training": "attention_map tracking models attention config store scores folders processes corpora errors",
    "pruning": "training models attention config store scores corpora errors",
    "engine": "pruning tracking sweep scores store processes config folders errors",  # pruning by name
    # Those who stand on both
    "api": "engine training models publish claims analysis sweep store scores folders processes attention_map "
    "config errors",
    "commands": "api engine pruning training models attention tracking publish claims analysis sweep store scores "
    "folders processes attention_map corpora config errors",
    "__main__": "commands processes config errors",
}
WITH_TORCH = ("attention", "models", "training", "pruning")
WANDB = ("study/tracking/tracker", "study/engine/wandb_agents", "study/config/account", "study/tracking/push")
LIGHT = [str(file).replace("/", ".") for file in FILES if file.parts[1] not in WITH_TORCH and str(file) != WANDB[1]]
"""Modules that import neither torch nor W&B: `test_api` imports them."""


@cache
def nodes_of(path):
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imports(path):
    """Every module that a file names, `from study import x` as study.x."""
    nodes = nodes_of(path)
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    of = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    assert not any(node.level for node in of), f"{path}: write imports in full"
    return plain | {f"{node.module}.{alias.name}" for node in of for alias in node.names}


def test_a_room_imports_only_what_its_doors_open_to():
    for file, path in FILES.items():
        if file.parts[1] != "__init__":
            rooms = {name.split(".")[1] for name in imports(path) if name.startswith("study.")}
            known = {file.parts[1], "__version__", "files", *DOORS[file.parts[1]].split()}
            strange = rooms - known
            assert not strange, f"{file} imports {strange}"


def test_no_modules_import_each_other():
    """Modules that import nothing, or that nothing imports, are taken off until only cycles are left."""
    names = {str(file).replace("/", ".").removesuffix(".__init__"): path for file, path in FILES.items()}
    left = {}
    for name, path in names.items():
        found = {one if one in names else one.rpartition(".")[0] for one in imports(path)}
        left[name] = (found & names.keys()) - {name}
    loose = set(left)
    while loose:
        wanted = set().union(*left.values())
        loose = {name for name, needs in left.items() if not needs & left.keys() or name not in wanted}
        left = {name: needs for name, needs in left.items() if name not in loose}
    assert not left, f"cycles of imports: {', '.join(left)}"


def test_wandb_is_imported_in_five_files():
    users = {str(file) for file, path in FILES.items() if any(n.split(".")[0] == "wandb" for n in imports(path))}
    assert users == set(WANDB)


def test_analysis_and_claims_read_records_in_one_module():
    call = re.compile(r"\b(records\.read|Store)\(")
    readers = {str(file) for file, path in FILES.items() if call.search(path.read_text(encoding="utf-8"))}
    assert {name for name in readers if name.split("/")[1] in ("analysis", "claims")} == {"study/analysis/runs"}


def test_verbs_that_print_one_answer_load_neither_pandas_nor_sacrebleu(tmp_path):
    """Both take longer to import than the answer takes."""
    for words in (["claims", "4"], ["show", "quickstart/1"]):
        command = [sys.executable, "-P", "-X", "importtime", "-m", "study", *words]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in ended.stderr.splitlines()}
        assert "pyarrow" in loaded, words
        assert not loaded & {"pandas", "sacrebleu"}, words
