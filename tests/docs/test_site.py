"""The site is built without a warning, its links lead somewhere, and a real browser shows it, light and dark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import pytest
from lifecycle.browser import Browser, chromium_is_here

from docs.pages import ROOT

# The pages that are looked at.
MAIN = (
    "index", "get-started", "explain", "importance/reading", "algorithm", "benchmarks", "reference/parameters",
    "reference/estimators", "contributing",
)  # fmt: skip
PHONE = ("index", "benchmarks", "reference/parameters")


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if values.get("id"):
            self.anchors.add(values["id"])
        for name in ("href", "src"):
            if values.get(name):
                self.links.append(values[name])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--no-directory-urls", "-d", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_links_of_the_site(site):
    pages = {path: Page(path.read_text("utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 20
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.relative_to(site)} links to {link}"
            if parts.fragment and target in pages:
                assert parts.fragment in pages[target].anchors, f"{path.relative_to(site)} links to {link}"


def test_every_page_can_be_reached(site):
    pages = {path for path in site.rglob("*.html") if path.name != "404.html"}
    reached = set()
    for path in pages:
        places = (unquote(urlsplit(link).path) for link in Page(path.read_text("utf-8")).links)
        reached |= {(path.parent / place).resolve() for place in places if place} - {path}
    assert pages - reached == set(), "name these pages in mkdocs.yml, or link to them"


def test_the_reference_lists_everything_public(site):
    import unbiasedgbm
    from unbiasedgbm import distributed

    text = "".join(path.read_text("utf-8") for path in (site / "reference").glob("*.html"))
    for name in unbiasedgbm.__all__:
        assert name == "__version__" or f"{name}</span>" in text, f"{name} is not in the reference"
    for name in distributed.__all__:
        assert f'id="unbiasedgbm.distributed.{name}"' in text, f"distributed.{name} is not in the reference"


@pytest.fixture(scope="module")
def address(site) -> Iterator[str]:
    """Where a local server shows the site."""
    handler = partial(QuietHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """A server without a log."""

    def log_message(self, *words):
        pass


@pytest.mark.browser
@pytest.mark.skipif(not chromium_is_here(), reason="Chromium and chromedriver are not installed")
def test_pages_in_a_browser(address, tmp_path):
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    with Browser(1300, 900) as browser:
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            for name in MAIN:
                browser.open(f"{address}/{name}.html")
                shown = browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
                assert (sum(shown[:3]) > 600) == (scheme == "light"), f"{name} is {shown} where {scheme} is preferred"
                assert too_wide(browser) <= 0, f"{name} is too wide"
                broken = "return [...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"
                assert browser.run(broken) == []
                time.sleep(0.3)  # parts of the page are faded in
                browser.screenshot(folder / f"{name.replace('/', '-')}-{scheme}.png")
                outside = [
                    url for url in browser.requests() if not url.startswith((address, "data:", "blob:", "chrome:"))
                ]
                assert outside == [], f"{name} asks for {outside}"
        browser.resize(390, 800)
        for name in PHONE:
            browser.open(f"{address}/{name}.html")
            assert too_wide(browser) <= 0, f"{name} is too wide for a phone"
            browser.screenshot(folder / f"{name.replace('/', '-')}-phone.png")


def too_wide(browser: Browser) -> int:
    """Pixels of the page beyond the window."""
    return int(browser.run("return document.documentElement.scrollWidth - innerWidth"))
