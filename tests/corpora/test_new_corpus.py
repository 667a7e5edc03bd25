"""The module of the guide adds a corpus with one more line, and nothing about it fails silently."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from processes import output_of

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/adding-a-corpus.md").read_text(encoding="utf-8")
SWEEP = """name: own
method: grid
metric: {name: idioms/exact}
parameters:
  data.name: {value: tatoeba}
  model.width: {value: 8}
  training.steps: {value: 1}
  decoding.beam: {value: 1}
  trainer.device: {value: cpu}
  seed: {values: [1]}
"""
CHECKS = """
import os
from pathlib import Path

from study.scores import metrics
from study.__main__ import main
from study.config import experiment_from, experiment_id
from study.errors import InputError
from study.sweep.spec import load
from study.training.run import run

data = experiment_from({"data.name": "tatoeba"}).data
assert experiment_id(experiment_from({"data.name": "tatoeba"})).startswith("tatoeba-recurrent-dot-")
assert "idioms/bleu" in metrics.names(data) and "idioms/aer" not in metrics.names(data)
assert data.tier == "tatoeba"
assert not data.at_hand(), "verify reads nothing that is not at hand"
os.environ["STUDY_TATOEBA"] = "text"
assert len(data.read().splits["idioms"]) == 30
spec = load(Path("own.yaml"))
for cell in spec.runnable:
    run(cell.experiment, Path("runs") / cell.id, lambda line: None)
assert main(["report", "own.yaml", "--runs", "runs"]) == 0
head = next(line for line in Path("runs/report/own/table.md").read_text().splitlines() if line.startswith("| arm"))
assert "| BLEU |" in head, head
assert main(["ls", "corpora"]) == 0
try:
    experiment_from({"data.name": "tatoeba", "data.tokens": "subwords"})
except InputError as problem:
    assert str(problem).startswith("data.tokens: expected 'words'"), problem
"""


@pytest.mark.slow
def test_the_module_of_the_guide_and_one_line_add_a_whole_corpus(tmp_path):
    (module,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    half_written = shutil.ignore_patterns("*.pyc.*")  # by other workers; what is compiled need not be compiled again
    shutil.copytree(ROOT / "study", tmp_path / "study", ignore=half_written)
    (tmp_path / "study/corpora/tatoeba.py").write_text(module, encoding="utf-8")
    catalogue = tmp_path / "study/corpora/catalogue.py"
    text = catalogue.read_text(encoding="utf-8")
    assert text.count("Grammar | ") == 1
    line = "from study.corpora.tatoeba import Tatoeba\n\nData = "
    catalogue.write_text(
        text.replace("Grammar | ", "Grammar | Tatoeba | ").replace("\nData = ", line, 1), encoding="utf-8"
    )
    (tmp_path / "text").mkdir()
    for split in ("train", "valid", "test", "idioms"):
        for end, words in (("de", "ein zwei drei vier"), ("en", "one two three four")):
            (tmp_path / "text" / f"{split}.{end}").write_text(f"{words}\n" * 30)
    (tmp_path / "own.yaml").write_text(SWEEP)
    assert "tatoeba" in output_of(sys.executable, "-c", CHECKS, cwd=tmp_path, PYTHONPATH=str(tmp_path))
