"""Pictures of the pages for README and docs, from a project that the demo has left behind.

    icefloe demo --folder shown
    python scripts/screenshots.py shown

serves the folder and writes ``docs/images/page-NAME.png``. Needs Chromium (``make setup``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
ICEFLOE = [sys.executable, "-m", "icefloe.cli.main"]
SIZE = {"width": 1280, "height": 800}
SECONDS = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the project's folder, as icefloe demo --folder leaves it")
    parser.add_argument("--images", type=Path, default=IMAGES)
    asked = parser.parse_args()
    log = (asked.folder / "screenshots.log").open("wb")
    command = [*ICEFLOE, "serve", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=asked.folder, stdout=log, stderr=log, start_new_session=True)
    try:
        take(asked.folder, address_of(asked.folder, process), asked.images)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(SECONDS)
        log.close()
    return 0


def address_of(folder: Path, process: subprocess.Popen[bytes]) -> str:
    file = folder / ".icefloe" / "server.json"
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"icefloe serve ended: see {folder / 'screenshots.log'}")
        if file.exists():
            shown = json.loads(file.read_text(encoding="utf-8"))
            if shown["pid"] == process.pid:
                return str(shown["address"])
        time.sleep(0.1)
    raise SystemExit("icefloe serve did not come up")


def pages(address: str, headers: dict[str, str]) -> dict[str, str]:
    """Which pages to show: of each kind the most telling there is."""
    with httpx.Client(base_url=f"{address}/api/v1", headers=headers, timeout=SECONDS) as client:
        runs = client.get("/runs", params={"limit": 50}).raise_for_status().json()["runs"]
        captures = client.get("/captures", params={"limit": 1}).raise_for_status().json()["captures"]
    run = next((capture["run_id"] for capture in captures), runs[0]["run_id"])
    shown = {
        "home": "/",
        "workflow": f"/workflows/{run.rpartition('-')[0]}",
        "run": f"/runs/{run}",
        "lineage": "/lineage",
    }
    if captures:
        shown["capture"] = f"/captures/{captures[0]['id']}"
    return shown


def take(folder: Path, address: str, images: Path) -> None:
    token = (folder / ".icefloe" / "server.token").read_text(encoding="utf-8").strip()
    link = json.loads(
        subprocess.run(
            [*ICEFLOE, "tokens", "link", "--output", "json"], cwd=folder, check=True, capture_output=True, text=True
        ).stdout
    )["url"]
    arguments = ["--disable-gpu", "--disable-background-networking", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        context = browser.new_context(viewport=SIZE, color_scheme="light", reduced_motion="reduce")  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(link)
        for name, path in pages(address, {"Authorization": f"Bearer {token}"}).items():
            page.goto(f"{address}{path}")
            page.wait_for_load_state("load")
            file = images / f"page-{name}.png"
            page.screenshot(path=file)
            print(f"{file}: {file.stat().st_size / 1000:.0f} KB")
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
