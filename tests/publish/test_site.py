"""The site: its data, its server, and its pages in a real browser, from the file system and from the server."""

import csv
import json
import re
import shutil
from collections import Counter
from itertools import chain

import pytest
import yaml
from published_lab import part_of_results

from study.__main__ import main
from study.errors import InputError
from study.folders import CHECKOUT as ROOT
from study.publish.pages import findings
from study.publish.site import output
from study.publish.site.content import MAPS, Content, address, html
from study.store.folder import Store
from study.store.manifest import Results
from study.store.rows import arm_of

RESULTS = ROOT / "results"
EVIL = '<img src=x onerror="window.hacked=1"></script><script>window.hacked=1</script>{{ 7*7 }}\''
SOURCE, TARGET = ["ein", "Wort", EVIL], ["a", "word", "</s>"]
ROUTES = ("", "claims", "claim/4a", "sweeps", "sweep/scaling", "table/scales", "runs", "sentences", "guide")
INACCESSIBLE = """() => {
  const names = one => [one.textContent, one.getAttribute('aria-label'), one.title, one.alt,
    one.closest('label')?.textContent];
  const mute = [...document.querySelectorAll('input, select, button, a[href], img, svg[role]')]
    .filter(one => !names(one).some(text => typeof text === 'string' && text.trim()));
  const heads = document.querySelectorAll('h1').length, ids = [...document.querySelectorAll('[id]')].map(one => one.id);
  return [...mute.map(one => one.outerHTML.slice(0, 80)), ...(heads === 1 ? [] : ['h1: ' + heads]),
    ...ids.filter((id, i) => ids.indexOf(id) !== i)];
}"""
"""Controls without a name, pages without one heading, and ids that repeat."""


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
def results(tmp_path_factory):
    """Published results of two sweeps."""
    return part_of_results(tmp_path_factory.mktemp("part"), "scaling", "hard_2")


@pytest.fixture(scope="module")
def whole(results, tmp_path_factory):
    """The site of these published results."""
    folder = tmp_path_factory.mktemp("whole") / "_site"
    output.write(Content(results, results.parent / "sweeps"), folder)
    return folder


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


def test_html_in_markdown_stays_text_and_pictures_are_left_out():
    assert html("a **b** <i>c</i>") == "<p>a <strong>b</strong> &lt;i&gt;c&lt;/i&gt;</p>\n"
    assert "<img" not in html("![a](http://example.org/x.png)")


def test_the_numbers_of_the_published_site_are_those_of_the_tables(whole, results):
    claims = {one["id"]: one["summary"]["verdict"] for one in data_of(whole, "site")["claims"]}
    assert claims == {row["id"]: row["verdict"] for row in rows("tables/summary.csv")}
    contrasts, found = rows("tables/contrasts.csv"), data_of(whole, "claims")["contrasts"]
    estimates = [float(row["difference"]) for row in contrasts if row["difference"]]
    assert estimates == [one["difference"] for one in found if "difference" in one]
    stored = Store(results).scores
    stored = stored[stored["subset"].isna() & stored["value"].notna()]
    columns = {
        name: [None if code < 0 else values[code] for code in codes]
        for name, (values, codes) in data_of(whole, "runs")["columns"].items()
    }
    place = {name: number for number, name in enumerate(columns["id"])}
    assert set(place) == set(stored["id"])
    for row in stored.itertuples():
        assert columns[f"{row.split}/{row.metric}"][place[row.id]] == row.value


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


