"""/subjects: registering, looking up, listing and deleting."""

from __future__ import annotations

from contextlib import suppress

from eventide.registry import faults, reading
from eventide.registry.catalog import Catalog
from eventide.registry.deletion import delete_subject, delete_version
from eventide.registry.names import EVERY_CONTEXT, is_valid
from eventide.registry.records import Entry
from eventide.registry.registration import find_registered, refuse_reuse, register
from eventide.registry.service import bodies
from eventide.registry.service.audit import note
from eventide.registry.service.http import Answer, RawAnswer, Request
from eventide.registry.service.routes import Routes

routes = Routes()
_LARGEST_VERSION = 2**31 - 1


def version_number(given: str) -> int:
    """A version as a path names it: a number, or -1 for `latest`."""
    trimmed = given.strip()
    if trimmed.lower() == "latest":
        return -1
    digits = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or abs(int(trimmed)) > _LARGEST_VERSION:
        raise faults.invalid_version(given)
    number = int(trimmed)
    if number <= 0 and number != -1:
        raise faults.invalid_version(str(number))
    return number


def refuse_tag_search(request: Request) -> None:
    """Raise 42250 for a request that wants the tags inside a schema."""
    if request.text("findTags"):
        raise faults.not_built("findTags", "The tags stand in the schema's text.")


def _registered(catalog: Catalog, request: Request, entry: Entry) -> Answer:
    return Answer(catalog.in_format(entry, request.text("format")).as_registered())


def _already_there(catalog: Catalog, request: Request) -> Answer | None:
    """Answer a repeated registration without the writer, and have a new one parsed before its turn comes."""
    subject = request.params["subject"]
    if request.flag("force"):
        raise faults.not_built(
            "force", "To skip the compatibility check set the subject's level to NONE: PUT /config/{subject}."
        )
    proposal = bodies.proposal(request, subject, "register.arg5")
    if not is_valid(subject):
        raise faults.invalid_subject(subject)
    normalize = request.flag("normalize")
    found = find_registered(catalog, proposal, normalize=normalize)
    if found is not None:
        with suppress(faults.Fault):  # the writer refuses it once more, and writes that down
            refuse_reuse(catalog, found)
            return _registered(catalog, request, found)
        return None
    if not proposal.is_empty:
        with suppress(faults.Fault):
            catalog.canonical(proposal, strict=True, normalize=normalize)
    return None


@routes.write("POST", "/subjects/{subject}/versions", "register", before=_already_there)
def post_version(catalog: Catalog, request: Request) -> Answer:
    """Register a schema under a subject."""
    subject = request.params["subject"]
    proposal = bodies.proposal(request, subject, "register.arg5")
    entry, is_new = register(catalog, proposal, normalize=request.flag("normalize"))
    if is_new:
        note(catalog, request, "register", subject, {"version": entry.version, "id": entry.id, "guid": entry.guid})
    return _registered(catalog, request, entry)


@routes.read("POST", "/subjects/{subject}")
def look_up(catalog: Catalog, request: Request) -> Answer:
    """The version under which a subject has a schema."""
    proposal = bodies.proposal(request, request.params["subject"], "lookUpSchemaUnderSubject.arg5")
    entry = reading.look_up(catalog, proposal, normalize=request.flag("normalize"), deleted=request.flag("deleted"))
    return Answer(catalog.in_format(entry, request.text("format")).as_version())


@routes.read("GET", "/subjects")
def list_subjects(catalog: Catalog, request: Request) -> Answer:
    """The subjects, in order."""
    only = request.flag("deletedOnly") or request.flag("deleted_only")
    found = reading.subjects(
        catalog, request.text("subjectPrefix", EVERY_CONTEXT), deleted=request.flag("deleted"), deleted_only=only
    )
    return Answer(reading.page(found, request.number("offset", 0), request.number("limit", -1)))


@routes.write("DELETE", "/subjects/{subject}", "delete_subject")
def remove_subject(catalog: Catalog, request: Request) -> Answer:
    """Delete all versions of a subject."""
    subject, permanent = request.params["subject"], request.flag("permanent")
    deleted = delete_subject(catalog, subject, permanent=permanent)
    note(catalog, request, "delete_subject", subject, {"versions": deleted, "permanent": permanent})
    return Answer(deleted)


@routes.read("GET", "/subjects/{subject}/versions")
def list_versions(catalog: Catalog, request: Request) -> Answer:
    """The version numbers of a subject."""
    numbers = reading.versions(
        catalog,
        request.params["subject"],
        deleted=request.flag("deleted"),
        deleted_only=request.flag("deletedOnly") or request.flag("deleted_only"),
        as_negative=request.flag("deletedAsNegative"),
    )
    return Answer(reading.page(numbers, request.number("offset", 0), request.number("limit", -1)))


def _version(catalog: Catalog, request: Request, *, deleted: bool) -> Entry:
    number = version_number(request.params["version"])
    return reading.version(catalog, request.params["subject"], number, deleted=deleted)


@routes.read("GET", "/subjects/{subject}/versions/{version}")
def get_version(catalog: Catalog, request: Request) -> Answer:
    """One version of a subject."""
    refuse_tag_search(request)
    entry = _version(catalog, request, deleted=request.flag("deleted"))
    entry = reading.qualified(catalog.in_format(entry, request.text("format")), request.text("referenceFormat"))
    return Answer(entry.as_version())


@routes.read("GET", "/subjects/{subject}/versions/{version}/schema")
def get_version_schema(catalog: Catalog, request: Request) -> Answer:
    """The schema of one version by itself."""
    entry = _version(catalog, request, deleted=request.flag("deleted"))
    return RawAnswer(catalog.in_format(entry, request.text("format")).text)


@routes.read("GET", "/subjects/{subject}/versions/{version}/referencedby")
def get_referrers(catalog: Catalog, request: Request) -> Answer:
    """The ids of the schemas that refer to one version."""
    entry = _version(catalog, request, deleted=True)
    found = catalog.seen.referrers(entry.subject, entry.version, deleted=request.flag("deleted"))
    return Answer(reading.page([i for _, i in found], request.number("offset", 0), request.number("limit", -1)))


@routes.write("POST", "/subjects/{subject}/versions/{version}/tags", "modify_tags")
def modify_tags(catalog: Catalog, request: Request) -> Answer:
    """Not built: tags are written into the schema by whoever writes the schema."""
    raise faults.not_built(
        "/subjects/{subject}/versions/{version}/tags",
        "Register the schema with the tags written into it, or into metadata.tags.",
    )


@routes.write("DELETE", "/subjects/{subject}/versions/{version}", "delete_version")
def remove_version(catalog: Catalog, request: Request) -> Answer:
    """Delete one version of a subject."""
    subject, permanent = request.params["subject"], request.flag("permanent")
    number = version_number(request.params["version"])
    deleted = delete_version(catalog, subject, number, permanent=permanent)
    note(catalog, request, "delete_version", subject, {"version": deleted, "permanent": permanent})
    return Answer(deleted)


@routes.read("GET", "/subjects/{subject}/metadata")
def get_with_metadata(catalog: Catalog, request: Request) -> Answer:
    """The latest version whose metadata has these properties."""
    keys, values = request.query.get("key", []), request.query.get("value", [])
    entry = reading.with_metadata(
        catalog, request.params["subject"], dict(zip(keys, values, strict=False)), deleted=request.flag("deleted")
    )
    return Answer(catalog.in_format(entry, request.text("format")).as_version())
