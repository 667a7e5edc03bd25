"""A small corpus of what text in the world has: marks, blanks and scripts that Latin letters alone do not show."""

import unicodedata

PAIRS = [
    ("हिन्दी में लिखो", "write in Hindi"),
    ("தமிழ் மொழி", "the Tamil language"),
    ("שָׁלוֹם עוֹלָם", "hello world"),
    ("سَلَامٌ عَلَيْكُمْ", "peace be with you"),
    (unicodedata.normalize("NFD", "Übergröße für Öl"), "oversize for oil"),
    ("Vraiment\u202f? « Oui\u00a0»", "Really? “Yes”"),
    ("می\u200cخواهم بنویسم", "I want to write"),
    ("zwei\u2028Zeilen\u0085in einer", "two\u2029lines in one"),
    ("我喜欢读书。", "I like reading."),
    ("Es kostet $5 oder $10.", "It costs $5 or $10 now."),
    ("ein  doppeltes Leerzeichen ", "a\u3000wide blank"),
    ("ein\u00adweiches Zeichen \ufeff hier", "a soft sign here"),
    ("👩\u200d🏫 und ❤\ufe0f", "a teacher and a heart"),
    ("null", "NA"),
    ('<b>fett</b> & "laut"', "<script>bold</script> | loud"),
]
LONG = " ".join(["sehr"] * 300)
COUNTS = {0: 3, 1: 2, 2: 2, 3: 2, 4: 3, 6: 2, 8: 2, 12: 4}
"""Pair ↦ number of words and marks in its source."""


def write(folder):
    """Write the corpus as tables with a tab at the end of each line; return the folder."""
    folder.mkdir(parents=True)
    for split, more in (("train", [(LONG, "very")]), ("valid", []), ("test", [])):
        lines = [f"{source}\t{target}\t\n" for source, target in [*PAIRS, *more]]
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8", newline="")
    return folder