def test_own_claims_stand_beside_those_of_the_study(finished, tmp_path):
    """The sweep lies beside the file of claims, and in no folder of sweeps."""
    lab = finished.copy(tmp_path / "there" / "lab")
    (lab.top / "sweeps" / "tiny.yaml").rename(tmp_path / "mine.yaml")
    score = "model.attention.score"
    question = {"sweep": "mine.yaml", "asked": ["grammar/recurrent"], "margin": 2}
    question |= {"contrasts": [{"arm": {score: "dot"}, "baseline": {score: "bilinear"}}]}
    entry = {"id": "mine", "slug": "my-claim", "statement": "dot beats bilinear", "type": "superiority"}
    (tmp_path / "claims.yaml").write_text(yaml.safe_dump({"claims": [{**entry, "questions": [question]}]}))
    command = ["site", "--runs", str(lab.runs), "--out", str(tmp_path / "site")]
    assert main([*command, "--claims", str(tmp_path / "claims.yaml")]) == 0
    claim = next(one for one in data_of(tmp_path / "site", "site")["claims"] if one["id"] == "mine")
    assert (claim["statement"], claim["sweeps"]) == ("dot beats bilinear", ["tiny"])
    assert data_of(tmp_path / "site", "claims")["contrasts"][0]["margin"] == 2


def test_every_kind_of_page_opens_without_errors_and_runs_no_text_of_a_record(lab, small, whole, view):
    first = lab.ids[0]
    routes = ["", "sweeps", "runs", "sentences", "guide", "sweep/tiny", f"arm/{arm_of(first)}"]
    for route in [*routes, *(f"run/{name}" for name in lab.ids)]:
        go(view, small, route)
        assert view.locator("h1").inner_text()
        assert not view.evaluate("window.hacked"), route
        assert not re.search(r"undefined|NaN|\[object", view.locator("main").inner_text()), route
        assert view.evaluate(INACCESSIBLE) == []
    assert EVIL in view.locator("main").inner_text()  # the failed run's error, as text
    assert view.locator("a[href^='javascript']").count() == 0
    published = data_of(whole, "runs")["columns"]["id"][0][0]
    for route in (*ROUTES, f"run/{published}", f"arm/{arm_of(published)}"):
        go(view, whole, route)
        assert view.locator("h1").inner_text() != "Not found"
        assert not re.search(r"undefined|NaN|\[object", view.locator("main").inner_text()), route
        assert view.evaluate(INACCESSIBLE) == []
        for size in ({"width": 400, "height": 844}, {"width": 1300, "height": 900}):
            view.set_viewport_size(size)
            assert view.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{route} is wider than {size}"
    assert view.locator(".curve path").count() >= 2
    go(view, whole, "claim/nothing")
    assert view.locator("h1").inner_text() == "Not found"


def test_the_first_page_has_findings_answers_and_the_picture_and_claims_are_found_by_words_and_by_verdict(whole, view):
    go(view, whole, "")
    assert (view.locator(".findings li").count(), view.locator("article.card").count()) == (3, 8)
    assert view.locator(".card .strip").count() == 8
    assert view.evaluate("document.documentElement.scrollHeight") < 2600
    view.wait_for_function(
        "document.images.length && [...document.images].every(one => one.complete && one.naturalWidth)"
    )
    view.set_viewport_size({"width": 1280, "height": 900})
    boxes = {name: view.locator(name).bounding_box() for name in (".findings", ".front img", ".cards")}
    assert boxes[".findings"]["x"] + boxes[".findings"]["width"] < boxes[".front img"]["x"]
    assert boxes[".cards"]["y"] + boxes[".cards"]["height"] < 900
    go(view, whole, "claims")
    shown = view.locator("section.claim:not([hidden])")
    count = shown.count()
    view.keyboard.press("/")
    view.keyboard.type("4b")
    assert shown.count() == 1
    assert shown.locator(".id").inner_text() == "4b"
    view.keyboard.press("Control+A")
    view.keyboard.press("Delete")
    view.locator(".chips button.fails").click()
    assert 0 < shown.count() < count
    assert set(shown.evaluate_all("all => all.map(one => one.dataset.word)")) == {"fails"}
    view.locator("section.claim:not([hidden]) h3 a").first.press("Enter")
    assert "#/claim/" in view.url


STRIPS = """() => [...document.querySelectorAll('.strip.forest')].map(strip => {
  const place = name => parseFloat(strip.querySelector(name)?.style.left), ci = strip.querySelector('.ci')?.style;
  return {edge: 46 / (50 - place('.band')), point: place('.point') || null,
    low: ci ? parseFloat(ci.left) : null, high: ci ? parseFloat(ci.left) + parseFloat(ci.width) : null,
    arrows: [...strip.querySelectorAll('.arrow')].map(one => one.classList[1]),
    far: [...strip.querySelectorAll('.far')].map(one => one.textContent)};
})"""
"""Places of the marks of every strip in % of its width; 4% and 96% are the ends of the axis, `edge` margins each."""


