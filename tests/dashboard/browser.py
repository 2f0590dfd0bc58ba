"""A browser of its own for a test: Debian's Chromium, which asks nobody but the page, and tells what its console said and what it asked for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webdriver import WebDriver

MISSING = (
    "these tests drive a browser, and {name} is not there. As root: make programs (apt-get install chromium chromium-driver)."
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


@contextmanager
def browser(*, width: int = 1440, height: int = 1000, dark: bool = False) -> Iterator[WebDriver]:
    for name in ("chromium", "chromedriver"):
        assert shutil.which(name), MISSING.format(name=name)
    with TemporaryDirectory(prefix="chromium-") as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options, Service(str(shutil.which("chromedriver"))))
        try:
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            if width < 500:  # a window has its least width, a phone has not
                metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": True}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            yield driver
        finally:
            driver.quit()


def said(driver: WebDriver) -> list[str]:
    """What the console said."""
    return [str(line["message"]) for line in driver.get_log("browser")]


def requested(driver: WebDriver) -> list[str]:
    """Every address that the page asked for."""
    events: list[dict[str, Any]] = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def drawn(driver: WebDriver) -> int:
    """How often the page has drawn itself."""
    return int(driver.execute_script("return document.body.dataset.drawn || 0"))


def picture(driver: WebDriver, path: Path) -> None:
    """The whole page, however long."""
    height = int(driver.execute_script("return document.documentElement.scrollHeight"))
    width = int(driver.execute_script("return innerWidth"))
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    import base64

    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    path.write_bytes(base64.b64decode(shot["data"]))
