"""fare_cents becomes pricing, by expand-contract: phase by phase, while the shop sells and the pipeline runs."""

import time
from collections.abc import Callable

import data
from shop import SUBJECT, Shop

from eventide.engine.handle import Handle
from eventide.migration import MigrationClient
from eventide.registry.client import RegistryRefused

NAME = "pricing"
SETTINGS = {"hold_dual_write": "0 s", "drift_free": "0 s", "upcaster": True}
"""In earnest both shapes are held for days. Whoever reads old records again goes through the adapter, as the pipeline does."""
FORWARD = {"pricing.base": "fare_cents", "pricing.surge": "0", "pricing.tax": "0"}
BACKWARD = {"fare_cents": "pricing.base + pricing.surge + pricing.tax"}


class Rollout:
    """One migration, from the plan to the contract."""

    def __init__(self, shop: Shop) -> None:
        self._shop, self._change = shop, MigrationClient(shop.registry)

    def plan(self) -> None:
        """Say what becomes of what, both ways."""
        wanted = {"subject": SUBJECT, "schema": data.schema(data.PRICING), "name": NAME, "policy": SETTINGS}
        self._change("POST", body={**wanted, "forward": FORWARD, "backward": BACKWARD})
        self._change("POST", NAME, "/confirm", {})

    def run(self, running: Handle) -> None:
        """Every phase, each settled before the next."""
        print("fare_cents becomes pricing, while the pipeline runs")
        self._sell(running, "plan")
        self._change.go(NAME, "expand")
        self._sell(running, "expand")
        print(f"{'':14}without fare_cents? {self._register_too_early()}")
        self._change.go(NAME, "dual_write")
        sold = self._sell(running, "dual_write")
        until(running, lambda: self._drift()["checked"] >= sold)
        print(f"{'':14}both shapes: {self._drift()['agree']:,} agree, {self._drift()['drifted']} differ")
        self._change.go(NAME, "migrate")
        self._declare("checkouts", "either")
        self._declare("dashboard", "old")
        self._sell(running, "migrate")
        self._move_dashboard(running)
        self._change.go(NAME, "contract_ready")
        self._change.go(NAME, "contracted", confirm=NAME)
        self._sell(running, "contracted")

    def _sell(self, running: Handle, phase: str) -> int:
        sold = self._shop.sell(phase)
        until(running, lambda: running.rows["in"] == self._shop.sold)
        print(f"  {phase:<12}{sold:>6,} checkouts with {' and '.join(data.SHAPES[phase])}")
        return sold

    def _drift(self) -> dict[str, int]:
        return self._change("GET", NAME)["drift"]

    def _register_too_early(self) -> str:
        """What the registry says to a producer that goes straight to the new shape."""
        try:
            self._shop.registry.register(SUBJECT, data.schema(data.PRICING))
        except RegistryRefused as refusal:
            return refusal.reason.partition(" `")[0]
        raise AssertionError("the registry took a schema that drops fare_cents")

    def _move_dashboard(self, running: Handle) -> None:
        """The pipeline was seen to read either shape; the dashboard read the old one, and moves."""
        self._change.report_selected(SUBJECT, ["fare_cents"], client="dashboard")
        until(
            running, lambda: [one["name"] for one in self._change("GET", NAME)["consumers"] if one["blocks"]] == ["dashboard"]
        )
        gates = self._change("GET", NAME, "/can-contract")["gates"]
        print(f"{'':14}may fare_cents go? no: {next(gate['found'] for gate in gates if not gate['open'])}")
        self._declare("dashboard", "new")
        self._change.report_selected(SUBJECT, ["pricing.base"], client="dashboard")
        until(running, lambda: self._change("GET", NAME, "/can-contract")["can_contract"])
        print(f"{'':14}dashboard now selects pricing.base; may it go? yes")

    def _declare(self, consumer: str, shape: str) -> None:
        self._change("PUT", NAME, "/consumers", {"name": consumer, "shape": shape})


def until(running: Handle, condition: Callable[[], bool], seconds: float = 180) -> None:
    """Wait for it; what kills the pipeline meanwhile is raised."""
    end = time.monotonic() + seconds
    while not condition():
        if running.wait(0.2) or time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} seconds; the pipeline has read {running.rows['in']:,} rows")
