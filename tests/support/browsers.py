"""A headless Chromium."""

import shutil
from pathlib import Path

import pytest


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
