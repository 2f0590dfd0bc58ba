"""Joins that contradict themselves are refused where they are written, with what to write instead; what is not done yet, by name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import eventide as ev
from eventide.engine.settings import RULES
from eventide.model.graph import Between


def stream(name: str, columns: str, **more: Any) -> Any:
    return ev.files(name, f"{name}/", schema=f"at timestamp, {columns}", event_time="at", watermark=ev.bounded("5 s"), **more)


ORDERS, PAYMENTS = stream("orders", "id string, rupees bigint"), stream("payments", "id string, number bigint, bank string")
ASKED = {"on": "id", "within": ("0 s", "10 minutes"), "late": ev.drop(), "prefix": ("order_", "payment_")}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"within": ("10 minutes", "0 s")}, r"within=\(10 minutes, 0 seconds\) holds nothing.*other way round"),
        ({"within": "10 minutes"}, r"within='10 minutes'.*within=\(\"0 s\", \"10 minutes\"\)"),
        ({"within": ev.sliding("10 s", "5 s")}, r"several sliding windows. Use tumbling"),
        ({"on": {"id": "number"}}, r"'id' is string on the left, 'number' is bigint on the right.*Cast one"),
        ({"on": "nobody"}, r"source 'orders' has no column 'nobody'. Its columns are at, id, rupees"),
        ({"on": ()}, r"on=\(\) would pair every row with every other"),
        ({"prefix": ("", "")}, r"both sides have a column 'at'. Write prefix=\('orders_', 'payments_'\)"),
        ({"prefix": "order_"}, r"give one for each side"),
        ({"prefix": ("", "__")}, r"'__at' begins with two underscores"),
        ({"prefix": ("A", "a")}, r"'Aat' and 'aat' of its pairs differ by case only"),
        ({"how": "outer"}, r"how='outer'; use one of inner, left, right, full"),
        ({"late": "5 minutes"}, r"late='5 minutes'.*accumulate"),
        ({"self_pairs": True}, r"self_pairs=….*joined with itself"),
    ],
)
def test_a_join_that_contradicts_itself(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ev.DefinitionError, match=said):
        ORDERS.join(PAYMENTS, **{**ASKED, **changed})


def test_a_stream_joined_with_itself_says_whether_rows_match_themselves() -> None:
    with pytest.raises(ev.DefinitionError, match=r"orders is joined with itself.*self_pairs=False, or self_pairs=True"):
        ORDERS.join(ORDERS, **ASKED)
    assert ORDERS.join(ORDERS, **ASKED, self_pairs=False).itself


def test_a_source_is_read_once() -> None:
    with pytest.raises(ev.DefinitionError, match=r"both sides read orders, but as different streams"):
        ORDERS.join(ORDERS.dedupe("id", within="1 hour"), **ASKED)


def test_bounds_may_lie_before_the_left_row() -> None:
    near = ORDERS.join(PAYMENTS, **{**ASKED, "within": ("-5 minutes", timedelta(minutes=1))}).within
    assert near == Between(-300_000_000, 60_000_000)


def test_windows_over_joins_that_are_refused() -> None:
    with pytest.raises(ev.DefinitionError, match=r"without a match, which can be withdrawn. Windows go over inner joins only"):
        ORDERS.join(PAYMENTS, **ASKED, how="left").window(ev.tumbling("1 hour"), by="id")
    paid = ORDERS.join(PAYMENTS, **ASKED)
    with pytest.raises(
        ev.DefinitionError, match=r"by: the pairs of the inner join.*no column 'bank'. Their columns are id, order_at"
    ):
        paid.window(ev.tumbling("1 hour"), by="bank")
    with pytest.raises(ev.DefinitionError, match=r"agg\(s=…\): the pairs.*no column 'rupees'"):
        paid.window(ev.tumbling("1 hour"), by="id").agg(s=ev.sum("rupees"))
    hours = paid.window(ev.tumbling("1 hour"), by="id").agg(s=ev.sum("order_rupees"))
    with pytest.raises(ev.DefinitionError, match=r"pairs that windows refuse are counted, and not kept yet"):
        hours.to("hours", late=ev.divert())
    shop = ev.Pipeline("shop", hours.to("hours", late=ev.drop()))
    assert "pairs   inner join of orders with payments on id\n  cuts    tumbling 1 hour by id" in shop.explain()


def test_what_reads_one_side_of_a_join_is_another_pipeline() -> None:
    paid = ORDERS.join(PAYMENTS, **ASKED).to("paid")
    counted = ORDERS.window(ev.tumbling("1 hour")).agg(n=ev.count()).to("orders", late=ev.drop())
    with pytest.raises(ev.DefinitionError, match=r"'orders' reads windows over one stream.*another pipeline"):
        ev.Pipeline("shop", paid, counted)
    with pytest.raises(ev.DefinitionError, match=r"'orders' reads windows over one stream"):
        ev.Pipeline("shop", counted, paid)
    with pytest.raises(ev.DefinitionError, match=r"'audit' takes the events of a stream that is joined.*not done yet"):
        ev.Pipeline("shop", paid, ORDERS.to("audit"))
    with pytest.raises(ev.DefinitionError, match=r"'other' reads another join"):
        ev.Pipeline("shop", paid, ORDERS.join(PAYMENTS, **ASKED, how="left").to("other"))


def test_verbs_that_go_window_by_window_say_that_a_join_has_none() -> None:
    shop = ev.Pipeline("shop", ORDERS.join(PAYMENTS, **ASKED).to("paid"))
    with pytest.raises(ev.DefinitionError, match=r"tuning is done window by window"):
        shop.refuse_join("tuning")


def test_a_sink_that_cannot_take_back_is_warned_of_where_rows_can_be_withdrawn() -> None:
    sink = ev.webhook("http://localhost/hook")
    late = {"late": ev.accumulate("5 minutes")}
    left = ORDERS.join(PAYMENTS, **{**ASKED, **late}, how="left")
    with pytest.warns(ev.LossWarning, match=r"cannot take a retraction"):
        left.to("paid", sink)
    assert ORDERS.join(PAYMENTS, **ASKED, how="left").to("paid", sink).accumulation == "accumulating"


def test_what_a_pipeline_says_of_itself() -> None:
    shop = ev.Pipeline("shop", ORDERS.join(PAYMENTS, **ASKED, how="left").to("paid"))
    assert "  pairs   left join of orders with payments on id\n  gives   paid" in shop.explain()


def test_every_setting_of_a_join_has_a_rule() -> None:
    from dataclasses import fields

    from eventide.definition.join import Join

    assert {field.name for field in fields(Join)} <= set(RULES[Join])
