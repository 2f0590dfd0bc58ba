"""The panels about what stands beside a run: a registry's schemas, the curve of completeness, the books that were closed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait
from tests.dashboard.at_work import AtWork, page, place_of
from tests.dashboard.browser import browser, drawn, said
from tests.dashboard.test_page import close, text
from tests.registry.conftest import Ask, InThread

from eventide.dashboard.app import Board
from eventide.dashboard.schemas import Schemas

SUBJECT = "payments-value"
HOSTILE = "a<img src=x onerror=alert(1)>"
TUNED = {
    "rows": 100,
    "recommended": {"bound": 20_000_000, "on_time": 99, "rows": 100, "completeness": 0.99},
    "curve": [
        {"bound": bound, "on_time": n, "refused": 100 - n, "completeness": n / 100} for bound, n in ((0, 80), (20_000_000, 99))
    ],
}
GAPS = {
    "lines": [{"name": "emitted", "rows": 7, "values": {"total": 70}}, {"name": "<b>late", "rows": 1, "values": {"total": 3}}],
    "notes": ["one archive"], "explained": True,
}  # fmt: skip


def record(*fields: str) -> str:
    kinds = [{"name": name, "type": ["null", "long"], "default": None} for name in fields]
    return json.dumps({"type": "record", "name": "Payment", "fields": kinds})


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    root = tmp_path_factory.mktemp("schemas")
    work = AtWork(root)
    work.batch({"north": [1, 2], "south": [10, 20]}, 80)
    registry = InThread(f"sqlite:///{root / 'registry.db'}")
    ask = Ask(registry.url)
    for fields in (("paise",), ("paise", "bank")):
        ask.ok("POST", f"/subjects/{SUBJECT}/versions", {"schema": record(*fields)})
    ask.ok("POST", "/subjects/a%3Cimg%20src=x%20onerror=alert(1)%3E/versions", {"schema": record("x")})
    ask.ok("PUT", "/eventide/v1/owners", {"prefix": "payments", "team": "settlement"})
    board = Board([place_of(work)], Schemas.at(registry.url, None), {"tuned": TUNED, "reconciled": GAPS})
    with page(board) as address, browser() as driver:
        driver.get(address)
        WebDriverWait(driver, 60).until(drawn)
        WebDriverWait(driver, 20).until(lambda d: SUBJECT in text(d, "schemas"))
        yield driver
    registry.stop()


def test_subjects_are_listed_with_owner_and_a_click_shows_what_changed(seen: WebDriver) -> None:
    assert "settlement" in text(seen, "schemas") and HOSTILE in text(seen, "schemas")
    next(b for b in seen.find_elements(By.CSS_SELECTOR, "#schemas button.subject") if b.text == SUBJECT).click()
    WebDriverWait(seen, 20).until(lambda d: "What its newest version changed" in text(d, "told"))
    assert "+" in text(seen, "told") and "bank" in text(seen, "told")
    close(seen)


def test_the_curve_is_drawn_with_todays_bound(seen: WebDriver) -> None:
    assert "behind by 20 s, 99.0 % come on time" in text(seen, "complete")
    assert seen.find_elements(By.CSS_SELECTOR, "#complete canvas")


def test_gaps_are_told_and_the_console_is_silent(seen: WebDriver) -> None:
    assert "every difference is explained" in text(seen, "gaps") and "<b>late" in text(seen, "gaps")
    assert said(seen) == []
