"""Notes of a release: the section of CHANGELOG.md, and the root hash of the published results.

    python .ci/release.py v0.4.0

A tag that is not the version of the package, or has no section, ends with status 2 and one line.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def refuse(line):
    """End with one line."""
    print(f"release: {line}", file=sys.stderr)
    sys.exit(2)


def notes(tag):
    """Return the notes of a tag."""
    code = (ROOT / "study" / "__init__.py").read_text("utf-8")
    version = re.search(r'^__version__ = "(.+)"$', code, re.MULTILINE)[1]
    if tag != f"v{version}":
        refuse(f"expected the tag v{version}, that of study/__init__.py, got {tag}. Tag the commit of that version.")
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE)
    section = next((text for text in sections if re.match(rf"{re.escape(version)}\b", text)), None)
    if section is None:
        refuse(f"CHANGELOG.md: expected a section {version}, got none. Write what users notice.")
    printed = re.search(r"[0-9a-f]{64}", (ROOT / "README.md").read_text("utf-8"))
    body = section.partition("\n")[2].strip()
    sweeps = len(json.loads((ROOT / "results" / "manifest.json").read_text("utf-8"))["sweeps"])
    hash_line = f"Root hash of the published results ({sweeps} sweeps): `{printed[0]}`. `study verify` compares it."
    return f"{body}\n\n{hash_line}\n"


if __name__ == "__main__":
    print(notes(sys.argv[1]), end="")
