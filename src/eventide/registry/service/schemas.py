"""/schemas: by id, by guid, and all of them."""

from __future__ import annotations

from eventide.registry import faults, reading
from eventide.registry.catalog import Catalog
from eventide.registry.names import Name, normal
from eventide.registry.records import Entry, Json
from eventide.registry.service.http import Answer, RawAnswer, Request, whole_number
from eventide.registry.service.routes import Routes
from eventide.registry.service.subjects import refuse_tag_search

routes = Routes()
_MOST_SCHEMAS = 1000


@routes.read("GET", "/schemas/types")
def list_types(catalog: Catalog, request: Request) -> Answer:
    """The kinds of schema, in the order clients expect."""
    return Answer(["JSON", "PROTOBUF", "AVRO"])


@routes.read("GET", "/schemas")
def list_schemas(catalog: Catalog, request: Request) -> Answer:
    """All versions of the subjects with a prefix, at most a thousand."""
    context, prefix = reading.split_prefix(request.text("subjectPrefix"))
    deleted = None if request.flag("deleted") else 0
    asked = request.number("limit", -1)
    limit = asked if 0 < asked <= _MOST_SCHEMAS else _MOST_SCHEMAS
    latest, offset = request.flag("latestOnly"), max(request.number("offset", 0), 0)
    if _asks_for_associations(request):
        return Answer([])
    aliases, rule_type = request.flag("aliases"), request.text("ruleType")
    if not aliases and not rule_type:
        found = catalog.seen.listing(context, prefix, latest_only=latest, deleted=deleted, offset=offset, limit=limit)
        return Answer([entry.as_version() for entry in found])
    everything = catalog.seen.listing(context, prefix, latest_only=latest, deleted=deleted, offset=0, limit=2**31)
    names = reading.aliases(catalog, context, prefix) if aliases else {}
    if names:
        everything = reading.with_aliased(catalog, everything, names, latest_only=latest, deleted=deleted is None)
    if rule_type:
        everything = [entry for entry in everything if rule_type in _rule_types(entry)]
    shown = reading.page(everything, offset, limit)
    return Answer([_with_aliases(entry.as_version(), names.get(entry.subject)) for entry in shown])


def _asks_for_associations(request: Request) -> bool:
    """Are only schemas wanted that belong to a topic by an association? There is none here."""
    asked = any(request.text(name) for name in ("resourceType", "associationType", "lifecycle"))
    return asked and "NONE" not in (given.upper() for given in request.query.get("lifecycle", ()))


def _rule_types(entry: Entry) -> set[str]:
    families = ("migrationRules", "domainRules", "encodingRules")
    return {str(rule.get("type")) for family in families for rule in (entry.rules or {}).get(family) or ()}


def _with_aliases(body: Json, names: list[str] | None) -> Json:
    return {**body, "aliases": names} if names else body


def _subject(catalog: Catalog, request: Request) -> str:
    """The subject or context that an id is asked for under, its alias followed."""
    return reading.aliased(catalog, normal(request.text("subject")))


def _by_id(catalog: Catalog, request: Request) -> Entry:
    refuse_tag_search(request)
    schema_id = whole_number(request.params["id"])
    entry = reading.by_id(catalog, schema_id, _subject(catalog, request))
    if entry is None:
        raise faults.schema_not_found(schema_id)
    return catalog.in_format(entry, request.text("format"))


@routes.read("GET", "/schemas/ids/{id}")
def get_schema(catalog: Catalog, request: Request) -> Answer:
    """The schema behind an id."""
    entry = reading.qualified(_by_id(catalog, request), request.text("referenceFormat"))
    highest = catalog.session.last_id(Name.parse(entry.subject).context) if request.flag("fetchMaxId") else None
    return Answer(entry.as_schema(highest))


@routes.read("GET", "/schemas/ids/{id}/schema")
def get_schema_text(catalog: Catalog, request: Request) -> Answer:
    """The schema behind an id by itself."""
    return RawAnswer(_by_id(catalog, request).text)


@routes.read("GET", "/schemas/ids/{id}/subjects")
def get_id_subjects(catalog: Catalog, request: Request) -> Answer:
    """The subjects that hold an id."""
    return Answer([subject for subject, _ in _holders(catalog, request)])


@routes.read("GET", "/schemas/ids/{id}/versions")
def get_id_versions(catalog: Catalog, request: Request) -> Answer:
    """The subjects and versions that hold an id."""
    return Answer([{"subject": subject, "version": version} for subject, version in _holders(catalog, request)])


def _holders(catalog: Catalog, request: Request) -> list[tuple[str, int]]:
    found = reading.holders_of(
        catalog, whole_number(request.params["id"]), _subject(catalog, request), deleted=request.flag("deleted")
    )
    return reading.page(found, request.number("offset", 0), request.number("limit", -1))


@routes.read("GET", "/schemas/guids/{guid}")
def get_guid(catalog: Catalog, request: Request) -> Answer:
    """The schema behind a guid."""
    entry = reading.by_guid(catalog, request.params["guid"].lower())
    if entry is None:
        raise faults.schema_not_found(request.params["guid"])
    body: Json = catalog.in_format(entry, request.text("format")).as_schema()
    return Answer({k: v for k, v in body.items() if k not in ("subject", "version")})


@routes.read("GET", "/schemas/guids/{guid}/ids")
def get_guid_ids(catalog: Catalog, request: Request) -> Answer:
    """The ids of a guid, one per context that has it."""
    found = catalog.seen.ids_of(request.params["guid"].lower())
    return Answer([{"context": context, "id": schema_id} for context, schema_id in found])
