"""The small models of tests/models are those of this folder too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "models"))
