"""`study fetch results`: from a folder, an archive and a server, with a package that has no checkout."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from email import message_from_string
from hashlib import sha256

import pytest
from processes import output_of
from wheel import installed

from study.folders import CHECKOUT, PUBLISHED
from study.publish import fetch

PAGE = "docs/verdicts.md"


class Server(http.server.ThreadingHTTPServer):
    """Serves the checkout below /someone/study/raw/main; after `left` files it has no more."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(CHECKOUT)))
        self.asked, self.left = [], 10**6

    @property
    def repository(self):
        return f"http://127.0.0.1:{self.server_port}/someone/study"


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        start, _, name = self.path.partition("/raw/main/")
        self.server.asked.append(name)
        self.server.left -= 1
        self.path = f"/{name}"
        if start != "/someone/study" or self.server.left < 0:
            self.send_error(404)
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture(scope="module")
def study(server, tmp_path_factory):
    """Function that calls an installed package in a folder: status, standard output, standard error."""
    site = installed(tmp_path_factory.mktemp("wheel"), server.repository)

    def call(folder, *words):
        script = f"import sys; sys.path.insert(0, {str(site)!r}); from study.__main__ import main; sys.exit(main())"
        command = [sys.executable, "-P", "-c", script, *words]
        done = subprocess.run(command, cwd=folder, env=os.environ, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    call.site = site
    return call


def test_a_fetch_that_was_interrupted_continues(study, server, tmp_path):
    """The folder appears when it is whole; no file comes twice, and a damaged one again."""
    wanted = fetch.registry()
    server.left = 9
    status, out, error = study(tmp_path, "fetch", "results")
    assert (status, out, error.count("\n")) == (2, "", 1)
    assert "the fetch continues" in error
    assert [path.name for path in tmp_path.iterdir()] == [fetch.STAGING.name]
    first, server.asked[:], server.left = dict.fromkeys(server.asked), [], 10**6
    (damaged, *_) = first
    (tmp_path / fetch.STAGING / damaged).write_text("damaged")
    (tmp_path / fetch.STAGING / "results" / "tmpleft").touch()  # as a killed download leaves one
    status, out, _ = study(tmp_path, "fetch", "results")
    assert (status, out[:17]) == (0, "results: fetched,")
    assert sorted([*server.asked, *first]) == sorted([*wanted, damaged, list(first)[-1]])
    assert {path.name for path in tmp_path.iterdir()} == {"docs", "results"}
    there = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert there == wanted.keys()
    server.asked.clear()
    assert study(tmp_path, "fetch", "results")[1].startswith("results: here already")
    assert server.asked == []


def test_nothing_of_the_users_is_replaced(study, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / PAGE).write_text("mine")
    for name in (PAGE, "results"):
        status, _, error = study(tmp_path, "fetch", "results", "--from", CHECKOUT)
        assert (status, error.count("\n")) == (2, 1)
        assert error.startswith(f"study: {name}: expected none")
        (tmp_path / PAGE).unlink(missing_ok=True)
        (tmp_path / "results").mkdir(exist_ok=True)
    assert [*tmp_path.rglob("*.parquet")] == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("nowhere", "got nowhere, which has no results/manifest.json"),
        ("file.zip", "got file.zip, which has no results/manifest.json"),
        ("part", "expected results/README.md of version"),
        ("http://127.0.0.1:1", "expected docs/verdicts.md of version"),
        ("gopher://x", "expected docs/verdicts.md of version"),
    ],
)
def test_a_place_without_the_results_of_this_version_is_named(place, said, study, tmp_path):
    (tmp_path / "file.zip").write_bytes(b"no archive")
    for name in ("results/manifest.json", PAGE):
        (tmp_path / "part" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / "part" / name)
    status, _, error = study(tmp_path, "fetch", "results", "--from", place)
    assert (status, error.count("\n")) == (2, 1)
    assert said in error
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_every_verb_that_reads_results_works_after_a_fetch(study, tmp_path):
    """From an archive with a folder inside, as hosts make them; verbs print what they print in a checkout."""
    with zipfile.ZipFile(tmp_path / "release.zip", "w") as archive:
        for name in fetch.registry():
            archive.write(CHECKOUT / name, f"study-0.4.0/{name}")
    folder = tmp_path / "empty"
    folder.mkdir()
    assert study(folder, "fetch", "results", "--from", "../release.zip")[0] == 0
    run = "grammar-recurrent-dot-c61874e4-s1"
    for words in (["claims", "4"], ["show", run], ["ls", "runs", "--query", "id.str.contains('c61874e4')"]):
        expected = output_of(sys.executable, "-P", "-m", "study", *words, cwd=tmp_path)
        assert study(folder, *words) == (0, expected, ""), words
    (folder / "results" / "tables" / "quickstart.csv").unlink()
    manifest, table = folder / "results" / "manifest.json", folder / "results" / "tables" / "scores.csv"
    text, before = manifest.read_text("utf-8"), sha256(table.read_bytes()).hexdigest()
    manifest.write_text(text.replace(before, "0" * 64), "utf-8")
    assert study(folder, "reproduce", "tables")[1].endswith("nothing differs from what is published\n")
    assert manifest.read_text("utf-8") == text
    manifest.write_text(text.replace(before, "0" * 64), "utf-8")
    status, out, _ = study(folder, "reproduce", "readme")
    assert (status, out.splitlines()[-1]) == (1, "differs from what is published: tables/scores.csv")
    manifest.write_text(text, "utf-8")
    told = study(folder, "verify")
    assert told[0] == 0, told
    assert "root hash     that of this version of the package" in told[1]
    (folder / "results" / "benchmarks" / "cost.json").write_text("{}")
    assert study(folder, "verify")[0] == 1


def test_the_readme_of_the_package_stands_alone(study, server):
    """Its links and its pictures, for a page and for a phone, are URLs, and no comment is left."""
    (metadata,) = study.site.glob("*.dist-info/METADATA")
    text = message_from_string(metadata.read_text("utf-8")).get_payload()
    assert f'src="{server.repository}/raw/main/results/figures/hero.svg"' in text
    assert f'srcset="{server.repository}/raw/main/results/figures/hero_narrow.svg"' in text
    assert f"]({server.repository}/blob/main/docs/verdicts.md#claim-1)" in text
    assert "<!--" not in text
    assert "](docs/" not in text
    assert '="results/' not in text
    assert PUBLISHED.read_bytes() == (study.site / "study" / "published.json").read_bytes()
