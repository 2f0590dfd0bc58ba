"""/config, /mode and /compatibility: what may follow what, and who may write."""

from __future__ import annotations

from typing import Any

from eventide.registry import faults, settings
from eventide.registry.catalog import Catalog
from eventide.registry.checking import is_strict, reasons_against
from eventide.registry.names import Name, is_valid
from eventide.registry.records import Entry
from eventide.registry.service import bodies
from eventide.registry.service.audit import note
from eventide.registry.service.auth import Role
from eventide.registry.service.http import Answer, Request
from eventide.registry.service.routes import Routes
from eventide.registry.service.subjects import version_number

routes = Routes()
_METADATA = ("defaultMetadata", "overrideMetadata")
_RULES = ("defaultRuleSet", "overrideRuleSet")
_FLAGS = ("normalize", "validateFields", "validateNewSchemas", "validateRules")
_TEXTS = ("alias", "aliasForDeks", "compatibility", "compatibilityPolicy", "compatibilityGroup")


def _scope(request: Request) -> str:
    """The subject or context that a path names; the whole registry is the empty name."""
    subject = request.params.get("subject", "")
    return "" if Name.parse(subject).is_default_context else subject


@routes.read("GET", "/config")
@routes.read("GET", "/config/{subject}")
def get_config(catalog: Catalog, request: Request) -> Answer:
    """The settings of a subject or of the registry."""
    subject = _scope(request)
    config = catalog.config_in_scope(subject) if request.flag("defaultToGlobal") else catalog.config(subject)
    if config is None:
        raise faults.no_subject_config(subject)
    return Answer(settings.as_config(config))


@routes.write("PUT", "/config", "update_config", role=Role.ADMIN)
@routes.write("PUT", "/config/{subject}", "update_config", role=Role.ADMIN)
def put_config(catalog: Catalog, request: Request) -> Answer:
    """Change the settings of a subject or of the registry."""
    argument = "updateSubjectLevelConfig.arg2" if "subject" in request.params else "updateTopLevelConfig.arg1"
    update = _config_update(bodies.as_object(request, argument))
    subject = _scope(request)
    if subject and not is_valid(subject, for_settings=True):
        raise faults.invalid_subject(subject)
    config = settings.update_config(catalog, subject, update)
    note(catalog, request, "update_config", subject, update)
    return Answer(settings.as_update(config))


def _config_update(body: dict[str, Any]) -> dict[str, Any]:
    """What an update names, with its types made sure of; a null is kept, for it takes a setting away."""
    update: dict[str, Any] = {}
    for name in _TEXTS:
        if name in body:
            update[name] = bodies.text(body, name)
    for name in _FLAGS:
        if name in body:
            update[name] = bodies.boolean(body, name)
    for name in _METADATA:
        if name in body:
            update[name] = None if body[name] is None else bodies.read_metadata(body[name])
    for name in _RULES:
        if name in body:
            update[name] = None if body[name] is None else bodies.read_rules(body[name])
    return update


@routes.write("DELETE", "/config", "delete_config", role=Role.ADMIN)
@routes.write("DELETE", "/config/{subject}", "delete_config", role=Role.ADMIN)
def remove_config(catalog: Catalog, request: Request) -> Answer:
    """Take the settings of a subject or of the registry away; gives what they were."""
    subject = _scope(request)
    before = settings.delete_config(catalog, subject)
    note(catalog, request, "delete_config", subject, before)
    return Answer(settings.as_config(before))


@routes.read("GET", "/mode")
@routes.read("GET", "/mode/{subject}")
def get_mode(catalog: Catalog, request: Request) -> Answer:
    """The mode of a subject or of the registry."""
    subject = _scope(request)
    mode = catalog.mode_in_scope(subject) if request.flag("defaultToGlobal") else catalog.mode(subject)
    if mode is None:
        raise faults.no_subject_mode(subject)
    return Answer({"mode": mode})


@routes.write("PUT", "/mode", "update_mode", role=Role.ADMIN)
@routes.write("PUT", "/mode/{subject}", "update_mode", role=Role.ADMIN)
def put_mode(catalog: Catalog, request: Request) -> Answer:
    """Set the mode of a subject or of the registry."""
    body = bodies.as_object(request, "updateMode.arg2" if "subject" in request.params else "updateTopLevelMode.arg1")
    subject = _scope(request)
    if subject and not is_valid(subject, for_settings=True):
        raise faults.invalid_subject(subject)
    mode = bodies.text(body, "mode")
    settings.set_mode(catalog, subject, mode, force=request.flag("force"))
    note(catalog, request, "update_mode", subject, {"mode": mode, "force": request.flag("force")})
    return Answer({"mode": mode})


@routes.write("DELETE", "/mode", "delete_mode", role=Role.ADMIN)
@routes.write("DELETE", "/mode/{subject}", "delete_mode", role=Role.ADMIN)
def remove_mode(catalog: Catalog, request: Request) -> Answer:
    """Take the mode of a subject or of the registry away; gives what it was."""
    subject = _scope(request)
    before = settings.delete_mode(catalog, subject, recursive=request.flag("recursive"))
    note(catalog, request, "delete_mode", subject, {"mode": before})
    return Answer({"mode": before} if before is not None else {})


@routes.read("POST", "/compatibility/subjects/{subject}/versions")
def check_all(catalog: Catalog, request: Request) -> Answer:
    """Would a registration be compatible?"""
    return _checked(catalog, request, None, "testCompatibilityForSubject.arg3")


@routes.read("POST", "/compatibility/subjects/{subject}/versions/{version}")
def check_one(catalog: Catalog, request: Request) -> Answer:
    """Is a schema compatible with one version?"""
    number = version_number(request.params["version"])
    subject = request.params["subject"]
    entry = catalog.session.latest(subject) if number == -1 else catalog.session.entry(subject, number)
    if entry is None and number != -1:
        raise faults.version_not_found(number)
    return _checked(catalog, request, [entry] if entry else [], "testCompatibilityBySubjectName.arg4")


def _checked(catalog: Catalog, request: Request, versions: list[Entry] | None, argument: str) -> Answer:
    proposal = bodies.proposal(request, request.params["subject"], argument)
    verbose = request.flag("verbose")
    try:
        if proposal.is_empty:
            raise faults.invalid_schema("Empty schema")
        config = catalog.config_in_scope(proposal.subject)
        normalize = request.flag("normalize") or bool(config.get("normalize"))
        canonical = catalog.canonical(proposal, strict=is_strict(config), normalize=normalize)
        reasons = reasons_against(catalog, config, canonical, versions)
    except faults.InvalidSchemaFault as fault:
        if not verbose:
            raise
        reasons = [fault.message]
    body: dict[str, Any] = {"is_compatible": not reasons}
    return Answer({**body, "messages": reasons} if verbose else body)
