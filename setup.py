"""The description of the package: README.md as a page of its own, without comments, its links and pictures as URLs.

Everything else is in pyproject.toml, the URL of the repository too ([project.urls], Repository). Without it links stay.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent


def description(text, repository, version):
    """Return the text of README.md for a page elsewhere.

    Args:
        text: the file.
        repository: URL of the repository; empty: relative links stay.
        version: that of the package. A link leads to the tag of a release, or for a version in work to main.
    """
    text = re.sub(r"^<!--.*?-->\n|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    if not repository:
        return text
    tag = "main" if "dev" in version else f"v{version}"

    def absolute(link):
        kind = "raw" if link[1] else "blob"
        return f"{link[1]}[{link[2]}]({repository.rstrip('/')}/{kind}/{tag}/{link[3]})"

    text = re.sub(r"\b(src|srcset)=\"(?!https?:)([^\"\s]+)\"", rf'\1="{repository.rstrip("/")}/raw/{tag}/\2"', text)
    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)", absolute, text)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    code = (ROOT / "study" / "__init__.py").read_text("utf-8")
    version = re.search(r'^__version__ = "(.+)"$', code, re.MULTILINE)[1]
    repository = project.get("urls", {}).get("Repository", "")
    readme = (ROOT / "README.md").read_text("utf-8")
    setup(long_description=description(readme, repository, version), long_description_content_type="text/markdown")