def test_a_card_shows_its_whole_interval_on_a_linear_axis_with_the_better_arm_on_the_left(whole, view):
    contrasts = {float(row["difference"]): row for row in rows("tables/contrasts.csv") if row["difference"]}
    go(view, whole, "")
    for card, answer in zip(view.evaluate(STRIPS), data_of(whole, "site")["answers"], strict=True):
        row = contrasts[answer["ends"][0] - answer["zero"]]
        assert answer["setting"].lower() == f"{row['corpus']}, {row['family']}"
        assert answer["margin"] == float(row["margin"]) * (-1 if row["metric"] == "test/free" else 1), "left is better"
        low, estimate, high = sorted((end - answer["zero"]) / answer["margin"] for end in answer["ends"])
        edge = max(2.5, 1.1 * max(-low, high))
        assert card["edge"] == pytest.approx(edge, rel=0.02)
        assert not card["arrows"]
        for place, effect in ((card["point"], estimate), (card["low"], low), (card["high"], high)):
            assert place == pytest.approx(50 + 46 * effect / edge, abs=0.02)


@pytest.mark.parametrize(("route", "edge"), [("claims", 10), ("claim/4a", 100), ("claim/4b", 10), ("claim/30", 20)])
def test_effects_of_a_page_share_a_linear_axis_in_margins_and_an_arrow_stands_for_what_lies_beyond(
    whole, view, route, edge
):
    go(view, whole, route)
    strips = view.evaluate(STRIPS)
    assert {round(strip["edge"], 1) for strip in strips} == {edge}
    for strip in strips:
        assert strip["point"] or strip["arrows"]
        if strip["low"] is not None:
            assert (strip["low"] <= 4) == ("left" in strip["arrows"])
            assert (strip["high"] >= 96) == ("right" in strip["arrows"])
    assert any(strip["arrows"] for strip in strips)
    if route == "claim/4a":  # its five questions that count: less NLL in four, more BLEU in one
        assert all(strip["arrows"] == ["left"] or strip["point"] < 50 for strip in strips[:5])


@pytest.mark.parametrize("width", [1280, 390])
def test_no_line_breaks_inside_an_interval_or_a_scale(whole, view, width):
    view.set_viewport_size({"width": width, "height": 900})
    for route in ("", "claims", "claim/4b", "sweep/scaling"):
        go(view, whole, route)
        view.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        lines = view.evaluate("""() => {
          const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT), lines = [];
          for (let text; (text = walker.nextNode());)
            for (const found of text.data.matchAll(/\\[[^\\]]*\\d, [^\\]]*\\]|1\\/√?d/g)) {
              const range = document.createRange();
              range.setStart(text, found.index);
              range.setEnd(text, found.index + found[0].length);
              lines.push([found[0], new Set([...range.getClientRects()].map(box => Math.round(box.top))).size]);
            }
          return lines; }""")
        assert len(lines) >= 8, route
        assert [text for text, count in lines if count > 1] == [], route


def test_a_claim_leads_to_those_that_use_the_same_sweeps(whole, view):
    """Two sweeps are published here; claims 3, 4a and 24 use the first, and 18 alone the second."""
    for identity, others in (("4a", ["3", "24"]), ("18", [])):
        go(view, whole, f"claim/{identity}")
        links = view.locator("#related a").evaluate_all("all => all.map(one => one.hash)")
        assert links == [f"#/claim/{other}" for other in others]


