"""Expand-contract: breaking schema changes without a flag day.

What a pipeline or a consumer needs of a migration is here; the rest is asked of the registry's service, by REST or with
`eventide migrate`.
"""

from eventide.migration.data.client import MigrationClient, open_migration
from eventide.migration.data.drift import DriftCheck, DriftReport
from eventide.migration.data.drift_watch import DriftWatch
from eventide.migration.data.rule_chain import RuleChain, RuleFailed
from eventide.migration.data.upcast import Upcast, upcast
from eventide.migration.plan.mapping import Change, Mapping
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase

__all__ = [
    "Change",
    "DriftCheck",
    "DriftReport",
    "DriftWatch",
    "Mapping",
    "Migration",
    "MigrationClient",
    "Phase",
    "RuleChain",
    "RuleFailed",
    "Upcast",
    "open_migration",
    "upcast",
]
