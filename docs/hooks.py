"""Hook of mkdocs: files outside docs/ that a page links to become files of the site.

A link such as `../results/figures/scaling.svg` works on the repository's pages as it is. In the site the file is copied
to `repository/results/figures/scaling.svg`, and the link points there. From a page of a folder below docs/, such as
`docs/lab/class.md`, `../glossary.md` is a page of the site: that link stays as it is.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

OUTSIDE = re.compile(r"\]\(\.\./([^)#]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add every linked file outside docs/. A Markdown file is copied as text, since its own links start elsewhere."""
    root = Path(config["docs_dir"]).parent
    for page in [page for page in files.documentation_pages() if _on_top(page)]:
        for path, _anchor in OUTSIDE.findall(page.content_string):
            name = _inside(path)
            if files.get_file_from_path(name) is None:
                files.append(File.generated(config, name, content=(root / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to files outside docs/ at their copies."""
    if not _on_top(page.file):
        return markdown
    return OUTSIDE.sub(lambda link: f"]({_inside(link[1])})", markdown)


def _on_top(file: File) -> bool:
    """Return whether a page is in docs/ itself, where `../` leads out of docs/."""
    return "/" not in file.src_uri


def _inside(path: str) -> str:
    return f"repository/{path}" + (".txt" if path.endswith(".md") else "")
