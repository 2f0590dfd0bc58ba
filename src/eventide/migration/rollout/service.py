"""/eventide/v1/migrations: the rollout over REST, as an extension of the registry's service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eventide.migration import faults
from eventide.migration.faults import NOT_NOW, OLD_SHAPE, OPEN_MIGRATION, PlanRefused
from eventide.migration.plan.pairing import Said
from eventide.migration.plan.planning import Additive
from eventide.migration.plan.policy import Policy
from eventide.migration.rollout.consumer import Shape
from eventide.migration.rollout.guard import MigrationGuard
from eventide.migration.rollout.migration import Migration
from eventide.migration.rollout.phase import Phase
from eventide.migration.rollout.rollout import Author, Rollout
from eventide.migration.rollout.status import can_contract, status
from eventide.migration.rollout.tables import KINDS, MigrationTables
from eventide.migration.rollout.tightening import tighten
from eventide.registry.catalog import Catalog, Guard
from eventide.registry.names import normal
from eventide.registry.service import bodies
from eventide.registry.service.access import require
from eventide.registry.service.auth import Role
from eventide.registry.service.http import Answer, Request
from eventide.registry.service.routes import Routes
from eventide.registry.store import Session

routes = Routes()
_ONE = "/eventide/v1/migrations/{migration}"
_MOST_EXAMPLES = 100
_LARGEST = 2**63 - 1


class Migrations:
    """The migrations, to be added to a registry's service."""

    routes = routes
    refusals_worth_keeping = frozenset({NOT_NOW, OLD_SHAPE, OPEN_MIGRATION})

    def __init__(self) -> None:
        self.guards: Sequence[Guard] = (MigrationGuard(),)

    def prepare(self, session: Session) -> None:
        """Make the tables, if they are not there yet."""
        MigrationTables(session).make()


@routes.read("GET", "/eventide/v1/migrations")
def list_migrations(catalog: Catalog, request: Request) -> Answer:
    """Every migration, or those of a subject, or only the open ones."""
    found = MigrationTables(catalog.session).migrations(request.text("subject") or None)
    visible = [m for m in found if request.principal.may(Role.READ, m.subject)]
    return Answer([m.as_json() for m in visible if m.phase.is_open or not request.flag("open")])


@routes.write("POST", "/eventide/v1/migrations", "plan_migration")
def post_plan(catalog: Catalog, request: Request) -> Answer:
    """Plan a change: `{subject, schema, name, renames, meaning, names, forward, backward, policy}`."""
    body = bodies.as_object(request, "body")
    subject, wanted = normal(bodies.text(body, "subject") or ""), bodies.text(body, "schema")
    if not subject or not wanted:
        raise faults.invalid("A plan needs the subject and the schema that is wanted.")
    require(request, Role.WRITE, subject)
    said = Said(*(_texts(body, key) for key in ("renames", "meaning", "names", "forward", "backward")))
    rollout = _rollout(catalog, request)
    try:
        policy = Policy.given(_object(body, "policy"))
        found = rollout.plan(subject, wanted, said=said, policy=policy, name=bodies.text(body, "name") or "")
    except PlanRefused as error:
        raise faults.invalid(str(error)) from None
    if isinstance(found, Additive):
        return Answer({"change": "additive", "advice": found.advice, "reasons": list(found.reasons)})
    return Answer({"change": "breaking", **status(catalog, rollout, found)})


@routes.read("GET", _ONE)
def get_status(catalog: Catalog, request: Request) -> Answer:
    """Phase, gates, consumers, drift, schemas and the estimate."""
    rollout, migration = _found(catalog, request, Role.READ)
    return Answer(status(catalog, rollout, migration))


@routes.read("GET", _ONE + "/can-contract")
def get_can_contract(catalog: Catalog, request: Request) -> Answer:
    """May the old shape go now, and what every gate found."""
    rollout, migration = _found(catalog, request, Role.READ)
    return Answer(can_contract(catalog, rollout, migration))


@routes.write("PUT", _ONE + "/plan", "edit_migration")
def put_plan(catalog: Catalog, request: Request) -> Answer:
    """Change expressions or policy: `{forward, backward, policy}`."""
    rollout, migration = _found(catalog, request, Role.WRITE)
    body = bodies.as_object(request, "body")
    try:
        forward, backward = _texts(body, "forward"), _texts(body, "backward")
        changed = rollout.edit(migration.name, forward, backward, _object(body, "policy"))
    except PlanRefused as error:
        raise faults.invalid(str(error)) from None
    return Answer(status(catalog, rollout, changed))


