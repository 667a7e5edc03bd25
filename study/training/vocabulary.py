"""Tokens: subwords or words, shared by source and target, learned on the training split alone."""

from __future__ import annotations

import hashlib
import io
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence

import sentencepiece

from study.config import Data
from study.corpora import Corpus, words
from study.corpora.cache import folder, kept, put
from study.corpora.text import SPACE, tokens_of
from study.errors import InputError
from study.models.translator import BOS, EOS, PAD, UNK

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]


class Words:
    """Vocabulary of the words and punctuation marks of the training split; ▁ marks a space before a token.

    Attributes:
        state: all that decides the tokens, as a checkpoint keeps it.
    """

    def __init__(self, state: bytes) -> None:
        self.state = state
        self.types: list[str] = json.loads(state)
        self.index = {token: i for i, token in enumerate(self.types)}

    @classmethod
    def learn(cls, texts: list[str]) -> Words:
        """Learn all types, the frequent ones first."""
        counts = Counter(token for text in texts for token in tokens_of(text))
        types = sorted(counts, key=lambda token: (-counts[token], token))
        return cls(json.dumps(SPECIAL + types, ensure_ascii=False).encode())

    def __len__(self) -> int:
        return len(self.types)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, without BOS and EOS."""
        return [[self.index.get(token, UNK) for token in tokens_of(text)] for text in texts]

    def words(self, text: str) -> list[int]:
        """Return the word of every token of a text, numbered as `study.corpora.words` does."""
        return list(range(len(words(text))))

    def decode(self, ids: list[int]) -> str:
        """Return the text of tokens."""
        return "".join(self.types[i] if i > EOS else f"{SPACE}⁇" for i in ids).replace(SPACE, " ").strip()

    def tokens(self, ids: list[int]) -> list[str]:
        """Return the tokens as they are written, for showing."""
        return [self.types[i].replace(SPACE, "") for i in ids]


class Subwords:
    """Byte-pair encoding by sentencepiece, lossless (no normalisation, bytes for unseen characters).

    Attributes:
        state: all that decides the tokens, as a checkpoint keeps it.
    """

    def __init__(self, state: bytes) -> None:
        self.state = state
        self.model = sentencepiece.SentencePieceProcessor(model_proto=state)

    @classmethod
    def learn(cls, texts: list[str], size: int) -> Subwords:
        """Learn a model of exactly `size` tokens.

        Raises:
            InputError: the texts have too few or too many distinct parts for that size.
        """
        out = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(texts),
                model_writer=out,
                model_type="bpe",
                vocab_size=size,
                character_coverage=1.0,
                byte_fallback=True,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                pad_id=PAD,
                unk_id=UNK,
                bos_id=BOS,
                eos_id=EOS,
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as problem:
            why = str(problem).rpartition("] ")[2]
            raise InputError(f"data.vocabulary: expected another size, got {size} ({why}). Change it.") from None
        return cls(out.getvalue())

    def __len__(self) -> int:
        return int(self.model.get_piece_size())

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, without BOS and EOS."""
        ids: list[list[int]] = self.model.encode(list(texts))
        return ids

    def words(self, text: str) -> list[int]:
        """Return the word of every token of a text. A space mark belongs to the word after it."""
        starts = [start for _, start, _ in words(text)]
        found, begin = [], 0
        for piece in self.model.encode(text, return_type="proto").pieces:
            ink = begin
            while ink < len(text) and text[ink].isspace():
                ink += 1
            found.append(max(0, bisect_right(starts, ink) - 1))
            begin += len(piece.surface)  # in characters; the piece's own offsets count bytes
        return found

    def decode(self, ids: list[int]) -> str:
        """Return the text of tokens."""
        return str(self.model.decode(ids))

    def tokens(self, ids: list[int]) -> list[str]:
        """Return the tokens as they are written, for showing."""
        return [self.model.id_to_piece(i) for i in ids]


Vocabulary = Words | Subwords


def vocabulary_for(data: Data, corpus: Corpus) -> Vocabulary:
    """Return the vocabulary that a data section declares, from the cache where the training split is the same."""
    texts = [side for pair in corpus.splits["train"] for side in (pair.source, pair.target)]
    if (size := data.subwords) is None:
        return Words.learn(texts)
    key = hashlib.sha256(f"{sentencepiece.__version__} {size}\n".encode() + "\n".join(texts).encode())
    path = folder() / "subwords" / f"{key.hexdigest()[:32]}.model"
    if (state := kept(path)) is not None:
        return Subwords(state)
    learned = Subwords.learn(texts, size)
    put(path, learned.state)
    return learned


def factor_tokens(
    vocabulary: Vocabulary, factors: Callable[[str], tuple[str, str] | None]
) -> tuple[list[int], list[int]]:
    """Return for each token of a vocabulary the token of its name and the token of its label.

    The first token with a name stands for it, and the first of the others with a label for that. So no token stands
    for two. A token without factors stands for itself.

    Raises:
        InputError: every token with some label stands for a name.
    """
    found = [factors(token) for token in vocabulary.tokens(list(range(len(vocabulary))))]
    names = {}
    labels: dict[str, int] = {}
    for i, factored in enumerate(found):
        if factored and factored[0] not in names:
            names[factored[0]] = i
        elif factored:
            labels.setdefault(factored[1], i)
    if lacking := sorted({one[1] for one in found if one} - set(labels)):
        raise InputError(
            f"model.factors: expected with split a token of label {lacking[0]!r} beside those that stand for names, got"
            " none. Raise data.nodes."
        )
    pairs = [(names[one[0]], labels[one[1]]) if one else (i, i) for i, one in enumerate(found)]
    return [name for name, _ in pairs], [label for _, label in pairs]


def restore(tokens: str, state: bytes) -> Vocabulary:
    """Return the vocabulary of a checkpoint."""
    return Words(state) if tokens == "words" else Subwords(state)
