"""What the commands are shown at work on: the same runs and services as the rooms behind them."""

from tests.lateness.test_causes import clicks
from tests.reconcile.test_reconcile import burst
from tests.registry.conftest import ask, service, sqlite_url
from tests.tuning.test_tune import delayed

__all__ = ["ask", "burst", "clicks", "delayed", "service", "sqlite_url"]
