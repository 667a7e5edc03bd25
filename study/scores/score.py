"""One score of a run, as records keep it."""

from study.schema import Count, Identifier, Section, Split


class RecordedScore(Section):
    """One number on one split.

    Attributes:
        split: of the corpus; valid is validation.
        metric: which score; see `study.scores.metrics`.
        value: in units of the metric; None where the model cannot read a pair of the split.
        n: sentences, or tokens (perplexity) or minimal pairs (contrast).
        subset: a part of the split, by words of the source (`length 4-7`), or of the model, by heads; None: the whole.
        signature: how it was computed, scorer and version included.
        hypotheses: the file of translations that was scored, beside the record; None: none was.
        hypotheses_sha256: its SHA-256.
    """

    split: Split
    metric: Identifier
    value: float | None
    n: Count
    subset: str | None = None
    signature: str | None = None
    hypotheses: str | None = None
    hypotheses_sha256: str | None = None
