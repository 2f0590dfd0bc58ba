"""Compatibility settings and modes: of the whole registry, of a context, of a subject."""

from __future__ import annotations

from typing import Any

from eventide.registry import faults
from eventide.registry.catalog import Catalog, Config
from eventide.registry.compatibility import LEVELS
from eventide.registry.identity import tidy_metadata
from eventide.registry.names import GLOBAL_CONTEXT, Name

POLICIES = ("STRICT", "LENIENT")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
_FIELDS = ("alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules",
           "compatibilityLevel", "compatibilityPolicy", "compatibilityGroup", "defaultMetadata", "overrideMetadata",
           "defaultRuleSet", "overrideRuleSet")  # fmt: skip


def as_update(config: Config) -> dict[str, Any]:
    """Settings as the answer to an update spells them: `compatibility`, not `compatibilityLevel`."""
    return {("compatibility" if k == "compatibilityLevel" else k): config[k] for k in _FIELDS if k in config}


def as_config(config: Config) -> dict[str, Any]:
    """Settings as the answer to a question spells them."""
    return {k: config[k] for k in _FIELDS if k in config}


def update_config(catalog: Catalog, subject: str, update: dict[str, Any]) -> Config:
    """Change the settings that an update names, keep the others; a null takes one away."""
    changed = dict(update)
    if "compatibility" in changed:
        level = changed.pop("compatibility")
        changed["compatibilityLevel"] = level
        if level is not None:
            changed["compatibilityLevel"] = str(level).upper()
            if changed["compatibilityLevel"] not in LEVELS:
                raise faults.invalid_level()
    _refuse_settings(changed)
    for field in ("defaultMetadata", "overrideMetadata"):
        if changed.get(field) is not None:
            changed[field] = tidy_metadata(changed[field])
    catalog.refuse_if_read_only(subject)
    config = {**(catalog.session.config(subject) or {}), **changed}
    config = {k: v for k, v in config.items() if v is not None and k in _FIELDS}
    catalog.session.put_config(subject, config)
    return config


def _refuse_settings(changed: dict[str, Any]) -> None:
    """Raise the fault of a setting that would be kept and have no effect."""
    policy = changed.get("compatibilityPolicy")
    if policy is not None:
        changed["compatibilityPolicy"] = str(policy).upper()
        if changed["compatibilityPolicy"] == "LOGICAL":
            raise faults.not_built("compatibilityPolicy LOGICAL", "Valid values are STRICT and LENIENT.")
        if changed["compatibilityPolicy"] not in POLICIES:
            raise faults.Fault(422, 42203, f"Invalid compatibility policy '{policy}'. Valid values are STRICT and LENIENT.")
    if changed.get("aliasForDeks") is not None:
        raise faults.not_built("aliasForDeks", "It keeps no encryption keys that an alias could stand for; leave it out.")
    if changed.get("validateRules") is False:
        raise faults.not_built("validateRules: false", "Rule sets are always checked; leave it out.")


def delete_config(catalog: Catalog, subject: str) -> Config:
    """Take the settings of a subject away; gives what they were."""
    before = catalog.config(subject)
    if before is None:
        raise faults.subject_not_found(subject)
    catalog.refuse_if_read_only(subject)
    catalog.session.put_config(subject, None)
    return before


def set_mode(catalog: Catalog, subject: str, mode: str | None, *, force: bool) -> None:
    """Set the mode of a subject; importing needs an empty subject or context, unless it is forced.

    Raises:
        Fault: no such mode, or there are schemas where an import would go.
    """
    session = catalog.session
    if mode is not None and mode.upper() not in MODES:
        raise faults.invalid_mode()
    wanted = mode.upper() if mode is not None else None
    if wanted == "FORWARD" and Name.parse(subject).context != GLOBAL_CONTEXT:
        raise faults.Fault(422, 42204, "Forward mode only supported on global level")
    if wanted == "IMPORT" and catalog.mode_in_scope(subject) != "IMPORT" and not force:
        if _live_subjects(catalog, subject):
            raise faults.not_permitted("Cannot import since found existing subjects")
        for name in _subjects(catalog, subject):
            for entry in session.entries(name, deleted=True):
                if session.referrers(name, entry.version, deleted=True):
                    raise faults.reference_exists(name, entry.version)
                session.hard_delete(entry)
    session.put_mode(subject, wanted)


def _subjects(catalog: Catalog, subject: str) -> list[str]:
    """The subjects that a name covers: itself, a whole context, or (named by nothing) everything."""
    name = Name.parse(subject)
    if subject and name.subject:
        return [subject] if catalog.session.has_subject(subject, deleted=True) else []
    everything = not subject or name.context == GLOBAL_CONTEXT
    return [s for s, _ in catalog.session.subjects(None if everything else name.context, "")]


def _live_subjects(catalog: Catalog, subject: str) -> bool:
    return any(catalog.session.has_subject(s, deleted=False) for s in _subjects(catalog, subject))


def delete_mode(catalog: Catalog, subject: str, *, recursive: bool) -> str | None:
    """Take the mode of a subject away, with `recursive` also of all subjects in the context; gives what it was."""
    before = catalog.mode(subject)
    if before is None and not recursive:
        raise faults.subject_not_found(subject)
    catalog.session.put_mode(subject, None)
    if recursive and not Name.parse(subject).subject:
        context = Name.parse(subject).context
        for name in catalog.session.modes():
            if Name.parse(name).context == context:
                catalog.session.put_mode(name, None)
    return before
