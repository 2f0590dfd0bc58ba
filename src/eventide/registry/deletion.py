"""Deleting versions and subjects: softly first, for good second."""

from __future__ import annotations

from eventide.registry import faults
from eventide.registry.catalog import Catalog


def delete_version(catalog: Catalog, subject: str, version: int, *, permanent: bool) -> int:
    """Delete one version (-1 is the latest); gives its number.

    Raises:
        Fault: it is not there, not in the right state, or somebody refers to it.
    """
    session = catalog.session
    if version == -1:
        latest = session.latest(subject)
        entry = latest
    else:
        entry = session.entry(subject, version, deleted=True)
    if entry is None:
        if not session.has_subject(subject, deleted=True):
            raise faults.subject_not_found(subject)
        raise faults.version_not_found(version)
    if entry.deleted and not permanent:
        raise faults.version_soft_deleted(subject, version)
    catalog.refuse_if_read_only(subject)
    if session.referrers(subject, entry.version, deleted=permanent):
        raise faults.reference_exists(subject, entry.version)
    if permanent and not entry.deleted:
        raise faults.version_not_soft_deleted(subject, entry.version)
    for guard in catalog.guards:
        guard.before_delete(catalog, [entry])
    if permanent:
        session.hard_delete(entry)
        if not session.has_subject(subject, deleted=True):
            _forget_settings(catalog, subject)
    else:
        session.soft_delete(entry, catalog.now)
    return entry.version


def delete_subject(catalog: Catalog, subject: str, *, permanent: bool) -> list[int]:
    """Delete all versions of a subject; gives their numbers.

    Raises:
        Fault: it is not there, not in the right state, or somebody else refers to one of them.
    """
    session = catalog.session
    if not session.has_subject(subject, deleted=True):
        raise faults.subject_not_found(subject)
    if not permanent and not session.has_subject(subject, deleted=False):
        raise faults.subject_soft_deleted(subject)
    catalog.refuse_if_read_only(subject)
    entries = session.entries(subject, deleted=permanent)
    for entry in entries:
        if session.referring_subjects(subject, entry.version, deleted=permanent) - {subject}:
            raise faults.reference_exists(subject, entry.version)
        if permanent and not entry.deleted:
            raise faults.subject_not_soft_deleted(subject)
    for guard in catalog.guards:
        guard.before_delete(catalog, entries)
    for entry in entries:
        if permanent:
            session.hard_delete(entry)
        else:
            session.soft_delete(entry, catalog.now)
    if permanent:
        _forget_settings(catalog, subject)
    return [entry.version for entry in entries]


def _forget_settings(catalog: Catalog, subject: str) -> None:
    catalog.session.put_mode(subject, None)
    catalog.session.put_config(subject, None)
