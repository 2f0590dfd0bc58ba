"""Expand-contract: breaking schema changes without a flag day.

What a pipeline or a consumer needs of a migration is here; the rest is asked of the registry's service, by REST or with
`eventide migrate`.
"""

from eventide.migration.client import MigrationClient, open_migration
from eventide.migration.drift import DriftCheck, DriftReport
from eventide.migration.mapping import Change, Mapping
from eventide.migration.migration import Migration
from eventide.migration.phase import Phase
from eventide.migration.rulechain import RuleChain, RuleFailed
from eventide.migration.upcast import Upcast, upcast
from eventide.migration.watch import DriftWatch

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
