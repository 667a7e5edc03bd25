"""The site: every link of every page, and its behaviour in a real browser, from the file system and from the server."""

import csv
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

import numpy as np
import pytest
import yaml
from filelock import FileLock

from study.__main__ import main
from study.attention import Lengths
from study.commands.site import _parser
from study.config import experiment_from
from study.corpora import load as load_corpus
from study.errors import InputError
from study.files import CHECKOUT as ROOT
from study.models import build
from study.publish.models import listed
from study.publish.results import Results
from study.publish.site import output, plots
from study.publish.site.content import MAPS, Content, slug
from study.store import arm_of
from study.training.alignment import attention_map
from study.training.batches import Example
from study.training.checkpoint import save_model
from study.training.maps import sentence_maps
from study.training.translation import Trained, read
from study.training.vocabulary import Words

EVIL = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>{{ 7*7 }}\''
SOURCE, TARGET = ["ein", "Wort", EVIL], ["a", "word", "</s>"]


class Links(NamedTuple):
    found: list[str]
    loaded: list[str]
    ids: set[str]


def links(path):
    text = path.read_text(encoding="utf-8")
    found = [unescape(one) for one in re.findall(r'(?:href|src)="([^"]*)"', text)]
    loaded = [unescape(one) for one in re.findall(r'<(?:script|link|img)\b[^>]*?(?:href|src)="([^"]*)"', text)]
    return Links(found, loaded, set(re.findall(r'\bid="([^"]*)"', text)))


def check_links(folder):
    """Every link leads to a file, and within a page to a place that is there; nothing is loaded from afar."""
    pages = {path: links(path) for path in folder.rglob("*.html")}
    there = {path for path in folder.rglob("*") if path.is_file()}
    for path, page in pages.items():
        for address in set(page.found):
            parts = urlsplit(address)
            if parts.scheme in ("http", "https", "data"):
                assert address not in page.loaded or parts.scheme == "data", f"{path} loads {address}"
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            assert target in there, f"{path} leads to {address}"
            if parts.fragment and "=" not in parts.fragment:
                assert parts.fragment in pages[target].ids, f"{path} leads to {address}"
    return pages


def weights(rows, columns, place):
    return [[1000 if (row + place) % columns == column else 0 for column in range(columns)] for row in range(rows)]


@pytest.fixture(scope="module")
def lab(finished, tmp_path_factory):
    """Runs of a sweep with hostile texts, one attention map beside two records, and maps of heads beside the first."""
    lab = finished.copy(tmp_path_factory.mktemp("site"))
    sweep = lab.top / "sweeps" / "tiny.yaml"
    sweep.write_text(sweep.read_text().replace("Two scores, two seeds", json.dumps(f"Two scores {EVIL}")))
    first, second, *_ = lab.ids
    hypotheses = lab.runs / first / "test.hyp.txt"
    hypotheses.write_text(hypotheses.read_text().replace("\n", f" {EVIL}\n", 1))
    one = {"site": "cross", "layer": 0, "head": None, "weights": [[1.0, 0.0, 0.0]] * 3, "gold": [[0, 0]]}
    text = {"source": f"ein Wort {EVIL}", "target": "a word"}
    tree = {**one, "source": SOURCE, "target": TARGET, "text": text}
    for name in (first, second):
        (lab.runs / name / "attention.json").write_text(json.dumps(tree))
    record = json.loads((lab.runs / first / "record.json").read_text())
    digest = next(s["hypotheses_sha256"] for s in record["scores"] if s["split"] == "test")
    heads = [
        {"site": site, "layer": layer, "head": head, "weights": weights(rows, columns, layer + 2 * head)}
        for site, rows, columns in (("cross", 3, 4), ("encoder_self", 4, 4))
        for layer in (0, 1)
        for head in (0, 1)
    ]
    item = {
        "split": "test",
        "line": 4,
        "forced": False,
        "source": list("WXYZ"),
        "target": TARGET,
        "gold": [],
        "maps": heads,
    }
    (lab.runs / first / MAPS).write_text(json.dumps({"hypotheses_sha256": digest, "sentences": [item]}))
    lab.change(2, **{"provenance.device": EVIL, "wandb": {"id": "x", "url": "javascript:window.hacked=1"}})
    lab.fail(3)
    lab.change(3, error=EVIL)
    return lab


@pytest.fixture(scope="module")
def small(lab, tmp_path_factory):
    """The site of these runs."""
    folder = tmp_path_factory.mktemp("small") / "_site"
    output.write(Content(lab.runs, lab.top / "sweeps"), folder)
    return folder


