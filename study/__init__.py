"""A reproducible ablation study of attention in neural machine translation.

The training half (torch, Lightning, W&B) ends by writing one JSON record per run; the report half
(numpy, pandas, statsmodels, seaborn, sacrebleu) starts from those records. Importing this package
imports neither.
"""

__version__ = "0.1.0"
