"""README and docs as their host shows them: its own parser of Markdown, and a browser as wide as a page and as a phone.

A mark in a comment at the beginning of a line ends a paragraph there, although it is invisible. So each page has to be
the same with its comments and without them.
"""

import html
import re
from pathlib import Path

import pytest

cmarkgfm = pytest.importorskip("cmarkgfm")

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "results/README.md", "benchmarks/README.md"]
PAGES += sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
FENCED = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
LETTERS = {"README.md": 92}
"""Letters of code that the page of a repository shows without scrolling; other pages are wider."""
STYLE = """
body {overflow-wrap: break-word; max-width: 832px; margin: 0 auto; font: 16px/1.5 sans-serif; padding: 0 16px}
body {box-sizing: border-box} img {max-width: 100%} td, th {padding: 6px 13px}
table {display: block; width: max-content; max-width: 100%; overflow: auto; border-spacing: 0}
pre {overflow: auto; padding: 16px; font: 13.6px monospace}
code {font: 13.6px monospace; white-space: break-spaces} pre code {white-space: pre}
"""
"""What decides widths in the style sheet of the host."""


def rendered(text):
    options = cmarkgfm.Options.CMARK_OPT_UNSAFE
    return cmarkgfm.github_flavored_markdown_to_html(text, options)


def without_comments(text):
    """Leave out the comments of a page, but not those that its code shows."""
    return "".join(part if part.startswith("`") else COMMENT.sub("", part) for part in FENCED.split(text))


@pytest.mark.parametrize("page", PAGES)
def test_marks_tear_no_paragraph(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    shown, plain = (re.sub(r"\s+", " ", COMMENT.sub("", rendered(one))) for one in (text, without_comments(text)))
    between = re.compile(r"\s*(</?(?:p|table|thead|tbody|tr|td|th|h\d|ul|ol|li|details|summary)\b[^>]*>)\s*")
    assert between.sub(r"\1", shown).strip() == between.sub(r"\1", plain).strip()


def test_a_mark_at_the_beginning_of_a_line_does():
    torn, whole = "a number is\n<!-- n -->5<!-- end --> or so", "a number is <!-- n -->5<!-- end --> or so"
    assert rendered(torn).count("<p>") == 1
    assert "or so</p>" not in rendered(torn)
    assert "or so</p>" in rendered(whole)


@pytest.mark.parametrize("page", PAGES)
def test_no_link_is_torn(page):
    code = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)
    shown = code.sub("", rendered((ROOT / page).read_text(encoding="utf-8")))
    assert re.findall(r".{20}\]\(.{20}", shown) == []


@pytest.mark.parametrize("page", PAGES)
def test_no_line_of_code_is_cut(page):
    blocks = re.findall(r'<pre(?! lang="diff")[^>]*>(.*?)</pre>', rendered((ROOT / page).read_text()), re.DOTALL)
    lines = [line for block in blocks for line in html.unescape(re.sub(r"<[^>]+>", "", block)).split("\n")]
    assert [line for line in lines if len(line) > LETTERS.get(page, 100)] == []


@pytest.mark.parametrize("width", [832, 390])
def test_no_cell_is_wider_than_a_page_or_a_phone(width, browser, tmp_path):
    """Cells fold at blanks. One that is wider than the screen has a word that is wider."""
    sections = (
        f"<section id='{page}'>{rendered((ROOT / page).read_text(encoding='utf-8'))}</section>" for page in PAGES
    )
    (tmp_path / "page.html").write_text(
        f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{''.join(sections)}", encoding="utf-8"
    )
    view = browser.new_page(viewport={"width": width, "height": 900})
    view.goto((tmp_path / "page.html").as_uri())
    wide = """all => all.filter(one => one.getBoundingClientRect().width > innerWidth)
      .map(one => [one.closest('section').id, one.textContent.slice(0, 60)])"""
    assert view.eval_on_selector_all("td, th, p, li, h1, h2, h3", wide) == []
    view.close()
