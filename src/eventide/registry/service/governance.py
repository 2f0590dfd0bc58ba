"""/eventide/v1: owners, naming rules, policy, the audit log, diffs, usage and bulk listing."""

from __future__ import annotations

from typing import Any

from eventide.registry import faults, reading
from eventide.registry.catalog import Catalog
from eventide.registry.checking import find_clash, is_strict, reserved_fields_against
from eventide.registry.faults import Fault
from eventide.registry.governance.diff import as_json, compare
from eventide.registry.governance.overview import overview
from eventide.registry.governance.policy import REQUIRE_OWNER, owner_of
from eventide.registry.names import DEFAULT_CONTEXT, EVERY_CONTEXT, normal
from eventide.registry.patterns import LONGEST_PATTERN, BadPattern, refuse_bad
from eventide.registry.service import bodies
from eventide.registry.service.access import require
from eventide.registry.service.audit import note
from eventide.registry.service.auth import Role
from eventide.registry.service.http import Answer, Request
from eventide.registry.service.routes import Routes
from eventide.registry.service.subjects import version_number

routes = Routes()
_OWNER = ("team", "domain", "contact", "on_call")
_MOST_LINES = 10_000


@routes.read("GET", "/health", role=None)
@routes.read("GET", "/eventide/v1/health", role=None)
def get_health(catalog: Catalog, request: Request) -> Answer:
    """Is the store there? Answers only if it is, to anybody, and tells nothing else."""
    catalog.session.fact("identity")
    return Answer({"status": "ok"})


@routes.read("GET", "/eventide/v1/subjects")
def list_overview(catalog: Catalog, request: Request) -> Answer:
    """All subjects with their latest version, level, mode and owner."""
    context, prefix = reading.split_prefix(request.text("subjectPrefix", EVERY_CONTEXT))
    lines = overview(catalog, context, prefix, deleted=request.flag("deleted"))
    return Answer(reading.page(lines, request.number("offset", 0), request.number("limit", -1)))


@routes.read("GET", "/eventide/v1/subjects/{subject}/diff")
def get_diff(catalog: Catalog, request: Request) -> Answer:
    """What changed between two versions; `with` compares with another subject."""
    subject = request.params["subject"]
    other = normal(request.text("with", subject))
    require(request, Role.READ, other)
    old = reading.version(catalog, subject, version_number(request.text("from", "1")), deleted=True)
    new = reading.version(catalog, other, version_number(request.text("to", "latest")), deleted=True)
    return Answer(compare(catalog, old, new))


@routes.read("POST", "/eventide/v1/compatibility/subjects/{subject}/versions")
def explain(catalog: Catalog, request: Request) -> Answer:
    """Would a registration be compatible, and if not: where, who is the reader, and what to do about it?"""
    proposal = bodies.proposal(request, request.params["subject"], "body")
    if proposal.is_empty:
        raise faults.invalid_schema("Empty schema")
    config = catalog.config_in_scope(proposal.subject)
    if request.text("level"):
        config = {**config, "compatibilityLevel": request.text("level").upper()}
    normalize = request.flag("normalize") or bool(config.get("normalize"))
    canonical = catalog.canonical(proposal, strict=is_strict(config), normalize=normalize)
    reasons = reserved_fields_against(catalog, config, canonical)
    try:
        clash = find_clash(catalog, config, canonical)
    except ValueError:
        raise faults.invalid_level() from None
    reasons += clash[1] if clash else []
    return Answer(
        {
            "is_compatible": not reasons,
            "level": config["compatibilityLevel"],
            "version": clash[0].version if clash else None,
            "reasons": [as_json(reason) for reason in reasons],
        }
    )


@routes.read("GET", "/eventide/v1/owners")
def list_owners(catalog: Catalog, request: Request) -> Answer:
    """Every owner; with `subject` the one that this subject has."""
    subject = request.text("subject")
    if not subject:
        return Answer(catalog.seen.owners())
    require(request, Role.READ, subject)
    owner = owner_of(catalog.session, subject)
    if owner is None:
        raise Fault(404, 40451, f"Subject '{subject}' has no owner")
    return Answer(owner)


@routes.write("PUT", "/eventide/v1/owners", "update_owner", role=Role.READ)
def put_owner(catalog: Catalog, request: Request) -> Answer:
    """Name the owner of all subjects that begin with a prefix."""
    body = bodies.as_object(request, "body")
    prefix = bodies.text(body, "prefix") or ""
    require(request, Role.ADMIN, prefix)
    owner = {name: bodies.text(body, name) or "" for name in _OWNER}
    if not owner["team"].strip():
        raise Fault(422, 42253, "An owner needs at least a team: {prefix, team, domain, contact, on_call}")
    catalog.session.put_owner(prefix, owner)
    note(catalog, request, "update_owner", prefix, owner)
    return Answer({"prefix": prefix, **owner})


@routes.write("DELETE", "/eventide/v1/owners", "delete_owner", role=Role.READ)
def remove_owner(catalog: Catalog, request: Request) -> Answer:
    """Take the owner of a prefix away."""
    prefix = request.text("prefix")
    require(request, Role.ADMIN, prefix)
    if not catalog.session.put_owner(prefix, None):
        raise Fault(404, 40451, f"Prefix '{prefix}' has no owner")
    note(catalog, request, "delete_owner", prefix, {})
    return Answer({"prefix": prefix})


@routes.read("GET", "/eventide/v1/naming")
def list_naming(catalog: Catalog, request: Request) -> Answer:
    """Every naming rule."""
    return Answer(catalog.seen.naming_rules())