@routes.write("POST", _ONE + "/confirm", "confirm_migration")
def post_confirm(catalog: Catalog, request: Request) -> Answer:
    """Say that the plan is right: `{accept_guesses}`."""
    rollout, migration = _found(catalog, request, Role.WRITE)
    accept = bodies.boolean(bodies.as_object(request, "body"), "accept_guesses") or False
    return Answer(status(catalog, rollout, rollout.confirm(migration.name, accept_guesses=accept)))


@routes.write("POST", _ONE + "/phase", "move_migration")
def post_phase(catalog: Catalog, request: Request) -> Answer:
    """Go to a phase: `{to, confirm, withdraw}`; going where it is already changes nothing."""
    body = bodies.as_object(request, "body")
    wanted = bodies.text(body, "to") or ""
    if wanted not in list(Phase):
        raise faults.invalid(f"{wanted!r} is no phase; take one of {', '.join(Phase)}.")
    to = Phase(wanted)
    rollout, migration = _found(catalog, request, Role.ADMIN if to is Phase.CONTRACTED else Role.WRITE)
    withdraw = bodies.boolean(body, "withdraw") or False
    verdict = rollout.go(migration.name, to, confirmation=bodies.text(body, "confirm"), withdraw=withdraw)
    after = status(catalog, rollout, rollout.find(migration.name))
    passed = [g.as_json() for g in verdict.gates]
    return Answer({"outcome": verdict.outcome.value, "reason": verdict.reason, "passed": passed, **after})


@routes.read("GET", _ONE + "/consumers")
def list_consumers(catalog: Catalog, request: Request) -> Answer:
    """Every consumer, declared or only seen, with its standing."""
    rollout, migration = _found(catalog, request, Role.READ)
    return Answer(status(catalog, rollout, migration)["consumers"])


@routes.write("PUT", _ONE + "/consumers", "declare_consumer")
def put_consumer(catalog: Catalog, request: Request) -> Answer:
    """A consumer says what it reads: `{name, environment, owner, shape, expected_by}`."""
    rollout, migration = _found(catalog, request, Role.WRITE)
    body, name, environment = _who(request)
    shape = bodies.text(body, "shape") or "old"
    if shape not in list(Shape):
        raise faults.invalid(f"{shape!r} is no shape; take one of {', '.join(Shape)}.")
    expected, owner = _moment(body, "expected_by"), bodies.text(body, "owner") or ""
    consumer = rollout.declare(migration.name, name, environment, shape=Shape(shape), owner=owner, expected_by=expected)
    return Answer(consumer.as_json())


@routes.write("POST", _ONE + "/exempt", "exempt_consumer", role=Role.WRITE)
def post_exempt(catalog: Catalog, request: Request) -> Answer:
    """Spare a consumer the proof until a date: `{name, environment, until, because}`."""
    rollout, migration = _found(catalog, request, Role.ADMIN)
    body, name, environment = _who(request)
    because = bodies.text(body, "because") or ""
    return Answer(rollout.exempt(migration.name, name, environment, until=_moment(body, "until"), reason=because).as_json())


@routes.write("POST", _ONE + "/expire", "expire_consumer")
def post_expire(catalog: Catalog, request: Request) -> Answer:
    """Say that a consumer is gone: `{name, environment, because}`."""
    rollout, migration = _found(catalog, request, Role.WRITE)
    body, name, environment = _who(request)
    because = bodies.text(body, "because") or ""
    return Answer(rollout.expire(migration.name, name, environment, reason=because).as_json())


@routes.write("POST", _ONE + "/drift", "report_drift", role=Role.READ)
def post_drift(catalog: Catalog, request: Request) -> Answer:
    """What a check found in one batch: `{source, batch, agree, neither, old_only, new_only, differ, examples, everything, until}`."""
    rollout, migration = _found(catalog, request, Role.READ)
    body = bodies.as_object(request, "body")
    source, batch = bodies.text(body, "source"), _moment(body, "batch")
    counts = {kind: _moment(body, kind) or 0 for kind in KINDS}
    examples: Any = body.get("examples") or []
    if not source or batch is None or not isinstance(examples, list) or len(examples) > _MOST_EXAMPLES:
        raise faults.invalid(f"A drift report needs a source, a batch number, and at most {_MOST_EXAMPLES} examples.")
    everything = bodies.boolean(body, "everything") or False
    counted = rollout.report_drift(
        migration.name, source, batch, counts, examples, everything=everything, until=_moment(body, "until")
    )
    return Answer({"counted": counted, "phase": migration.phase.value})


