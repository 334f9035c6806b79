"""The built site is readable in headless Chromium, on a screen and on a phone: images, code, figures and tables.

``make docs`` builds the site, and ``make test-site`` checks it. Elsewhere the test skips. With ``DPTUNE_CHROMIUM=1`` it
fails if Chromium or the site is missing.
"""

import base64
import functools
import http.server
import json
import os
import queue
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from page_tools import ROOT

SITE = Path(os.environ.get("DPTUNE_SITE", ROOT / "out" / "site"))
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MUST = os.environ.get("DPTUNE_CHROMIUM") == "1"
SECONDS = 600  # for all pages; seventy on a machine with ten times as much to do as it has cores
CHECK = (Path(__file__).parent / "look_at_pages.html").read_text(encoding="utf-8")

SMALL = """<table style="width:60px;table-layout:fixed">
<tr><td style="overflow-wrap:anywhere">unbreakable</td></tr></table>
<pre style="position:relative"><nav style="position:absolute;top:0"><button>copy</button></nav><code>code</code></pre>
<img src="small.svg" width="90"><img src="dot.png">"""
FIGURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 60">
<text y="50" style="font-size: {size}px">a</text></svg>"""
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and the page that looks at the others, and takes what that page has found."""

    check = b""
    found: queue.Queue[bytes]

    def do_GET(self) -> None:
        return self.answer(self.check) if self.path.startswith("/check") else super().do_GET()

    def do_POST(self) -> None:
        self.found.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(b"")

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def look_at(site: Path, pages: list[str], profile: Path) -> list[dict[str, object]]:
    """Return what is wrong with these pages of a site."""
    assert CHROMIUM is not None
    found: queue.Queue[bytes] = queue.Queue()
    known = {"check": CHECK.replace("PAGES", json.dumps(pages)).encode(), "found": found}
    handler = functools.partial(type("Handler", (Quiet,), known), directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/check"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-port=0"]
    command = [CHROMIUM, *options, f"--user-data-dir={profile}", "--disable-dev-shm-usage", address]
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        result = json.loads(found.get(timeout=SECONDS))
    finally:
        browser.terminate()
        browser.wait()
        server.shutdown()
        server.server_close()
    assert result["looked"] == len(pages), result["found"]
    return list(result["found"])


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    if not MUST and "DPTUNE_SITE" not in os.environ:
        pytest.skip("make test-site looks at a site that was just built")
    if CHROMIUM is None or not SITE.is_dir():
        missing = "Chromium" if CHROMIUM is None else f"{SITE}: run make docs"
        pytest.fail(f"there is no {missing}") if MUST else pytest.skip(f"no {missing}")
    pages = [path.relative_to(SITE).as_posix() for path in sorted(SITE.rglob("index.html"))]
    pages = [page for page in pages if not page.startswith(("reference/", "research/"))]
    return look_at(SITE, pages, tmp_path_factory.mktemp("profile"))


def test_only_tables_of_measurements_are_wider_than_a_phone(
    faults: list[dict[str, object]],
) -> None:
    wide = [each for each in faults if each["what"] == "wide table" and re.match("frontier/|ldp/", str(each["page"]))]
    assert [fault for fault in faults if fault not in wide] == []


def test_faults_of_a_page_are_found(tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.fail("there is no Chromium") if MUST else pytest.skip("no Chromium")
    cells = "".join(f"<td style='white-space:nowrap'>a wide cell {i}</td>" for i in range(12))
    broken = f"<img src='nowhere.png'><pre><code style='display:block;overflow:auto'>{'x' * 900}</code></pre>"
    (tmp_path / "bad.html").write_text(f"<article class='md-content'>{broken}<table><tr>{cells}</tr></table></article>")
    (tmp_path / "small.html").write_text(f"<article class='md-content'>{SMALL}</article>")
    (tmp_path / "small.svg").write_text(FIGURE.format(size=10))
    (tmp_path / "large.svg").write_text(FIGURE.format(size=50))
    (tmp_path / "dot.png").write_bytes(base64.b64decode(DOT))
    good = "<p>Text.</p><table><tr><td>whole words</td></tr></table><img src='large.svg' width='90'>"
    (tmp_path / "good.html").write_text(f"<article class='md-content'>{good}</article>")
    pages = ["bad.html", "small.html", "good.html"]
    found = {(fault["page"], fault["what"]) for fault in look_at(tmp_path, pages, tmp_path / "profile")}
    bad = ("broken image", "cut code", "wide table", "wide page", "no hint")
    small = ("broken word", "covered code", "not SVG", "small text")
    assert found == {*(("bad.html", what) for what in bad), *(("small.html", what) for what in small)}