def test_the_page_of_a_claim_shows_its_finding_and_the_questions_that_count_first(whole, view):
    scale = data_of(whole, "site")["findings"][0]
    assert scale["claims"] == ["30", "4b"]
    for identity, count in (("4b", 1), ("30", 1), ("3", 0)):
        go(view, whole, f"claim/{identity}")
        assert view.locator("main div.finding").count() == count, identity
    go(view, whole, "claim/30")
    card = dict(zip(*(view.locator(f".verdict {part}").all_inner_texts() for part in ("dt", "dd")), strict=True))
    assert list(card)[2:] == ["what keeps it from holding", "what would change it"]
    assert card["in the literature"].endswith("(Yang 2021)")
    short = card["in short: Is 1/d better than 1/√d at d = 1,024?"]
    assert short.startswith("In short training.")
    assert short.endswith("(grammar, transformer)")
    weakest = next(row for row in rows("tables/summary.csv") if row["id"] == "30")
    assert weakest["asked"] in card["what keeps it from holding"]
    texts = view.locator("div.finding").inner_text().split("\n\n")
    assert texts[:2] == [scale["title"], scale["number"]]
    assert texts[2].startswith(scale["text"])
    asked = [row for row in rows("tables/contrasts.csv") if row["id"] == "30" and row["decides"] == "True"]
    voting = [row for row in asked if not row["no_vote"]]
    assert view.locator(".forestplot .row:visible:not(.heading)").count() == len(voting) < len(asked)
    view.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    counted = ["not counted" not in text for text in view.locator(".forestplot .mark").all_inner_texts()]
    assert counted == sorted(counted, reverse=True)
    assert set(counted) == {True, False}
    view.locator("div.finding a").first.click()
    view.wait_for_selector('body[data-route="#/table/scale_rates_multi30k"]')
    assert view.locator("main td").count() > 10


@pytest.mark.parametrize("route", ["claims", "claim/4a"])
def test_a_row_of_a_claim_leads_to_the_runs_of_its_arms_and_an_arrow_has_its_size(whole, view, route):
    wanted = [row for row in rows("tables/contrasts.csv") if row["id"] == "4a" and row["decides"] == "True"]
    wanted.sort(key=lambda row: bool(row["no_vote"]))
    if route == "claims":  # first the question on which the verdict rests
        summary = next(row for row in rows("tables/summary.csv") if row["id"] == "4a")
        wanted.sort(key=lambda row: (row["asked"], row["contrast"]) != (summary["asked"], summary["contrast"]))
    go(view, whole, route)
    if route == "claims":
        assert view.locator("section.claim .row:visible").count() <= 30
    view.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    scope = "section.claim:has(a[href='#/claim/4a'])" if route == "claims" else "main"
    made = view.locator(f"{scope} .row:not(.heading)")
    assert made.count() == len(wanted) > 5
    arrows = 0
    for line, row in zip(made.all(), wanted, strict=True):
        arms = Counter(map(arm_of, row["runs"].split()))
        links = line.locator(".what a")
        assert links.evaluate_all("all => all.map(one => [one.hash, one.textContent])") == [
            [f"#/arm/{arm}", str(count)] for arm, count in arms.items()
        ]
        assert f"runs: {' + '.join(map(str, arms.values()))}" in line.inner_text()
        size = float(row["difference"]) / float(row["margin"]) if row["margin"] else 0
        if row["low"] and abs(size) > (10 if route == "claims" else 100):
            assert line.locator(".far").inner_text() == f"{abs(size):.0f}"
            arrows += 1
    assert arrows


def test_an_open_claim_says_why_and_leads_to_the_rule(whole, view):
    """Of the questions of claim 2 three hold, one is open and none fails; those of 4a all hold."""
    for route, scope in (("claims", "section.claim:has(a[href='#/claim/2'])"), ("claim/2", "main")):
        go(view, whole, route)
        assert view.locator(scope).get_by_text("3 of 4 questions hold. A claim is open while").count() == 1
    view.get_by_role("link", name="rules").click()
    view.wait_for_selector('body[data-route="#/guide/verdicts-of-claims"]')
    view.wait_for_function(
        "Math.abs([...document.querySelectorAll('h3')].find(one => one.textContent == 'Verdicts of claims')"
        ".getBoundingClientRect().top) < 100"
    )
    go(view, whole, "claim/4a")
    assert view.get_by_text("A claim is open while").count() == 0


