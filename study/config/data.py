"""The data section: which corpus, how much of it, and what a token is."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from study.config.attention import Frozen, Name, Seed, Size
from study.config.probes import AnyProbe


class Grammar(Frozen):
    """The embedded German→English grammar: offline, seeded, with gold word alignments."""

    name: Literal["grammar"] = Field("grammar", description="Which corpus.")
    version: Literal[1] = Field(1, description="Version of the generator; part of the identity.")
    lexicon: Literal["small", "large"] = Field(
        "small", description="Content words: small has about 130 source word types, large about 400."
    )
    train_pairs: Size = Field(8000, description="Number of training sentence pairs.")
    test_pairs: Annotated[int, Field(ge=4)] = Field(
        1000, description="Sentence pairs of the split test, 4 or more; the other test splits have half as many."
    )
    seed: Seed = Field(0, description="Seed of the data, apart from the seed of the run.")
    tokens: Literal["words", "subwords"] = Field("words", description="What a token is.")
    vocabulary: Size | None = Field(
        None, description="Subword vocabulary, shared by both languages (derived: 400 with subwords)."
    )

    @model_validator(mode="after")
    def _vocabulary(self) -> Self:
        _derive_vocabulary(self, 400)
        return self


class Multi30k(Frozen):
    """Multi30k German→English, task 1, raw text. Downloaded and checked, or read from a folder."""

    name: Literal["multi30k"] = Field("multi30k", description="Which corpus.")
    version: Literal[1] = Field(1, description="Version of the reading of the files; part of the identity.")
    folder: Name | None = Field(
        None, description="Folder with the corpus files (else $STUDY_MULTI30K, else the download cache)."
    )
    tokens: Literal["words", "subwords"] = Field("subwords", description="What a token is.")
    vocabulary: Size | None = Field(
        None, description="Subword vocabulary, shared by both languages (derived: 8000 with subwords)."
    )

    @model_validator(mode="after")
    def _vocabulary(self) -> Self:
        _derive_vocabulary(self, 8000)
        return self


def _derive_vocabulary(data: Grammar | Multi30k, size: int) -> None:
    if data.tokens == "words" and data.vocabulary is not None:
        raise ValueError("vocabulary is the size of a subword model, and tokens is words; leave it out")
    if data.tokens == "subwords" and data.vocabulary is None:
        object.__setattr__(data, "vocabulary", size)


Data = Annotated[Grammar | Multi30k | AnyProbe, Field(discriminator="name")]
