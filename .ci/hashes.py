"""Compare the files that pip has installed with requirements.hashes: `hashes.py REPORT`, after `pip install --report`.

torch has one file for each kind of GPU and brings its own libraries. They are compared by version only.
"""

import json
import re
import sys
from pathlib import Path

BUILDS = re.compile(r"torch$|(cuda|nvidia-[cn]|triton)")


def main(report: Path, locked: Path) -> int:
    """Return 0 if every file that was installed from an index has a known hash, 1 otherwise."""
    text = locked.read_text(encoding="utf-8")
    hashes, names = set(re.findall(r"--hash=sha256:(\w+)", text)), set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))
    wrong = []
    for item in json.loads(report.read_text(encoding="utf-8"))["install"]:
        name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
        archive = item["download_info"].get("archive_info")
        if archive is None or BUILDS.match(name):  # None: this checkout
            continue
        if name not in names:
            print(f"{name}: not in {locked.name}, so its file is not checked. `make lock` adds it.")
        elif archive["hashes"]["sha256"] not in hashes:
            wrong.append(name)
    if wrong:
        print(
            f"{', '.join(wrong)}: expected a file of {locked.name}, got another one from the package index. .venv is "
            "removed. Use another index, or accept these files: make HASHES=true …",
            file=sys.stderr,
        )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(__file__).parents[1] / "requirements.hashes"))
