"""Conservation on each side of a join: every row that came is waiting, refused, kept, or was let go when nothing could match it any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eventide.kernel.bound_plan import BoundPlan
from eventide.kernel.sides import JoinPlan, Side
from eventide.state.store import PartKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from eventide.engine.batch.microbatch import BatchInput, BatchResult
    from eventide.state.ledger import Ledger
    from eventide.state.store import Store

    Agree = Callable[[int, str, int, str, int], None]


def check_join(
    agree: Agree, store: Store, shape: BoundPlan, join: JoinPlan, before: Ledger, result: BatchResult, given: BatchInput
) -> None:
    """Hold what was counted against what was written, side by side; `agree` stops the pipeline where two numbers differ."""
    for side in join.sides:
        _side(agree, side, result, given)
    pairs = result.ledger.rows["pairs_joined"] - before.rows["pairs_joined"]
    for one in shape.beside:
        judged = result.ledger.counted(one.name, "judged") - before.counted(one.name, "judged")
        agree(given.number, "pairs that match", pairs, "pairs judged by windows over them", judged)
    for name in (output.name for output in shape.plan.outputs):
        written = sum(store.count(path) for path in result.panes[name] if "-pairs-" in path.rpartition("/")[2])
        agree(given.number, "pairs that match", pairs, f"pairs in the files of output {name!r}", written)


def _side(agree: Agree, side: Side, result: BatchResult, given: BatchInput) -> None:
    rows, what = result.ledger.rows, f"rows of the {side.name} side"

    def counted(name: str) -> int:
        return rows[side.counter(name)]

    kept = sum(a.counts.get(side.counter("kept"), 0) for a in given.accounts)
    parts = [p for a in given.accounts for p in a.parts if p.kind == PartKind.ROWS and p.aggregation == side.name]
    agree(
        given.number, f"{what} that wait to be judged", kept, "rows in the parts written for them", sum(p.rows for p in parts)
    )
    waiting = counted("kept") - counted("judged") - counted("duplicates")
    agree(given.number, f"{what} waiting", waiting, "rows stored beyond the sweep", result.beyond.get(side.name, 0))
    let_in = counted("on_time") + counted("admitted")
    agree(given.number, f"{what} judged", counted("judged"), "let in + refused", let_in + counted("refused"))
    held = sum(p.rows for p in result.ledger.parts if p.kind == PartKind.SIDE and p.aggregation == side.name)
    agree(given.number, f"{what} let in", let_in, "kept + let go", held + counted("evicted"))
