"""The site: its data, its server, and its pages in a real browser, from the file system and from the server."""

import csv
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import numpy as np
import pytest
import yaml

from study.__main__ import main
from study.attention import Lengths
from study.config import experiment_from
from study.corpora import load as load_corpus
from study.errors import InputError
from study.files import CHECKOUT as ROOT
from study.models import build
from study.publish.site import output
from study.publish.site.content import MAPS, Content
from study.publish.site.pages import address, tree_of
from study.store import arm_of
from study.training.alignment import attention_map
from study.training.batches import Example
from study.training.checkpoint import save_model
from study.training.translation import Trained, read, sentence_maps
from study.training.vocabulary import Words

RESULTS = ROOT / "results"
EVIL = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>{{ 7*7 }}\''
SOURCE, TARGET = ["ein", "Wort", EVIL], ["a", "word", "</s>"]
ROUTES = ("", "claims", "claim/4", "sweeps", "sweep/scaling", "runs", "sentences", "guide")
PARENTS = {
    "row": {"table", "rowgroup", "grid", "treegrid"}, "cell": {"row"}, "gridcell": {"row"}, "columnheader": {"row"},
    "rowheader": {"row"}, "rowgroup": {"table", "grid", "treegrid"}, "listitem": {"list"},
}  # fmt: skip
"""Role ↦ the roles that WAI-ARIA asks of the nearest ancestor that has one."""
BADLY_NESTED = """parents => {
  const tags = {TR: 'row', TD: 'cell', TH: 'columnheader', THEAD: 'rowgroup', TBODY: 'rowgroup', TABLE: 'table',
    UL: 'list', OL: 'list', LI: 'listitem', SECTION: 'region', FIGURE: 'figure',
    NAV: 'navigation', FORM: 'form', H3: 'heading'};
  const role = one => one.getAttribute('role') || tags[one.tagName];
  const wrong = [...document.querySelectorAll('[role], tr, td, th, thead, tbody, li')].filter(one => {
    let above = one.parentElement;
    while (above && !role(above)) above = above.parentElement;
    const wanted = parents[role(one)];
    return wanted && !(above && wanted.includes(role(above)));
  }).map(one => one.outerHTML.slice(0, 80));
  const label = one => one.closest('label')?.textContent;
  const names = one => [one.textContent, one.getAttribute('aria-label'), one.title, one.alt, label(one)];
  const named = one => names(one).some(text => typeof text === 'string' && text.trim());
  const asked = document.querySelectorAll('input, select, button, a[href], img, svg[role]');
  const mute = [...asked].filter(one => !named(one));
  const heads = [...document.querySelectorAll('h1')];
  const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
  return [...wrong, ...mute.map(one => 'no name: ' + one.outerHTML.slice(0, 80)),
    ...(heads.length === 1 ? [] : ['h1: ' + heads.length]),
    ...ids.filter((id, i) => ids.indexOf(id) !== i)];
}"""


def data_of(folder, name):
    """Return the data that a script hands to the page."""
    text = (folder / "data" / f"{address(name)}.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix(f'site.put("{name}",').removesuffix(")\n"))