@routes.write("POST", _ONE + "/scanned", "scan_migration", role=Role.READ)
def post_scanned(catalog: Catalog, request: Request) -> Answer:
    """All that is kept was read after the contract: `{checked, lacking}` records."""
    rollout, migration = _found(catalog, request, Role.READ)
    body = bodies.as_object(request, "body")
    done = rollout.scanned(migration.name, _moment(body, "checked") or 0, _moment(body, "lacking") or 0)
    return Answer({"counted": done != migration, "phase": done.phase.value})


@routes.write("POST", _ONE + "/tighten", "tighten_migration")
def post_tighten(catalog: Catalog, request: Request) -> Answer:
    """After the contract, make the new fields what was wanted: `{confirm}`."""
    rollout, migration = _found(catalog, request, Role.ADMIN)
    verdict = tighten(rollout, migration.name, bodies.text(bodies.as_object(request, "body"), "confirm"))
    passed = [g.as_json() for g in verdict.gates]
    after = status(catalog, rollout, rollout.find(migration.name))
    return Answer({"outcome": verdict.outcome.value, "reason": verdict.reason, "passed": passed, **after})


@routes.write("POST", _ONE + "/backfilled", "backfill_migration")
def post_backfilled(catalog: Catalog, request: Request) -> Answer:
    """History has been filled with the new shape; the body says how."""
    rollout, migration = _found(catalog, request, Role.WRITE)
    done = rollout.backfilled(migration.name, bodies.as_object(request, "body"))
    return Answer({"migration": done.name, "backfilled_at": done.backfilled_at})


@routes.write("POST", "/eventide/v1/subjects/{subject}/selected", "report_selected", role=Role.READ)
def post_selected(catalog: Catalog, request: Request) -> Answer:
    """A client says which columns it selects: `{client, environment, columns, at}`; `*` is all of them."""
    body = bodies.as_object(request, "body")
    client, columns = bodies.text(body, "client"), body.get("columns")
    if not client or not isinstance(columns, list) or not all(isinstance(c, str) and c for c in columns):
        raise faults.invalid("A report of selected columns needs a client and a list of columns.")
    environment = bodies.text(body, "environment") or ""
    rollout = _rollout(catalog, request)
    rollout.selected(request.params["subject"], client, environment, columns[:1_000], _moment(body, "at"))
    return Answer({"accepted": len(columns[:1_000])})


def _rollout(catalog: Catalog, request: Request) -> Rollout:
    return Rollout(catalog, Author(request.principal.name, request.origin, request.reason))


def _found(catalog: Catalog, request: Request, role: Role) -> tuple[Rollout, Migration]:
    rollout = _rollout(catalog, request)
    migration = rollout.find(request.params["migration"])
    if not catalog.sight.sees(migration.subject):  # its name alone must not tell whose it is
        raise faults.not_found(migration.name)
    request.params = {**request.params, "subject": migration.subject}  # a refusal is noted under it
    require(request, role, migration.subject)
    return rollout, migration


def _who(request: Request) -> tuple[dict[str, Any], str, str]:
    body = bodies.as_object(request, "body")
    name = bodies.text(body, "name")
    if not name:
        raise faults.invalid("Which consumer? Give its name, and its environment if it has one.")
    return body, name, bodies.text(body, "environment") or ""


def _object(body: dict[str, Any], key: str) -> dict[str, Any]:
    value = body.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise faults.invalid(f"{key!r} must be an object.")
    return value


def _texts(body: dict[str, Any], key: str) -> dict[str, str]:
    value = _object(body, key)
    if not all(isinstance(v, str) for v in value.values()):
        raise faults.invalid(f"{key!r} must map names to text.")
    return value


def _moment(body: dict[str, Any], key: str) -> int | None:
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise faults.invalid(f"{key!r} is {value!r}; it must be a whole number, 0 or more (moments: milliseconds since 1970).")
    return value
