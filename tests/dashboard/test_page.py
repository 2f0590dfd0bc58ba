"""The page in a browser, over a run at work: panels fill, news arrive, a click explains, and nothing that a row holds does anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait
from tests.dashboard.at_work import AtWork, page, place_of
from tests.dashboard.browser import browser, drawn, requested, said

from eventide.dashboard.app import Board

HOSTILE = "<script>window.taken = 1</script>\"'><img src=x onerror='window.taken=2'>"
TURNED = "abc\u202etxt.exe"
LONG = "k" * 10_000
LANE = "<b onmouseover=alert(1)>north"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> AtWork:
    made = AtWork(tmp_path_factory.mktemp("page"), [HOSTILE, TURNED, LONG])
    for n in range(8):
        late = [max(0, 40 * n - 100)] * 2 if n % 3 == 2 else []
        made.batch(
            {LANE: [40 * n + i * 4 for i in range(9)], "south": [*late, *(40 * n + i * 4 for i in range(9))]}, 40 * n + 42
        )
    return made


@pytest.fixture(scope="module")
def seen(work: AtWork) -> Iterator[tuple[WebDriver, str]]:
    with page(Board([place_of(work)])) as address, browser() as driver:
        driver.get(address)
        WebDriverWait(driver, 60).until(drawn)
        yield driver, address


def text(driver: WebDriver, panel: str) -> str:
    return str(driver.execute_script("return document.getElementById(arguments[0]).innerText", panel))


def close(driver: WebDriver) -> None:
    driver.find_element(By.CSS_SELECTOR, "#told form button").click()


def test_panels_fill(seen: tuple[WebDriver, str]) -> None:
    driver, _ = seen
    assert "Held by rows/<b onmouseover=alert(1)>north" in text(driver, "mark")
    assert "148 events from the archive" in text(driver, "plane")
    assert "behind its lane" in text(driver, "late") and "sweep and settle" in text(driver, "batch")
    assert len(driver.find_elements(By.CSS_SELECTOR, "#windows button.window")) >= 5
    assert "eventide tune FILE --json" in text(driver, "complete") and "--registry URL" in text(driver, "schemas")
    painted = driver.execute_script(
        "const c = document.querySelector('canvas.plane'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "return d.some((v, i) => i % 4 === 3 && v > 0)"
    )
    assert painted


def test_a_click_explains_a_window_and_a_hostile_key_is_text(seen: tuple[WebDriver, str]) -> None:
    driver, _ = seen
    driver.find_elements(By.CSS_SELECTOR, "#windows button.window")[-1].click()
    WebDriverWait(driver, 20).until(lambda d: "<script>" in text(d, "told"))
    told = text(driver, "told")
    assert "What was said of this window" in told and "W has passed its end" in told
    assert "\\u{202e}" in told and "(10,000 signs)" in told and "k" * 200 not in told
    assert driver.execute_script("return window.taken") is None
    assert not driver.find_elements(By.CSS_SELECTOR, "#told script, #told img, main b[onmouseover]")
    close(driver)


def test_a_place_on_the_plane_is_explained_by_click_and_by_key(seen: tuple[WebDriver, str]) -> None:
    driver, _ = seen
    plane = driver.find_element(By.CSS_SELECTOR, "canvas.plane")
    plane.click()
    assert "Windows that hold this event time" in text(driver, "told")
    close(driver)
    before = text(driver, "hover")
    plane.send_keys(Keys.ARROW_LEFT * 12)
    assert text(driver, "hover") != before and "UTC" in text(driver, "hover")
    plane.send_keys(Keys.ENTER)
    assert "This place on the plane" in text(driver, "told")
    close(driver)


def test_news_arrive_by_themselves(seen: tuple[WebDriver, str], work: AtWork) -> None:
    driver, _ = seen
    assert driver.execute_script("return document.body.dataset.batch") == str(work.number - 1)
    work.batch({LANE: [320, 330], "south": [325, 335]}, 370)
    WebDriverWait(driver, 20).until(lambda d: d.execute_script("return document.body.dataset.batch") == str(work.number - 1))
    assert driver.find_element(By.ID, "live").get_attribute("data-live") == "live"


def test_times_are_shown_in_the_zone_that_is_chosen(seen: tuple[WebDriver, str]) -> None:
    driver, _ = seen
    before = text(driver, "mark")
    choose = "const z = document.getElementById('zone'); z.value = arguments[0]; z.onchange()"
    driver.execute_script(choose, "Asia/Kolkata")
    assert text(driver, "mark") != before
    driver.execute_script(choose, "UTC")


def test_nothing_leaves_the_machine_and_the_console_is_silent(seen: tuple[WebDriver, str]) -> None:
    driver, address = seen
    asked = [url for url in requested(driver) if not url.startswith(("chrome://", "data:"))]
    assert asked and all(url.startswith(address) for url in asked)
    assert said(driver) == []


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone(work: AtWork, dark: bool) -> None:
    with page(Board([place_of(work), place_of(work)])) as address, browser(width=390, height=844, dark=dark) as driver:
        driver.get(address)
        WebDriverWait(driver, 60).until(drawn)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        assert driver.execute_script("return document.documentElement.dataset.theme") == ("dark" if dark else "light")
        assert len(driver.find_elements(By.CSS_SELECTOR, "nav button")) == 2 and said(driver) == []