@routes.write("PUT", "/eventide/v1/naming", "update_naming", role=Role.READ)
def put_naming(catalog: Catalog, request: Request) -> Answer:
    """Say what the subjects that begin with a prefix must look like, as a regular expression for the whole name."""
    body = bodies.as_object(request, "body")
    prefix, pattern = bodies.text(body, "prefix") or "", bodies.text(body, "pattern") or ""
    require(request, Role.ADMIN, prefix)
    try:
        refuse_bad(pattern)
    except BadPattern as error:
        raise faults.naming_unusable(prefix, pattern[:LONGEST_PATTERN], str(error)) from None
    rule = {"pattern": pattern, "hint": bodies.text(body, "hint") or ""}
    catalog.session.put_naming_rule(prefix, rule)
    note(catalog, request, "update_naming", prefix, rule)
    return Answer({"prefix": prefix, **rule})


@routes.write("DELETE", "/eventide/v1/naming", "delete_naming", role=Role.READ)
def remove_naming(catalog: Catalog, request: Request) -> Answer:
    """Take the naming rule of a prefix away."""
    prefix = request.text("prefix")
    require(request, Role.ADMIN, prefix)
    if not catalog.session.put_naming_rule(prefix, None):
        raise Fault(404, 40452, f"Prefix '{prefix}' has no naming rule")
    note(catalog, request, "delete_naming", prefix, {})
    return Answer({"prefix": prefix})


@routes.read("GET", "/eventide/v1/policy")
def get_policy(catalog: Catalog, request: Request) -> Answer:
    """The rules of the whole registry."""
    return Answer({"require_owner": catalog.session.fact(REQUIRE_OWNER) == "true"})


@routes.write("PUT", "/eventide/v1/policy", "update_policy", role=Role.ADMIN)
def put_policy(catalog: Catalog, request: Request) -> Answer:
    """Change the rules of the whole registry."""
    wanted = bodies.boolean(bodies.as_object(request, "body"), "require_owner") or False
    catalog.session.put_fact(REQUIRE_OWNER, "true" if wanted else "false")
    note(catalog, request, "update_policy", "", {"require_owner": wanted})
    return Answer({"require_owner": wanted})


@routes.read("GET", "/eventide/v1/audit")
def list_audit(catalog: Catalog, request: Request) -> Answer:
    """Who changed what, when, why and from where; oldest first, page by `after`."""
    prefix = request.text("subjectPrefix")
    require(request, Role.ADMIN, prefix)
    asked = request.number("limit", 1000)
    return Answer(
        catalog.session.audit(
            prefix=prefix,
            who=request.text("who") or None,
            action=request.text("action") or None,
            since=_moment(request, "since"),
            until=_moment(request, "until"),
            after=_moment(request, "after") or 0,
            limit=asked if 0 < asked <= _MOST_LINES else _MOST_LINES,
        )
    )


@routes.read("GET", "/eventide/v1/audit/head", role=Role.ADMIN)
def get_audit_head(catalog: Catalog, request: Request) -> Answer:
    """Where the audit log ends: the number and the hash of its last line."""
    head = catalog.session.audit_head()
    return Answer({"seq": head.seq, "hash": head.hash})


@routes.write("POST", "/eventide/v1/usage", "report_usage", role=Role.READ)
def post_usage(catalog: Catalog, request: Request) -> Answer:
    """A client says which ids it has decoded: `{client, environment, decoded: [{id, context, count, at}]}`.

    Nobody can have decoded by an id that they may not read: such lines are left out, and the answer names them.
    """
    body = bodies.as_object(request, "body")
    client, environment = bodies.text(body, "client"), bodies.text(body, "environment") or ""
    reports: Any = body.get("decoded")
    if not client or not isinstance(reports, list) or len(reports) > _MOST_LINES:
        raise Fault(422, 42255, "A usage report needs a client and a list of what it decoded")
    unseen: list[dict[str, Any]] = []
    for report in reports:
        if not isinstance(report, dict) or report.get("id") is None:
            raise Fault(422, 42255, "Each decoded entry needs the id of a schema")
        context = bodies.text(report, "context") or DEFAULT_CONTEXT
        schema_id, count = bodies.number(report, "id", 0), max(bodies.number(report, "count", 1), 0)
        if not catalog.sight.is_unlimited and not catalog.seen.holds(context, schema_id):
            unseen.append({"context": context, "id": schema_id})
            continue
        at = report.get("at")
        seen = at if isinstance(at, int) and not isinstance(at, bool) and 0 <= at <= catalog.now else catalog.now
        catalog.session.put_usage(client, environment, context, schema_id, seen, count)
    return Answer({"accepted": len(reports) - len(unseen), **({"unseen": unseen} if unseen else {})})


@routes.read("GET", "/eventide/v1/usage")
def list_usage(catalog: Catalog, request: Request) -> Answer:
    """Which client decoded which id, when first, when last and how often; the most recent first."""
    schema_id = request.number("id", -1)
    return Answer(
        catalog.seen.usage(
            client=request.text("client") or None,
            context=request.text("context") or None,
            schema_id=None if schema_id < 0 else schema_id,
            subject=request.text("subject") or None,
            since=_moment(request, "since"),
        )
    )


def _moment(request: Request, name: str) -> int | None:
    """Milliseconds since 1970, or a sequence number: too large for the 32 bits of the other numbers."""
    given = request.text(name)
    if not given:
        return None
    if not (given.isascii() and given.isdigit()) or len(given) > 15:
        raise Fault(422, 42256, f"'{name}' must be a number; moments are milliseconds since 1970")
    return int(given)
