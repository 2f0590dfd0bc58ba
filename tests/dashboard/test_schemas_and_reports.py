"""The panels about what stands beside a run: a registry's schemas, the curve of completeness, the books that were closed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

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
from eventide.migration.rollout.service import Migrations
from eventide.registry.client import RegistryRefused, RegistryUnavailable
from eventide.registry.service import Options

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
    registry = InThread(f"sqlite:///{root / 'registry.db'}", Options(extensions=(Migrations(),)))
    ask = Ask(registry.url)
    for fields in (("paise",), ("paise", "bank")):
        ask.ok("POST", f"/subjects/{SUBJECT}/versions", {"schema": record(*fields)})
    ask.ok("POST", "/subjects/a%3Cimg%20src=x%20onerror=alert(1)%3E/versions", {"schema": record("x")})
    ask.ok("PUT", "/eventide/v1/owners", {"prefix": "payments", "team": "settlement"})
    ask.ok("POST", "/eventide/v1/usage", {"client": "billing", "environment": "live", "decoded": [{"id": 2, "count": 7}]})
    plan = {"subject": SUBJECT, "schema": record("rupees", "bank"), "name": "rupees", "renames": {"paise": "rupees"}}
    assert ask.ok("POST", "/eventide/v1/migrations", plan)["change"] == "breaking"
    ask.ok("PUT", "/eventide/v1/migrations/rupees/consumers", {"name": HOSTILE, "shape": "old", "owner": "team money"})
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


def test_a_subject_says_who_has_decoded_it(seen: WebDriver) -> None:
    next(b for b in seen.find_elements(By.CSS_SELECTOR, "#schemas button.subject") if b.text == SUBJECT).click()
    WebDriverWait(seen, 20).until(lambda d: "Who has decoded it" in text(d, "told"))
    assert "billing" in text(seen, "told") and "live" in text(seen, "told")
    close(seen)


def test_a_migration_shows_its_gates_and_its_consumers(seen: WebDriver) -> None:
    assert "Migrations" in text(seen, "schemas") and "plan" in text(seen, "schemas")
    seen.find_element(By.CSS_SELECTOR, "#schemas button.migration").click()
    WebDriverWait(seen, 20).until(lambda d: "Gates to expand" in text(d, "told"))
    told = text(seen, "told")
    assert "plan confirmed" in told and "✗ shut" in told and "eventide migrate confirm rupees" in told
    assert HOSTILE in told and "team money" in told and "✗ waiting" in told and "0 events checked" in told
    close(seen)


def test_the_curve_is_drawn_with_todays_bound(seen: WebDriver) -> None:
    assert "behind by 20 s, 99.0 % come on time" in text(seen, "complete")
    assert seen.find_elements(By.CSS_SELECTOR, "#complete canvas")


def test_gaps_are_told_and_the_console_is_silent(seen: WebDriver) -> None:
    assert "every difference is explained" in text(seen, "gaps") and "<b>late" in text(seen, "gaps")
    assert said(seen) == []


class Answers:
    """A registry that gives what it is told to."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {f"/eventide/v1/{name}": answer for name, answer in answers.items()}

    def __call__(self, method: str, path: str, **query: Any) -> Any:
        answer = self.answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_registry_without_migrations_has_none_and_one_that_refuses_says_so() -> None:
    assert Schemas(Answers(subjects=[], migrations=RegistryRefused(404, 40401, "no"))).overview()["migrations"] == []
    refused = Schemas(Answers(subjects=[], migrations=RegistryRefused(403, 40301, "not for you"))).overview()
    assert refused["fault"] == "not for you (error 40301)" and refused["migrations"] == []


def test_migrations_that_are_over_come_last_and_one_that_cannot_be_asked_says_why() -> None:
    phases = [("done", "contracted", 3), ("old", "plan", 1), ("new", "migrate", 2)]
    listed = [{"name": name, "subject": "s", "phase": phase, "entered_at": at, "plan": {}} for name, phase, at in phases]
    down = RegistryUnavailable("no answer from http://me:secret@registry")
    schemas = Schemas(Answers(**{"subjects": [], "migrations": listed, "migrations/new": down}))
    assert [one["name"] for one in schemas.overview()["migrations"]] == ["new", "old", "done"]
    told = schemas.migration(0)
    assert told is not None and told["name"] == "new" and "secret" not in told["said"] and schemas.migration(3) is None
