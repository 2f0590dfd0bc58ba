"""Reconciling: what the outputs emitted against everything that arrived, as a table of corrections and a report that adds up."""

from eventide.reconcile.features import features
from eventide.reconcile.reconcile import Reconciliation, reconcile
from eventide.reconcile.report import Line, Report

__all__ = ["Line", "Reconciliation", "Report", "features", "reconcile"]
