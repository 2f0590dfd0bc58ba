"""Orders and their payments: which order was paid, by whom, and which was not; what turns out wrong is taken back.

python examples/orders_and_payments makes the data, runs this and prints what stands.
"""

import eventide as ev

orders = ev.files(
    "orders",
    "landing/orders",
    schema="ordered_at timestamp, arrived_at timestamp, order_id string, rupees bigint",
    event_time="ordered_at",
    arrival="arrived_at",
    watermark=ev.bounded("10 seconds"),
    files_per_batch=4,
)
payments = ev.files(
    "payments",
    "landing/payments",
    schema="paid_at timestamp, arrived_at timestamp, order_id string, bank string",
    event_time="paid_at",
    arrival="arrived_at",
    watermark=ev.bounded("30 seconds"),
    files_per_batch=4,
)

paid = orders.join(
    payments,
    on="order_id",
    within=("0 s", "10 minutes"),
    how="left",
    late=ev.accumulate("20 minutes", refused=ev.divert(ev.sqlite("shop.db"))),
    prefix=("order_", "payment_"),
)

pipeline = ev.Pipeline("shop", paid.to("paid", ev.sqlite("shop.db")), state="state", archive="archive")
