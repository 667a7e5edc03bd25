"""The part of requirements.hashes that extras of the package need: `hashes.py EXTRA ...` prints it.

pip compares the files with these hashes before it runs any of them: `pip install --require-hashes --no-deps -r PART`.
torch is not in it, because its file depends on the machine. What torch itself needs is.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILDERS = {"setuptools"}
"""Packages that install the checkout itself."""


def needed(extras, project):
    """Return the names that the package and these extras require themselves."""
    lines = [line for extra in extras for line in project["optional-dependencies"][extra]]
    names = set()
    for line in lines:
        name, inner = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line).groups()
        names |= needed(inner.split(","), project) if name == project["name"] else {name}
    direct = (re.match(r"[\w.-]+", line)[0] for line in project["dependencies"])
    return {re.sub(r"[-_.]+", "-", name).lower() for name in (*names, *direct)}


def part(text, wanted):
    """Return the entries of these names and of all that they require, by the lines `# via` of the file."""
    entries = {re.match(r"[\w.-]+", entry)[0]: entry for entry in re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]}
    users = {name: set(re.findall(r"^    #  ? ?(?:via )?([\w.-]+)$", entry, re.M)) for name, entry in entries.items()}
    while more := {name for name, by in users.items() if by & wanted} - wanted:
        wanted = wanted | more
    return "".join(entry for name, entry in entries.items() if name in wanted)


if __name__ == "__main__":
    described = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    locked = (ROOT / "requirements.hashes").read_text("utf-8")
    print(part(locked, needed(sys.argv[1:], described) | BUILDERS), end="")