def rows(name):
    with (RESULTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


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
    heads = [
        {"site": site, "layer": layer, "head": head, "weights": weights(rows, columns, layer + 2 * head)}
        for site, rows, columns in (("cross", 3, 4), ("encoder_self", 4, 4))
        for layer in (0, 1)
        for head in (0, 1)
    ]
    item = {"split": "test", "line": 4, "forced": False, "source": list("WXYZ"), "target": TARGET, "gold": []}
    (lab.runs / first / MAPS).write_text(json.dumps({"sentences": [item | {"maps": heads}]}))
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
def content():
    """The published results."""
    return Content(RESULTS, ROOT / "sweeps")


@pytest.fixture(scope="module")
def whole(content, tmp_path_factory):
    """The site of the published results."""
    folder = tmp_path_factory.mktemp("whole") / "_site"
    output.write(content, folder)
    return folder


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium: the system's, else the one of Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    system = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    with playwright.sync_playwright() as driver:
        if system is None and not Path(driver.chromium.executable_path).is_file():
            pytest.skip("no Chromium: install your system's, or run `playwright install chromium`")
        browser = driver.chromium.launch(args=["--no-sandbox"], executable_path=system)
        yield browser
        browser.close()


@pytest.fixture
def view(browser):
    """Opens pages in one tab; afterwards no page has had an error or left this machine."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
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


def go(page, folder, route):
    """Open a route of a site, and wait until it is drawn."""
    address = (folder / "index.html").as_uri()
    if page.url.partition("#")[0] == address:
        page.evaluate("route => { location.hash = route; }", f"#/{route}")
    else:
        page.goto(f"{address}#/{route}")
    page.wait_for_selector(f'body[data-route="#/{route}"]')


def test_names_become_parts_of_addresses_that_differ():
    assert address("arm/grammar-recurrent-dot-0123abcd") == "arm/grammar-recurrent-dot-0123abcd"
    assert address("sweep/a b?#é\\") == "sweep/a~20~b~3f~~23~~e9~~5c~"
    assert address("sweep/../../x") == "sweep/..~2f~..~2f~x"
    assert address("sweep/a~20~b") != address("sweep/a b")


def test_markdown_becomes_data_and_html_in_it_stays_text():
    assert tree_of("a **b** <i>c</i>") == [["p", None, "a ", ["strong", None, "b"], " <i>c</i>"]]
    assert tree_of("| a | b |\n| --- | --: |\n| [x](y) | 1 |")[0][3][2][2:] == [
        ["td", None, ["a", "y", "x"]], ["td", "right", "1"],
    ]  # fmt: skip


def test_the_published_site_is_small_and_its_numbers_are_those_of_the_tables(whole, content):
    sizes = {path.relative_to(whole).as_posix(): path.stat().st_size for path in whole.rglob("*") if path.is_file()}
    assert len([name for name in sizes if not name.startswith("data/")]) <= 60
    assert sum(sizes.values()) < 25e6
    main = data_of(whole, "site")
    summary = {row["id"]: row for row in rows("tables/summary.csv")}
    assert {one["id"]: one["summary"]["verdict"] for one in main["claims"]} == {
        name: row["verdict"] for name, row in summary.items()
    }
    contrasts = rows("tables/contrasts.csv")
    found = data_of(whole, "claims")["contrasts"]
    assert [float(row["difference"]) for row in contrasts if row["difference"]] == [
        one["difference"] for one in found if "difference" in one
    ]
    stored = content.store.scores
    stored = stored[stored["subset"].isna() & stored["value"].notna()].to_dict("records")
    columns = {name: cells(*column) for name, column in data_of(whole, "runs")["columns"].items()}
    place = {name: number for number, name in enumerate(columns["id"])}
    assert len(place) == len({row["id"] for row in stored})
    for row in stored[::50]:
        shown = columns[f"{row['split']}/{row['metric']}"][place[row["id"]]]
        assert shown == pytest.approx(row["value"], rel=1e-5)


def cells(values, codes):
    """A column of the table of runs."""
    return [None if code < 0 else values[code] for code in codes]


def test_a_site_replaces_itself_and_nothing_else(lab, small, tmp_path):
    folder = tmp_path / "site"
    shutil.copytree(small, folder)
    (folder / "mine.txt").write_text("kept")
    (folder / "data" / "old.js").write_text("")
    (folder / "data" / "runs.js").write_text("changed")
    content = Content(lab.runs, lab.top / "sweeps")
    output.write(content, folder)
    (folder / "mine.txt").unlink()
    there = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert there == {path.relative_to(small): path.read_bytes() for path in small.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="other files"):
        output.write(content, lab.top)


def test_own_claims_stand_beside_those_of_the_study(finished, tmp_path, capsys):
    """The sweep lies beside the file of claims, and in no folder of sweeps."""
    (tmp_path / "none").mkdir()
    lab = finished.copy(tmp_path / "there" / "lab")
    shutil.copy(lab.top / "sweeps" / "tiny.yaml", tmp_path / "mine.yaml")
    score = "model.attention.score"
    question = {"sweep": "mine.yaml", "asked": ["grammar/recurrent"], "margin": 2}
    question |= {"contrasts": [{"arm": {score: "dot"}, "baseline": {score: "bilinear"}}]}
    entry = {"id": "mine", "slug": "my-claim", "statement": "dot beats bilinear", "type": "superiority"}
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump({"claims": [{**entry, "questions": [question]}]}))
    command = ["site", "--runs", str(lab.runs), "--sweeps", str(tmp_path / "none"), "--out", str(tmp_path / "site")]
    assert main([*command, "--claims", str(tmp_path / "claims.yaml")]) == 0
    claim = next(one for one in data_of(tmp_path / "site", "site")["claims"] if one["id"] == "mine")
    assert (claim["statement"], claim["sweeps"]) == ("dot beats bilinear", ["tiny"])
    assert data_of(tmp_path / "site", "claims")["contrasts"][0]["margin"] == 2
    assert main([*command, "--claims", str(tmp_path / "nothing.yaml")]) == 2
    assert "no such file of claims" in capsys.readouterr().err
    assert main([*command[:-1], "/proc/x", "--claims", str(tmp_path / "nothing.yaml")]) == 2
    assert "/proc/x: cannot be written" in capsys.readouterr().err, "this is checked first"


def test_a_sweep_beside_the_runs_is_shown(finished, tmp_path):
    lab = finished.copy(tmp_path / "lab")
    shutil.copy(lab.top / "sweeps" / "tiny.yaml", lab.runs.parent / "tiny.yaml")
    (lab.runs.parent / "other.yaml").write_text("[")
    (one,) = Content(lab.runs, tmp_path / "none").sweeps
    assert (one["name"], len(one["arms"]), bool(one["numbers"])) == ("tiny", 2, True)


def test_maps_that_are_no_data_are_refused(lab, tmp_path):
    other = lab.copy(tmp_path)
    for bad in ("[" * 10**5, "</script>", '{"sentences": [NaN]}'):
        (other.runs / lab.ids[0] / MAPS).write_text(bad)
        with pytest.raises(InputError, match=r"expected (JSON|finite numbers)"):
            output.write(Content(other.runs, other.top / "sweeps"), tmp_path / "site")


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
    assert cell.id in data_of(tmp_path / "_site", f"maps/{arm_of(cell.id)}")


def test_published_maps_are_what_published_models_draw(content):
    name = "grammar-transformer-dot-dc42eab8-s1"
    trained, texts = read(content.store.model(name), name), content.texts(name)
    made = sentence_maps(trained, texts.pairs[:1], content.translations(name, texts))
    for one, there in zip(made[0]["maps"], content.maps(name)[MAPS]["sentences"][0]["maps"], strict=True):
        assert np.allclose(one["weights"], there["weights"], atol=2)  # 0.002: processors differ in the last bits


def test_the_workflow_publishes_what_make_writes():
    steps = yaml.safe_load((ROOT / ".github/workflows/pages.yml").read_text())["jobs"]["pages"]["steps"]
    assert {"run": "make site"} in steps
    assert [step["with"]["path"] for step in steps if "upload" in step.get("uses", "")] == ["_site"]
    assert "\nsite: .venv/.core" in (ROOT / "Makefile").read_text()


def test_one_bad_file_does_not_end_a_served_site(finished, tmp_path):
    lab, said, site = finished.copy(tmp_path), [], tmp_path / "site"

    def refresh(version):
        return output.refresh(lambda: Content(lab.runs, lab.top / "sweeps"), lab.runs, site, version, said.append)

    version = refresh("")
    assert said.pop().startswith("built")
    assert refresh(version) == version
    assert said == []
    open_ = lab.runs / "grammar-recurrent-dot-01234567-s9"
    open_.mkdir()
    (open_ / "progress.json").write_text("[" * 10**5)
    os.mkfifo(open_ / "history.jsonl")
    os.mkdir(os.fsencode(lab.runs) + b"/\xff-s1")
    (Path(os.fsdecode(os.fsencode(lab.runs) + b"/\xff-s1")) / "progress.json").write_text("{}")
    version = refresh(version)
    assert said.pop().startswith("built")
    before = (site / "version").read_bytes()
    assert open_.name in data_of(site, "runs")["columns"]["id"][0]
    record = lab.runs / lab.ids[0] / "record.json"
    for bad in ("[" * 10**5, "{}", '{"id": 5}'):
        record.write_text(bad)
        version = refresh(version)
        assert len(said) == 1
        assert said.pop().startswith("not built: ")
        assert (site / "version").read_bytes() == before


@pytest.fixture(scope="module")
def served(lab, tmp_path_factory):
    """Address of a site that a process serves, its folder of runs, and the process."""
    there = lab.copy(tmp_path_factory.mktemp("served"))
    waiting = there.runs / "aside"
    (there.runs / lab.ids[1]).rename(waiting)
    (waiting / "record.json").rename(there.top / "record.json")
    (waiting / "progress.json").write_text('{"step": 40, "steps": 800}')
    waiting.rename(there.runs / lab.ids[1])
    command = [sys.executable, "-m", "study", "site", "--runs", there.runs, "--sweeps", there.top / "sweeps"]
    with subprocess.Popen([*command, "--serve", "0"], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout.readline().startswith("built")
            yield process.stdout.readline().split()[0], there, process
        finally:
            process.kill()


def test_served_data_are_for_its_own_pages(served):
    base = served[0]
    for path, headers, status in (
        ("", {"Host": "example.org:80"}, 403),
        ("data/", {}, 404),
        ("..%2f..%2fetc/passwd", {}, 404),
    ):
        with pytest.raises(HTTPError) as refused:
            urlopen(Request(base + path, headers=headers))
        assert refused.value.code == status, (path, headers)
    with urlopen(base + "data/runs.js") as answer:
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_every_kind_of_page_opens_without_errors_and_runs_no_text_of_a_record(lab, small, whole, view):
    first = lab.ids[0]
    routes = ["", "sweeps", "runs", "sentences", "guide", "sweep/tiny", f"arm/{arm_of(first)}"]
    for route in [*routes, *(f"run/{name}" for name in lab.ids)]:
        go(view, small, route)
        assert view.locator("h1").inner_text()
        assert not view.evaluate("window.hacked"), route
        assert view.evaluate(BADLY_NESTED, {k: list(v) for k, v in PARENTS.items()}) == []
    assert EVIL in view.locator("main").inner_text()  # the failed run's error, as text
    assert view.locator("a[href^='javascript']").count() == 0
    published = data_of(whole, "runs")["columns"]["id"][0][0]
    for size in ({"width": 1300, "height": 900}, {"width": 400, "height": 844}):
        view.set_viewport_size(size)
        for route in (*ROUTES, f"arm/{arm_of(published)}", f"run/{published}"):
            go(view, whole, route)
            assert view.locator("h1").inner_text() != "Not found"
            assert view.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{route} is wider than {size}"
            assert view.evaluate(BADLY_NESTED, {k: list(v) for k, v in PARENTS.items()}) == []
    go(view, whole, f"arm/{arm_of(published)}")
    assert view.locator(".curve path").count() >= 2
    go(view, whole, "claim/nothing")
    assert view.locator("h1").inner_text() == "Not found"


def test_the_first_page_answers_the_questions_with_a_figure_each(whole, view):
    go(view, whole, "")
    sections = view.locator("section.answer")
    view.wait_for_function(
        "[...document.querySelectorAll('.answer figure')].every(one => one.querySelector('img, .row'))"
    )
    assert sections.count() == 8
    for place in range(8):
        sections.nth(place).scroll_into_view_if_needed()
    view.wait_for_function("[...document.images].every(one => one.complete && one.naturalWidth)")
    tops = view.evaluate("['.answer', '.claim'].map(one => document.querySelector(one).getBoundingClientRect().top)")
    assert tops[0] < tops[1], "answers first, then claims"


def test_estimates_lie_at_asinh_of_their_margins(whole, view):
    claims = data_of(whole, "site")["claims"]
    place, row = next((i, one["summary"]) for i, one in enumerate(claims) if one["id"] == "3")
    go(view, whole, "")
    style = view.locator("section.claim").nth(place).locator(".point").get_attribute("style")
    expected = 50 + 50 * math.asinh(row["difference"] / row["margin"]) / math.asinh(25)
    assert float(re.search(r"left: ([\d.]+)%", style)[1]) == pytest.approx(expected, abs=0.01)
    assert expected != 50


def test_claims_are_found_by_words_and_by_verdict(whole, view):
    go(view, whole, "")
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
    assert "#/claim/" in view.url


def test_runs_scroll_without_an_element_each_are_found_sorted_and_kept_in_the_address(whole, view):
    go(view, whole, "runs")
    rows = view.locator("table.runs tbody tr:not(.space)")
    count = len(data_of(whole, "runs")["columns"]["id"][1])
    assert view.locator("[role=status]").inner_text() == f"{count} of {count} runs"
    assert view.evaluate("document.querySelectorAll('main *').length") < 3000
    first = rows.first.inner_text()
    view.locator(".scroll").evaluate("one => { one.scrollTop = one.scrollHeight; }")
    view.wait_for_function(f"document.querySelector('tr[aria-rowindex=\"{count + 1}\"]')")
    assert rows.first.inner_text() != first
    assert rows.count() < 100
    view.locator("#query").fill("scaling family=recurrent key_width=512 test/exact>80")
    exact = view.locator("table.runs th", has_text="exact match").locator("button")
    exact.focus()
    view.keyboard.press("Enter")
    view.keyboard.press("Enter")

    def column(name):
        place = view.locator("table.runs thead th").evaluate_all("all => all.map(one => one.title)").index(name)
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
    view.wait_for_selector("table.runs tbody a")
    assert column("test/exact") == found
    assert "model.attention.cross.scale" in view.locator("table.runs thead").inner_text()
    rows.first.locator("a").click()
    assert "#/run/" in view.url


def test_a_map_is_drawn_and_changes_with_the_head(lab, small, view):
    first, second = lab.ids[0], lab.ids[1]
    go(view, small, f"sentences?run={first}&with={second}&item=test%3A4&site=cross&layer=1&head=0")
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
    go(view, small, f"sentences?run={first}&with={second}&item=test")
    view.wait_for_function("document.querySelectorAll('table.map').length == 2")  # both records have this one map
    assert EVIL in view.locator("table.map").first.inner_text()
    assert not view.evaluate("window.hacked")
    assert view.locator("table.map td.gold").count() == 2
    view.locator(".pair figcaption b").first.evaluate("one => one.textContent = 'a long title '.repeat(9)")
    left, right = view.locator("table.map").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
    assert left == right, "the maps begin at one height"


def test_pages_are_dark_where_the_reader_prefers_it(whole, view):
    colours = []
    for scheme in ("light", "dark"):
        view.emulate_media(color_scheme=scheme)
        go(view, whole, "")
        colours.append(view.evaluate("getComputedStyle(document.body).backgroundColor"))
    light, dark = ([int(part) for part in re.findall(r"\d+", colour)] for colour in colours)
    assert min(light) > 200
    assert max(dark) < 60


def test_another_page_cannot_read_what_is_served(served, tmp_path, browser):
    base = served[0]
    (tmp_path / "thief.html").write_text(
        "<script>var got = []; var site = { put: (name) => got.push(name) };</script>"
        f'<script src="{base}data/runs.js"></script><script src="{base}data/site.js"></script>'
    )
    page = browser.new_page()
    page.goto((tmp_path / "thief.html").as_uri())
    assert page.evaluate("got") == []
    page.close()


def test_a_served_site_follows_the_records_and_ends_with_ctrl_c(lab, served, browser):
    base, there, process = served
    page = browser.new_page()
    page.goto(base)
    page.get_by_text("step 40 of 800").wait_for()
    page.goto(f"{base}#/run/{quote(lab.ids[1])}")
    page.goto(base)
    (there.top / "record.json").rename(there.runs / lab.ids[1] / "record.json")
    page.get_by_text("Runs without a record").wait_for(state="detached", timeout=30_000)
    page.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