@pytest.fixture(scope="module")
def whole():
    """The site of the published results, which the first worker writes for all."""
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "_site"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            output.write(Content(ROOT / "results", ROOT / "sweeps"), folder)
    return folder


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium: the one of Playwright, else the system's."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    system = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    with playwright.sync_playwright() as driver:
        bundled = Path(driver.chromium.executable_path).is_file()
        if not bundled and system is None:
            pytest.skip("no Chromium: `playwright install chromium` fetches one")
        options = {} if bundled else {"executable_path": system}
        browser = driver.chromium.launch(args=["--no-sandbox"], **options)
        yield browser
        browser.close()


@pytest.fixture
def view(browser):
    """Opens pages in one tab; afterwards no page has had an error or left this machine."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, wrong = context.new_page(), []
    page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda problem: wrong.append(str(problem)))
    page.on(
        "request", lambda sent: wrong.append(sent.url) if not re.match(r"file:|data:|http://127\.", sent.url) else None
    )
    page.set_default_timeout(15_000)
    yield page
    assert wrong == []
    context.close()


def address(folder, path, fragment=""):
    return (folder / path).as_uri() + (f"#{fragment}" if fragment else "")


def test_places_of_the_forest_plot_are_asinh_of_margins():
    assert [text for _, text in plots.round_ticks(-86.3, 8.7, True)] == ["−80", "−60", "−40", "−20", "0"]
    assert [text for _, text in plots.round_ticks(70.2, 70.33, False)] == ["70.20", "70.25", "70.30"]
    assert plots.at(0) == 50
    assert plots.at(plots.CLIP) == plots.at(1000) == 100
    assert plots.at(-1) == pytest.approx(50 - 50 * math.asinh(1) / math.asinh(25), abs=0.01)
    assert plots.places({"low": -1000, "difference": 0}) == {"low": 0, "difference": 50}


def test_names_become_parts_of_addresses_that_differ():
    assert slug("grammar-recurrent-dot-0123abcd-s1") == "grammar-recurrent-dot-0123abcd-s1"
    assert re.fullmatch(r"a-b-[0-9a-f]{8}", slug("a/b"))
    assert slug("a/b") != slug("a b")


def test_published_results_become_a_site_whose_links_all_lead_somewhere(whole):
    pages = check_links(whole)
    sizes = {path.relative_to(whole).as_posix(): path.stat().st_size for path in whole.rglob("*") if path.is_file()}
    assert len(pages) > 900
    assert sum(sizes.values()) < 40e3 * len(pages)
    first = ["index.html", *(urlsplit(address).path for address in pages[whole / "index.html"].loaded)]
    assert sum(sizes.get(name, 0) for name in first) < 300e3
    text = (whole / "index.html").read_text(encoding="utf-8")
    sections = dict(re.findall(r'<section class="claim"[^>]*id="claim-(\w+)"(.*?)</section>', text, re.DOTALL))
    figure, summary = rows("figures/forest.csv"), rows("tables/summary.csv")
    assert list(sections) == [row["id"] for row in figure]
    for row in figure:
        found = re.findall(r'<i class="(ci|ci inner|point)" style="left:([\d.]+)%', sections[row["id"]])
        ends = {"ci": "low", "ci inner": "low90", "point": "difference"}
        expected = {kind: plots.at(float(row[end])) for kind, end in ends.items() if row[end]}
        assert {kind: float(at) for kind, at in found} == pytest.approx(expected, abs=0.02), row
    titles = {claim: section.partition("</h3>")[0] for claim, section in sections.items()}
    weak = [claim for claim, title in titles.items() if 'class="fragile"' in title]
    assert weak == [row["id"] for row in summary if row["fragile"] == "True"] != []
    for claim in (row["id"] for row in summary if row["verdict"] == "not yet run"):
        assert sections[claim].count("not yet run") == 1, "the title says it"
    for path in (whole / "claims").glob("*.html"):
        assert path.read_text(encoding="utf-8").lower().count("not yet run") <= 2, "rows without runs are folded"
    first_row = json.loads((ROOT / "results" / "tables" / "summary.json").read_text(encoding="utf-8"))["blocks"][0][
        "rows"
    ][0]
    assert f"<small>{first_row['cells']['inner']}</small>" in sections["1"]


def rows(name):
    with (ROOT / "results" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_site_replaces_itself_and_nothing_else(lab, small, tmp_path):
    check_links(small)
    folder = tmp_path / "site"
    shutil.copytree(small, folder)
    (folder / "mine.txt").write_text("kept")
    (folder / "runs" / "old.html").write_text("")
    (folder / output.LIST).write_text((small / output.LIST).read_text() + "runs/old.html\n../outside.txt\n")
    (tmp_path / "outside.txt").write_text("kept")
    output.write(Content(lab.runs, lab.top / "sweeps"), folder)
    assert (folder / "mine.txt").exists()
    assert (tmp_path / "outside.txt").exists()
    assert not (folder / "runs" / "old.html").exists()
    assert (folder / output.LIST).read_bytes() == (small / output.LIST).read_bytes()
    with pytest.raises(InputError, match="other files"):
        output.write(Content(lab.runs, lab.top / "sweeps"), lab.top)


def test_own_claims_stand_beside_those_of_the_study(finished, tmp_path, capsys):
    """The sweep lies beside the file of claims, and in no folder of sweeps."""
    (tmp_path / "none").mkdir()
    shutil.copy(finished.top / "sweeps" / "tiny.yaml", tmp_path / "mine.yaml")
    score = "model.attention.score"
    question = {"sweep": "mine.yaml", "asked": ["grammar/recurrent"], "margin": 2}
    question |= {"contrasts": [{"arm": {score: "dot"}, "baseline": {score: "bilinear"}}]}
    entry = {"id": "mine", "slug": "my-claim", "statement": "dot beats bilinear", "type": "superiority"}
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump({"claims": [{**entry, "questions": [question]}]}))
    command = [
        "site",
        "--runs",
        str(finished.runs),
        "--sweeps",
        str(tmp_path / "none"),
        "--out",
        str(tmp_path / "site"),
    ]
    assert main([*command, "--claims", str(tmp_path / "claims.yaml")]) == 0
    check_links(tmp_path / "site")
    assert "dot beats bilinear" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert 'href="../sweeps/tiny.html"' in (tmp_path / "site" / "claims" / "mine.html").read_text(encoding="utf-8")
    assert main([*command, "--claims", str(tmp_path / "nothing.yaml")]) == 2
    assert "no such file of claims" in capsys.readouterr().err
    assert main([*command[:-1], "/proc/x", "--claims", str(tmp_path / "nothing.yaml")]) == 2
    assert "/proc/x: cannot be written" in capsys.readouterr().err, "this is checked first"


def test_maps_of_other_translations_are_refused(lab, tmp_path):
    other = lab.copy(tmp_path)
    path = other.runs / lab.ids[0] / MAPS
    path.write_text(json.dumps(json.loads(path.read_text()) | {"hypotheses_sha256": "0" * 64}))
    with pytest.raises(InputError, match="other translations"):
        Content(other.runs, other.top / "sweeps").maps(lab.ids[0])
    path.write_text('{"hypotheses_sha256": 1, "sentences": [{"maps": [{"site": "cross", "weights": [[1]]}]}]}')
    with pytest.raises(InputError, match="expected attention maps"):
        Content(other.runs, other.top / "sweeps").maps(lab.ids[0])


def test_maps_of_every_head_are_made_once_from_the_model(finished, tmp_path, capsys):
    lab = finished.copy(tmp_path)
    cell = lab.spec.cells[0]
    pairs = load_corpus(cell.experiment.data).splits["test"]
    vocabulary = Words.learn([text for pair in pairs for text in (pair.source, pair.target)])
    given = {"model.family": "transformer", "model.width": 8, "model.layers": 2, "model.attention.heads": 2}
    model_of = experiment_from(given | {"data.train_pairs": 20, "data.test_pairs": 30})
    model = build(model_of.model, len(vocabulary), 1, Lengths(40, 40))
    save_model(lab.runs / cell.id / "model.pt", model_of, vocabulary, Lengths(40, 40), model)
    command = ["site", "--runs", str(lab.runs), "--sweeps", str(lab.top / "sweeps"), "--out", str(tmp_path / "_site")]
    assert main([*command, "--maps"]) == 0
    path = lab.runs / cell.id / MAPS
    assert capsys.readouterr().out.startswith(f"{path}\n")
    sentences = json.loads(path.read_text())["sentences"]
    assert [item["line"] for item in sentences] == list(range(10))
    first = sentences[0]
    assert len(first["maps"]) == 3 * 2 * 2
    pair = pairs[0]
    example = Example(*vocabulary.encode([pair.source]), *vocabulary.encode([pair.target]), pair)
    for one in first["maps"]:
        tree = attention_map(model.eval(), [example], vocabulary, one["layer"], None, one["site"], one["head"])
        assert np.allclose(one["weights"], 1000 * np.array(tree["weights"]), atol=1)
    assert first["gold"]  # this run translated the first sentence as the reference has it
    empty = build(model_of.model.model_copy(update={"memory": "mean"}), len(vocabulary), 1, Lengths(40, 40)).eval()
    assert all(
        one["site"] != "cross"
        for one in sentence_maps(Trained(model_of, vocabulary, empty), pairs[:1], ["a"])[0]["maps"]
    )
    assert main([*command, "--maps"]) == 0
    assert str(path) not in capsys.readouterr().out
    assert (tmp_path / "_site" / "data" / "maps" / f"{cell.id}.js").is_file()


def test_published_maps_are_what_published_models_draw():
    content, known = Content(ROOT / "results", ROOT / "sweeps"), listed(Results(ROOT / "results"))
    shipped = {name for name in known if content.records[name].config["data"]["name"] != "multi30k"}
    assert {path.stem for path in (ROOT / "results" / "maps").iterdir()} == shipped
    name = "grammar-transformer-dot-dc42eab8-s1"
    trained = read(content.store.model(name), name)
    made = sentence_maps(trained, content.texts(name).pairs[:1], content.translations(name))
    for one, there in zip(made[0]["maps"], content.maps(name)[0]["maps"], strict=True):
        assert np.allclose(one["weights"], there["weights"], atol=2)  # 0.002: processors differ in the last bits


def test_every_kind_of_page_opens_without_errors_and_runs_no_text_of_a_record(lab, small, whole, view):
    first = lab.ids[0]
    kinds = [
        "index.html",
        "runs.html",
        "sentence.html",
        "reading.html",
        "sweeps/tiny.html",
        f"arms/{arm_of(first)}.html",
    ]
    for name in [*kinds, *(f"runs/{name}.html" for name in lab.ids)]:
        view.goto(address(small, name))
        assert view.locator("h1").inner_text()
        assert not view.evaluate("window.hacked"), name
        assert "49" not in view.locator("h1").inner_text()
    assert EVIL in view.locator("main").inner_text()  # the failed run's error, as text
    arm = next(iter(sorted((whole / "arms").iterdir()))).name
    kinds = [
        "index.html",
        "claims/4.html",
        "sweeps/scaling.html",
        f"arms/{arm}",
        "runs.html",
        "sentence.html",
        "reading.html",
    ]
    for size in ({"width": 1280, "height": 900}, {"width": 390, "height": 844}):
        view.set_viewport_size(size)
        for name in kinds:
            view.goto(address(whole, name))
            assert view.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {size}"
    view.set_viewport_size({"width": 1200, "height": 900})
    view.goto(address(whole, "claims/6.html"))
    assert view.locator(".wide").first.evaluate("one => one.scrollWidth <= one.clientWidth"), "contrasts are cut"
    view.goto(address(whole, f"arms/{arm}"))
    assert view.locator(".chart canvas").count() == 2


def test_claims_are_found_by_words_and_by_verdict(whole, view):
    view.goto(address(whole, "index.html"))
    shown = view.locator("section.claim:not([hidden])")
    count = shown.count()
    view.keyboard.press("/")
    view.keyboard.type("unscaled repairs")
    assert shown.count() == 1
    assert shown.locator(".id").inner_text() == "4"
    view.keyboard.press("Control+A")
    view.keyboard.press("Delete")
    view.locator(".chips button.fails").click()
    assert 0 < shown.count() < count
    assert set(shown.evaluate_all("all => all.map(one => one.dataset.word)")) == {"fails"}
    view.locator("section.claim:not([hidden]) h3 a").first.press("Enter")
    assert "claims/" in view.url


def test_runs_are_found_by_fields_and_sorted_and_the_address_keeps_it(whole, view):
    view.goto(address(whole, "runs.html"))
    rows = view.locator("#runs tbody tr")
    assert rows.count() == len((ROOT / "results" / "runs.csv").read_text(encoding="utf-8").splitlines()) - 1
    view.locator("#query").fill("scaling family=recurrent key_width=512 test/exact>80")
    exact = view.locator("#runs th", has_text="exact match").locator("button")
    exact.focus()
    view.keyboard.press("Enter")
    view.keyboard.press("Enter")

    def column(name):
        place = view.locator("#runs thead th").evaluate_all("all => all.map(one => one.title)").index(name)
        return [float(text) for text in rows.evaluate_all(f"all => all.map(one => one.cells[{place}].textContent)")]

    found = column("test/exact")
    assert 0 < len(found) < 80
    assert found == sorted(found, reverse=True)
    assert min(found) > 80
    view.locator("summary", has_text="Columns").click()
    view.locator("#columns input[value='model.attention.cross.scale']").check()
    kept = view.url
    view.goto("about:blank")
    view.goto(kept)
    view.wait_for_function("document.querySelectorAll('#runs tbody tr').length > 0")
    assert column("test/exact") == found
    assert "model.attention.cross.scale" in view.locator("#runs thead").inner_text()
    rows.first.locator("a").click()
    assert "/runs/" in view.url


def test_a_map_is_drawn_and_changes_with_the_head(lab, small, view):
    first, second = lab.ids[0], lab.ids[1]
    view.goto(address(small, "sentence.html", f"run={first}&with={second}&item=test:4&site=cross&layer=1&head=0"))
    cells = view.locator("table.map tbody td")
    assert cells.count() == 12

    def dark():
        return cells.evaluate_all("all => all.map(one => getComputedStyle(one).getPropertyValue('--w') == '1' ? 1 : 0)")

    before = dark()
    assert [before[i : i + 4] for i in (0, 4, 8)] == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    view.locator("#head").select_option("1")
    after = dark()
    assert [after[i : i + 4] for i in (0, 4, 8)] == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
    view.locator("#site").select_option("encoder_self")
    assert cells.count() == 16
    assert "site=encoder_self" in view.url
    cells.first.focus()
    view.keyboard.press("ArrowRight")
    assert "W → X" in view.locator("#cell").inner_text()

    view.locator("#differ").check()  # the two runs differ in the first sentence alone
    assert view.locator("#sentences a").count() >= 1
    view.locator("#differ").uncheck()
    view.locator("h1").click()
    view.keyboard.press("n")
    assert "item=test%3A5" in view.url
    view.goto(address(small, "sentence.html", f"run={first}&with={second}&item=test"))
    view.wait_for_function("document.querySelectorAll('table.map').length == 2")  # both records have this one map
    assert EVIL in view.locator("table.map").first.inner_text()
    assert not view.evaluate("window.hacked")
    assert view.locator("table.map td.gold").count() == 2
    view.locator(".pair figcaption b").first.evaluate("one => one.textContent = 'a long title '.repeat(9)")
    left, right = view.locator("table.map").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
    assert left == right, "the maps begin at one height"


def test_the_workflow_publishes_what_make_writes():
    steps = yaml.safe_load((ROOT / ".github/workflows/pages.yml").read_text())["jobs"]["pages"]["steps"]
    assert {"run": "make site"} in steps
    assert [step["with"]["path"] for step in steps if "upload" in step.get("uses", "")] == [
        str(_parser().get_default("out"))
    ]
    assert "\nsite: .venv/.core" in (ROOT / "Makefile").read_text()


def test_pages_are_dark_where_the_reader_prefers_it(whole, view):
    colours = []
    for scheme in ("light", "dark"):
        view.emulate_media(color_scheme=scheme)
        view.goto(address(whole, "index.html"))
        colours.append(view.evaluate("getComputedStyle(document.body).backgroundColor"))
    light, dark = ([int(part) for part in re.findall(r"\d+", colour)] for colour in colours)
    assert min(light) > 200
    assert max(dark) < 60


def test_a_served_site_follows_the_records_and_ends_with_ctrl_c(lab, tmp_path, browser):
    there = lab.copy(tmp_path)
    waiting = there.runs / "aside"
    (there.runs / lab.ids[1]).rename(waiting)
    (waiting / "record.json").rename(tmp_path / "record.json")
    (waiting / "progress.json").write_text('{"step": 40, "steps": 800}')
    waiting.rename(there.runs / lab.ids[1])
    command = [
        sys.executable,
        "-m",
        "study",
        "site",
        "--runs",
        there.runs,
        "--sweeps",
        there.top / "sweeps",
        "--serve",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            base = process.stdout.readline().split()[0]
            with pytest.raises(OSError, match="403"):
                urlopen(Request(base, headers={"Host": "example.org:80"}))
            with pytest.raises(OSError, match="404"):
                urlopen(f"{base}..%2f..%2fetc/passwd")
            page = browser.new_page()
            page.goto(base)
            assert "step 40 of 800" in page.locator("main").inner_text()
            (tmp_path / "record.json").rename(there.runs / lab.ids[1] / "record.json")
            page.get_by_text("Runs without a record").wait_for(state="detached", timeout=30_000)
            page.close()
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 130
        finally:
            process.kill()
