"""Draws docs/images/ from the demo, in headless Chromium."""

import asyncio
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from playwright.async_api import async_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or "chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"]
SETTLE_SECONDS = 30
"""By then the owners are resolved, and the notebook has gone quiet."""
SHOTS = (
    ("node-page.png", "light", 1280, 1180),
    ("node-page-dark.png", "dark", 1280, 1180),
    ("node-page-phone.png", "light", 390, 844),
)


async def main() -> None:
    """Start the demo, wait until it is lively, take the pictures."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "exporter", "demo", "--listen", "127.0.0.1:0"]
    demo = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE, stderr=DEVNULL)
    try:
        assert demo.stdout  # noqa: S101 - asked for above
        url = ""
        while not url:
            found = re.search(r"page +(\S+)", (await demo.stdout.readline()).decode())
            url = found.group(1) if found else ""
        await asyncio.sleep(SETTLE_SECONDS)
        await _shoot(url)
    finally:
        demo.terminate()
        await demo.wait()


async def _shoot(url: str) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, scheme, width, height in SHOTS:
            page = await browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
            await page.goto(url)
            await page.screenshot(path=IMAGES / name)
            print(IMAGES / name)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