def test_a_sweep_says_its_fields_in_words(whole, view):
    go(view, whole, "sweep/scaling")
    view.get_by_text("The plan, as it was declared").click()
    assert view.locator("details dl").inner_text().split("\n") == ["logit_init=matched", "logits start at sd 1"]


def test_a_sweep_shows_the_questions_of_claims_that_its_arms_answer(whole, view):
    """Each row leads to the two arms, and has the interval that the claim has."""
    arms = {arm_of(run) for arm in data_of(whole, "sweep/scaling")["arms"] for run in arm["runs"]}
    asks = [row for row in rows("tables/contrasts.csv") if row["decides"] == "True" and row["low"]]
    wanted = [row for row in asks if {*map(arm_of, row["runs"].split())} <= arms]
    go(view, whole, "sweep/scaling")
    view.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    made = view.locator(".forestplot .row:not(.heading)")
    assert made.count() == len(wanted) > 3
    texts = " ".join(made.all_inner_texts())
    for row in wanted:
        assert row["asked"] in texts
        assert f"[{float(row['low']):+.3f}".replace("-", "−") in texts


def test_findings_name_claims_of_the_study(results):
    claims = {row["id"] for row in rows("tables/summary.csv")}
    named = [finding.claims for finding in findings(Results(results))]
    assert any(named)
    assert claims.issuperset(chain(*named))


@pytest.mark.parametrize("width", [1280, 390])
def test_each_entry_of_the_menu_shows_its_page_from_the_top(whole, view, width):
    """By click, and by address in a tab of its own. The heading is in view, and nothing of the page lies beside it."""
    view.set_viewport_size({"width": width, "height": 844})
    go(view, whole, "")
    entries = view.locator("header nav a").evaluate_all("all => all.map(one => [one.textContent, one.hash])")
    assert len(entries) == 6
    for text, hash_ in entries:
        for fresh in (False, True):
            view.evaluate("scrollTo(0, document.body.scrollHeight)")
            if fresh:
                view.goto("about:blank")
                view.goto((whole / "index.html").as_uri() + hash_)
            else:
                view.locator("header nav a", has_text=text).first.click()
            view.wait_for_selector(f'body[data-route="{hash_}"]')
            view.wait_for_function("[...document.images].every(one => one.complete || one.loading == 'lazy')")
            top = view.locator("h1").evaluate("one => one.getBoundingClientRect().top")
            assert 0 <= top < 844 / 2, (text, top)
            assert view.evaluate("document.documentElement.scrollWidth <= innerWidth"), text


def test_the_first_page_has_few_tab_stops(whole, view):
    """A dot is a link for the mouse; by keyboard its run is reached from the page of its arm."""
    go(view, whole, "")
    view.wait_for_selector("article.card")
    stops = "[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')]"
    assert view.evaluate(f"{stops}.filter(one => one.tabIndex >= 0).length") <= 60


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
    kept = view.url
    view.goto("about:blank")
    view.goto(kept)
    view.wait_for_selector("table.runs tbody a")
    assert column("test/exact") == found
    rows.first.locator("a").click()
    assert "#/run/" in view.url


def test_a_search_of_runs_takes_hyphen_underscore_and_blank_as_the_same_and_says_that_nothing_matches(whole, view):
    go(view, whole, "runs")
    status, box = view.locator("[role=status]"), view.locator("#query")
    counts = {}
    same = ("hard_2", "hard-2", "key_width=512", "key-width=512", "key_width_512", "key-width-512")
    for text in (*same, "family=trans-former"):
        box.fill(text)
        counts[text] = status.inner_text()
    total = counts["key_width_512"].partition(" of ")[2]
    hard = {run for arm in data_of(whole, "sweep/hard_2")["arms"] for run in arm["runs"]}
    assert counts["hard-2"] == counts["hard_2"] == f"{len(hard)} of {total}"
    assert counts["key-width=512"] == counts["key_width=512"] != f"0 of {total}"
    assert counts["key-width-512"] == counts["key_width_512"] != f"0 of {total}"
    assert counts["family=trans-former"] == "No run matches. Try decoder_only or scale=none."
    assert view.locator("table.runs tbody tr").count() == 0
    box.fill("scale=none")
    assert re.fullmatch(r"[1-9]\d* of .*", status.inner_text())


