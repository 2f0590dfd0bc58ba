"""A join through the engine's own Run, without Spark: sinks, restarts, batches that are run again, changes of the definition."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
from crash_driver import Here, Listed
from feeding import SECOND, at
from landing import START

import eventide as ev
from eventide.cli.closing import where_rows_went
from eventide.engine.batch import join_task
from eventide.engine.batch.conservation import ConservationBreach
from eventide.engine.changes import DefinitionChanged
from eventide.engine.run import Run
from eventide.engine.supersede import Superseding
from eventide.state.journal import LocalFiles

WHEN = pl.Datetime("us", "UTC")
ORDERS = {"at": WHEN, "came": WHEN, "order_id": pl.String, "rupees": pl.Int64}
PAYMENTS = {"at": WHEN, "came": WHEN, "order_id": pl.String, "bank": pl.String}
SHOWN = "order_id, order_rupees, payment_bank"


class Shop:
    """Orders and their payments, each in a directory of its own, and a run that joins them batch by batch."""

    def __init__(self, root: Path) -> None:
        self.root, self.files, self.now = root, 0, START + 10_000 * SECOND
        for name in ("orders", "payments"):
            (root / name).mkdir(parents=True)

    def source(self, name: str) -> Any:
        return ev.files(name, str(self.root / name), event_time="at", arrival="came", watermark=ev.bounded("0 s"))

    def pipeline(self, dedupe: bool = False, **changed: Any) -> ev.Pipeline:
        orders, payments = self.source("orders"), self.source("payments")
        stream = orders.dedupe("order_id", within="1 hour") if dedupe else orders
        asked = {"on": "order_id", "within": ("0 s", "10 s"), "how": "left", "prefix": ("order_", "payment_")}
        asked["late"] = ev.accumulate("20 s", refused=ev.divert())
        paid = stream.join(payments, **{**asked, **changed})
        base = ev.sqlite(str(self.root / "out.db"))
        return ev.Pipeline("shop", paid.to("paid", base), state=str(self.root / "state"), buckets=2)

    def land(self, name: str, *rows: tuple[float, float, str | None, Any]) -> None:
        facts = [(at(time), at(came), order, value) for time, came, order, value in rows]
        path = self.root / name / f"{self.files:03d}.parquet"
        pl.DataFrame(facts, schema=ORDERS if name == "orders" else PAYMENTS, orient="row").write_parquet(path)
        os.utime(path, (1_700_000_000 + self.files,) * 2)
        self.files += 1

    def open(self, pipe: ev.Pipeline | None = None, hook: Callable[[str], None] = lambda point: None) -> Run:
        self.run = Run(pipe or self.pipeline(), Here(), str(self.root / "state"), hook=hook, clock=lambda: self.now)
        self.run.open()
        return self.run

    def batch(self, *names: str, drain: bool = False) -> None:
        """A batch of the newest file of each of these sources."""
        self.batch_of(*(max((self.root / name).iterdir()) for name in names), drain=drain)

    def batch_of(self, *paths: Path, drain: bool = False) -> None:
        number = self.run.ledger.batch + 1
        self.now += SECOND
        names, log = ("orders", "payments"), LocalFiles(str(self.root / "state" / "checkpoint"))
        files = [(names.index(path.parent.name), str(path), path.stat().st_mtime_ns // 1000) for path in paths]
        for index in (0, 1):
            lines = [
                {"path": f"file://{quote(path)}", "timestamp": when // 1000, "batchId": number, "action": "add"}
                for of, path, when in files
                if of == index
            ]
            log.write(f"sources/{index}/{number}", "\n".join(["v1", *map(json.dumps, lines)]).encode())
        log.write(f"offsets/{number}", f'v1\n{{}}\n{{"logOffset":{number}}}\n{{"logOffset":{number}}}'.encode())
        listed = Listed([(path, when) for _, path, when in files], [of for of, *_ in files])
        self.run.batch(listed, number, drain=drain)

    def step(self, pipe: ev.Pipeline | None, *names: str, drain: bool = False) -> None:
        """One batch by a run of its own."""
        self.open(pipe)
        self.batch(*names, drain=drain)
        self.run.close()

    def table(self, columns: str = SHOWN, name: str = "paid") -> list[Any]:
        with sqlite3.connect(self.root / "out.db") as there:
            return sorted(there.execute(f"SELECT {columns} FROM {name}").fetchall(), key=repr)


def some_days(shop: Shop, pipe: ev.Pipeline | None = None) -> None:
    """An order that is paid, one that is paid so late that it had been stated as not, one that never is; with a restart before each batch."""
    shop.land("orders", (0, 0, "a", 10), (1, 1, "b", 20), (2, 2, "c", 30))
    shop.land("payments", (3, 3, "a", "x"))
    shop.step(pipe, "orders", "payments")
    shop.land("orders", (20, 20, "d", 40))
    shop.land("payments", (21, 21, "z", "y"))
    shop.step(pipe, "orders", "payments")


def test_a_row_without_a_match_is_stated_and_withdrawn_when_a_late_one_matches(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    some_days(shop)
    assert shop.table() == [("a", 10, "x"), ("b", 20, None), ("c", 30, None)]
    shop.land("payments", (5, 22, "b", "x"))
    shop.step(None, "payments")
    assert shop.table() == [("a", 10, "x"), ("b", 20, "x"), ("c", 30, None)]
    shop.step(None, drain=True)
    assert shop.table() == [("a", 10, "x"), ("b", 20, "x"), ("c", 30, None), ("d", 40, None)]
    shown, sound = where_rows_went(shop.pipeline(), shop.run.ledger)
    assert sound and "7 in" in shown and "1 admitted late" in shown


def test_refused_rows_of_both_sides_go_to_the_side_stream(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    base = ev.sqlite(str(tmp_path / "out.db"))
    pipe = shop.pipeline(late=ev.divert(base), how="full")
    some_days(shop, pipe)
    shop.land("orders", (4, 30, "e", 50))
    shop.land("payments", (5, 31, "b", "x"))
    shop.step(pipe, "orders", "payments")
    late = shop.table("order_id, rupees, bank, _lateness_us", "paid_late")
    assert late == [("b", None, "x", 15 * SECOND), ("e", 50, None, 16 * SECOND)]
    assert shop.table() == [("a", 10, "x"), ("b", 20, None), ("c", 30, None)]


def test_duplicates_are_taken_out_of_each_side_by_itself(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    pipe = shop.pipeline(dedupe=True)
    shop.land("orders", (0, 0, "a", 10), (1, 1, "a", 11))
    shop.land("payments", (2, 2, "a", "x"), (3, 3, "a", "y"))
    shop.step(pipe, "orders", "payments")
    shop.step(pipe, drain=True)
    assert shop.table() == [("a", 10, "x"), ("a", 10, "y")]
    rows = shop.run.ledger.rows
    assert (rows["duplicates"], rows["left_duplicates"], rows["right_duplicates"]) == (1, 1, 0)


@pytest.mark.parametrize("point", ["begin", "scan", "store", "begun", "between sinks", "deliver", "commit", "evict"])
def test_a_run_that_dies_anywhere_ends_in_the_same_table(point: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    some_days(shop)
    shop.land("payments", (5, 22, "b", "x"))

    def die(here: str) -> None:
        if here == point:
            raise KeyboardInterrupt

    shop.open(hook=die)
    with pytest.raises(KeyboardInterrupt):
        shop.batch("payments")
    shop.run.close()
    shop.open()
    if shop.run.ledger.batch < 2:
        shop.batch("payments")
    shop.run.close()
    shop.step(None, drain=True)
    assert shop.table() == [("a", 10, "x"), ("b", 20, "x"), ("c", 30, None), ("d", 40, None)]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"within": ("0 s", "20 s")}, r"within.*rows were let go by it that others could match now"),
        ({"how": "inner"}, r"how.*rows without a match"),
        ({"on": {"order_id": "bank"}}, r"on.*kept by it"),
        ({"late": ev.drop()}, r"late.*another policy"),
        ({"prefix": ("o_", "p_")}, r"prefix.*sinks"),
    ],
)
def test_what_cannot_change_on_existing_state_is_refused_by_name(changed: Any, said: str, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    some_days(shop)
    with pytest.raises(DefinitionChanged, match=said):
        shop.open(shop.pipeline(**changed))


def test_a_join_does_not_go_on_from_windows_nor_windows_from_a_join(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    some_days(shop)
    both = ev.merge(shop.source("orders"), shop.source("payments"))
    counted = both.window(ev.tumbling("10 s"), by="order_id").agg(n=ev.count()).to("paid", late=ev.drop())
    with pytest.raises(DefinitionChanged, match=r"windows and pairs have nothing in common.*--start-over"):
        shop.open(ev.Pipeline("shop", counted, state=str(tmp_path / "state"), buckets=2))


def test_the_next_generation_replaces_pairs_and_withdraws_those_that_are_no_more(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    some_days(shop)
    shop.step(None, drain=True)
    (tmp_path / "state").rename(tmp_path / "state.generation-0")
    (tmp_path / "orders" / "000.parquet").unlink()  # what was read is another history now
    shop.files = 0
    shop.land("orders", (0, 0, "a", 10), (1, 1, "b", 25))
    shop.open()
    shop.batch_of(*((tmp_path / name / file) for name, file in (("orders", "000.parquet"), ("payments", "001.parquet"))))
    shop.batch("orders", "payments")
    shop.batch(drain=True)
    shop.run.close()
    assert shop.run.generation == 1
    assert shop.table() == [("a", 10, "x"), ("b", 25, None), ("d", 40, None)]


def test_windows_over_an_inner_join_beside_its_pairs_and_alone(tmp_path: Path) -> None:
    both, alone = Shop(tmp_path / "both"), Shop(tmp_path / "alone")

    def pipeline(shop: Shop, pairs: bool) -> ev.Pipeline:
        asked = {"on": "order_id", "within": ("0 s", "10 s"), "late": ev.accumulate("20 s"), "prefix": ("order_", "payment_")}
        paid = shop.source("orders").join(shop.source("payments"), **asked)
        banks = paid.window(ev.tumbling("10 s"), by="payment_bank").agg(n=ev.count(), rupees=ev.sum("order_rupees"))
        base = ev.sqlite(str(shop.root / "out.db"))
        told = [paid.to("paid", base)] if pairs else []
        windows = banks.to("banks", base, late=ev.retract("20 s"))
        return ev.Pipeline("shop", *told, windows, state=str(shop.root / "state"), buckets=2)

    for shop, pairs in ((both, True), (alone, False)):
        pipe = pipeline(shop, pairs)
        some_days(shop, pipe)
        shop.land("payments", (5, 22, "b", "x"))
        shop.step(pipe, "payments")
        shop.step(pipe, drain=True)
        shown, sound = where_rows_went(pipe, shop.run.ledger)
        assert sound and "2 pairs = " in shown
        assert shop.table("payment_bank, n, rupees", "banks") == [("x", 2, 30)]
    assert both.table("order_id, payment_bank") == [("a", "x"), ("b", "x")]


def test_a_late_row_corrects_the_stages_over_windows_of_pairs(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    asked = {"on": "order_id", "within": ("0 s", "10 s"), "late": ev.accumulate("20 s"), "prefix": ("order_", "payment_")}
    paid = shop.source("orders").join(shop.source("payments"), **asked)
    banks = paid.window(ev.tumbling("5 s"), by="payment_bank").agg(n=ev.count(), rupees=ev.sum("order_rupees"))
    most = banks.results(late=ev.accumulate("20 s")).window(ev.tumbling("20 s")).agg(most=ev.max("rupees"), of=ev.collect("n"))
    base = ev.sqlite(str(tmp_path / "out.db"))
    pipe = ev.Pipeline("shop", most.to("most", base, late=ev.retract("20 s")), state=str(tmp_path / "state"), buckets=2)
    assert "pairs   inner join" in pipe.explain() and "of the results of tumbling 5 seconds" in pipe.explain()
    some_days(shop, pipe)
    assert shop.table("most, of", "most") == [(10, "[1]")]
    shop.land("payments", (5, 22, "b", "x"))
    shop.step(pipe, "payments")
    assert shop.table("most, of", "most") == [(20, "[1,1]")]
    shop.step(pipe, drain=True)
    shown, sound = where_rows_went(pipe, shop.run.ledger)
    assert sound and "2 pairs = " in shown


def replaced(shop: Shop, history: Shop, whole: bool) -> list[Any]:
    """What stands after a backfill of this history was delivered: the pairs that are known to have all that they are made of."""
    superseding = Superseding.of(shop.pipeline(), from_archive=whole)
    run = Run(history.pipeline(), Here(), str(history.root / "state"), clock=lambda: shop.now, numbered=superseding.take)
    history.run = run
    run.open()
    history.batch("orders", "payments", drain=True)
    superseding.deliver(run)
    run.close()
    return shop.table(f"{SHOWN}, generation")


@pytest.mark.parametrize("whole", [True, False])
def test_a_backfill_takes_the_place_of_pairs_and_null_rows_that_are_final(whole: bool, tmp_path: Path) -> None:
    """At W = 60 s nothing of pairs before 30 s can change any more; a history that begins at 0 s lacks partners up to 10 s."""
    shop, history = Shop(tmp_path / "live"), Shop(tmp_path / "history")
    some_days(shop)
    shop.land("orders", (22, 59, "e", 50), (32, 59, "f", 60), (60, 60, "g", 70))
    shop.land("payments", (60, 60, "y", "y"))
    shop.step(None, "orders", "payments")
    alone = [("b", 20, None, 0), ("c", 30, None, 0), ("d", 40, None, 0), ("e", 50, None, 0), ("f", 60, None, 0)]
    assert shop.table(f"{SHOWN}, generation") == [("a", 10, "x", 0), *alone]
    history.land("orders", (0, 0, "a", 10), (1, 1, "b", 20), (2, 2, "c", 35), (20, 20, "d", 45))
    others = ((60, 60, bank, "y") for bank in "uvwxy")
    history.land("payments", (3, 3, "a", "x"), (5, 5, "b", "x"), *others)
    first = [("a", 10, "x", 1), ("b", 20, "x", 1), ("c", 35, None, 1)] if whole else [("a", 10, "x", 0), *alone[:2]]
    assert replaced(shop, history, whole) == [*first, ("d", 45, None, 1), ("f", 60, None, 0)]


def test_rows_that_are_lost_in_the_state_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(tmp_path)
    right = join_task.JoinSettling._kept
    some_days(shop)
    monkeypatch.setattr(join_task.JoinSettling, "_kept", lambda self, side, parts: right(self, side, parts).head(0))
    shop.land("payments", (5, 22, "b", "x"))
    with pytest.raises(ConservationBreach, match=r"rows of the left side let in: 4; kept \+ let go"):
        shop.step(None, "payments")
