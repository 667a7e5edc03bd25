"""Words and blanks of a text in any script, and remarks on what a reader does not see in it."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache

SPACE = "▁"
JOINERS = "\u200c\u200d"
LONG = 1000
"""Characters of a sentence that is remarked upon."""
UNSEEN: dict[str, Callable[[str], object]] = {
    "decomposed (not NFC)": lambda text: not unicodedata.is_normalized("NFC", text),
    "with zero-width marks": re.compile("[\u00ad\u200b-\u200f\u2060]").search,
    "with a byte order mark inside": re.compile("\ufeff").search,
    "with blanks that tokens words turn into one blank": re.compile(r"[^\S ]|\s\s|^\s|\s$").search,
}
"""Kind of text that looks like another ↦ whether a sentence has it."""


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    r"""Return the pattern of a word or punctuation mark, and of one with the space before it.

    Combining marks and joiners belong to the letter or sign before them: `\w` of Python does not match them.
    """
    marks = "".join(letter for letter in map(chr, range(0x300, 0x20000)) if unicodedata.category(letter)[0] == "M")
    after = f"{marks}{JOINERS}\U000e0100-\U000e01ef"
    word = rf"\w[\w{after}]*|[^\w\s][{after}]*"
    return re.compile(word), re.compile(rf"(\s*)({word})")


def words(text: str) -> list[tuple[str, int, int]]:
    """Return the words and punctuation marks of a text, each with its start and end: what gold alignments count."""
    return [(match.group(), match.start(), match.end()) for match in _patterns()[0].finditer(text)]


def mean_words(texts: Iterable[str]) -> float:
    """Return the mean number of words of texts; nan for none."""
    counts = [len(words(text)) for text in texts]
    return sum(counts) / len(counts) if counts else float("nan")


def tokens_of(text: str) -> list[str]:
    """Return the words of a text as tokens: ▁ before one marks a space, or any other blank."""
    pieces = _patterns()[1].findall(text)
    return [SPACE + token if space or not i else token for i, (space, token) in enumerate(pieces)]


def alike(text: str) -> str:
    """Return a text without what makes equal sentences differ: composition, case, width, blanks, zero-width marks."""
    seen = "".join(letter for letter in unicodedata.normalize("NFKC", text) if unicodedata.category(letter) != "Cf")
    return " ".join(seen.casefold().split())


def remarks(texts: Sequence[str]) -> list[str]:
    """Return how many of the texts have each kind of what is not seen, and the length of the longest if it is long."""
    counts = {kind: sum(bool(has(text)) for text in texts) for kind, has in UNSEEN.items()}
    lines = [f"{kind}: {count}" for kind, count in counts.items() if count]
    if (longest := max(map(len, texts), default=0)) > LONG:
        lines.append(f"the longest has {longest:,} characters")
    return lines