def test_on_a_phone_a_run_shows_a_score_beside_its_name_and_all_its_sweeps(whole, view):
    view.set_viewport_size({"width": 390, "height": 844})
    go(view, whole, "runs")
    cells = view.locator("table.runs tbody tr:not(.space)").first.locator("td")
    assert float(cells.nth(1).inner_text()) > 0
    assert cells.nth(1).evaluate("one => one.getBoundingClientRect().right") < 390
    place = view.locator("table.runs thead th").evaluate_all("all => all.map(one => one.title)").index("sweeps")
    many = "draws draws_10 heads_2 inverse_scale learned_scale scale_parts shorter transfer_grammar"
    cells.nth(place).evaluate("(one, text) => { one.textContent = text; }", many)
    assert cells.nth(place).evaluate(
        "one => one.clientHeight >= one.scrollHeight && one.clientWidth >= one.scrollWidth"
    )


def test_runs_come_in_the_order_of_claims_and_no_name_is_cut(whole, view):
    """Claim 3 has the sweep scaling, claim 18 has hard_2."""
    go(view, whole, "runs")
    first = view.locator("table.runs tbody a").first
    arm = data_of(whole, "sweep/scaling")["arms"][0]
    assert first.get_attribute("href") == f"#/run/{arm['runs'][0]}"
    names = view.locator("table.runs td:first-child")
    label = "learning rate 0.01, logits start as with 1/√d, W_Q and W_K learn at d^−½ of the rate"
    longest = f"{label}, {label}"[:110]
    for width in (1280, 390):
        view.set_viewport_size({"width": width, "height": 900})
        names.first.locator("a").evaluate("(one, text) => { one.textContent = text; }", longest)
        assert names.first.evaluate(
            "one => [one.clientHeight >= one.scrollHeight, one.clientWidth >= one.scrollWidth]"
        ) == [
            True,
            True,
        ]


def test_sweeps_come_in_the_order_of_claims_and_none_is_cut_on_a_phone(whole, view):
    """Claim 3 has the sweep scaling, claim 18 has hard_2."""
    view.set_viewport_size({"width": 390, "height": 844})
    go(view, whole, "sweeps")
    assert view.locator("main td:first-child a").all_inner_texts() == ["scaling", "hard_2"]
    assert view.locator("main .wide").evaluate("one => one.scrollWidth <= one.clientWidth")


@pytest.mark.parametrize("route", ["runs", "sweeps", "sweep/scaling", "table/scales"])
def test_the_last_column_of_a_table_is_reached_on_a_phone(whole, view, route):
    view.set_viewport_size({"width": 390, "height": 844})
    go(view, whole, route)
    for box in view.locator("main .wide:has(table)").all():
        box.evaluate("one => { one.scrollLeft = one.scrollWidth; }")
        right = box.locator("th").last.evaluate("one => one.getBoundingClientRect().right")
        assert right <= box.evaluate("one => one.getBoundingClientRect().left + one.clientWidth") + 1
        assert right <= 390


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

    view.set_viewport_size({"width": 1280, "height": 900})
    view.locator("table.map").first.evaluate("""one => {
      const add = (row, many) => row.append(...Array.from({length: many}, () => row.lastElementChild.cloneNode(true)));
      [...one.rows].forEach(row => add(row, 16));
      one.style.setProperty('--columns', one.rows[0].cells.length - 1);
    }""")  # a sentence of twenty words
    box = view.locator("figure .wide").first
    assert box.evaluate("one => one.scrollWidth <= one.clientWidth")
    go(view, small, f"sentences?run={first}&with={second}&item=test")
    view.wait_for_function("document.querySelectorAll('table.map').length == 2")  # both records have this one map
    assert EVIL in view.locator("table.map").first.inner_text()
    assert not view.evaluate("window.hacked")
    assert view.locator("table.map td.gold").count() == 2
