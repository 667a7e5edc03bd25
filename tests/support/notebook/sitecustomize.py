"""Few validation pairs in every process of a notebook: Python imports this first.

A generated corpus has 300 or 500, and a trial of a notebook would translate all of them twice for each run.
"""

from study.corpora.grammar import generator
from study.corpora.probes import probe

generator.VALID = probe.VALID = 40
