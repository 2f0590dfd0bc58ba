"""Request bodies, read as leniently as Jackson reads them and refused in its words."""

from __future__ import annotations

import re
from typing import Any

from eventide.registry.compatibility import InvalidSchema, Reference
from eventide.registry.compatibility.json_text import read as read_json
from eventide.registry.faults import Fault, not_built
from eventide.registry.identity import tidy_metadata
from eventide.registry.records import Proposal
from eventide.registry.service.http import NO_BODY, Request, storable

_JACKSON = re.compile(r"^com\.fasterxml\.jackson\.core\.[\w.]+: ")
_TOKENS = {dict: "START_OBJECT", list: "START_ARRAY", bool: "VALUE_TRUE", str: "VALUE_STRING"}
_NAMES = {dict: "Object", list: "Array", bool: "Boolean", str: "String", int: "Integer", float: "Floating-point"}
_RULE_KINDS = ("CONDITION", "TRANSFORM")
_RULE_MODES = {
    "migrationRules": ("UPGRADE", "DOWNGRADE", "UPDOWN"),
    "domainRules": ("WRITE", "READ", "WRITEREAD"),
    "encodingRules": ("WRITE", "READ", "WRITEREAD"),
}
_SMALLEST, _LARGEST = -(2**31), 2**31 - 1


def parse(raw: bytes) -> Any:
    """The JSON value of a body; `NO_BODY` if there is none.

    Raises:
        Fault: 400, saying what is wrong with the text.
    """
    if not raw.strip():
        return NO_BODY
    try:
        value = read_json(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Fault(400, 400, f"Invalid UTF-8 at byte {error.start}") from None
    except InvalidSchema as error:
        raise Fault(400, 400, _JACKSON.sub("", str(error)).split("\n at ")[0]) from None
    return NO_BODY if value is None else value


def as_object(request: Request, argument: str) -> dict[str, Any]:
    """The body as an object; `argument` is what the service calls it when it is missing."""
    if request.body is NO_BODY:
        raise Fault(422, 422, f"{argument} must not be null (was null)")
    if not isinstance(request.body, dict):
        raise _mismatch("request", request.body)
    return request.body


def proposal(request: Request, subject: str, argument: str) -> Proposal:
    """The schema that a body proposes for a subject."""
    body = as_object(request, argument)
    for name in ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"):
        if body.get(name):
            raise not_built(name, "Write the tags into the schema itself, or into metadata.tags.")
    kind = text(body, "schemaType")
    metadata = body.get("metadata")
    rules = body.get("ruleSet")
    return Proposal(
        subject=subject,
        text=text(body, "schema"),
        kind=kind or "AVRO",
        references=_references(body.get("references")),
        metadata=None if metadata is None else read_metadata(metadata) or None,  # an empty one says nothing
        rules=None if rules is None else read_rules(rules),
        version=number(body, "version", 0),
        id=number(body, "id", -1),
    )


def _references(given: Any) -> tuple[Reference, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise _mismatch("java.util.ArrayList<SchemaReference>", given)
    references = []
    for each in given:
        if not isinstance(each, dict):
            raise _mismatch("SchemaReference", each)
        name, subject = text(each, "name"), text(each, "subject")
        if name is None or subject is None or each.get("version") is None:
            raise Fault(422, 42201, "Invalid reference: name, subject and version must all be given")
        references.append(Reference(name, subject, number(each, "version", -1)))
    return tuple(references)


def read_metadata(given: Any) -> dict[str, Any]:
    """Metadata as it is stored: tags, properties and sensitive, sorted."""
    if not isinstance(given, dict):
        raise _mismatch("Metadata", given)
    tags, properties, sensitive = given.get("tags"), given.get("properties"), given.get("sensitive")
    if properties is not None:
        if not isinstance(properties, dict):
            raise _mismatch("java.util.LinkedHashMap<String,String>", properties)
        properties = {k: text(properties, k) or "" for k in properties}
    if tags is not None:
        if not isinstance(tags, dict):
            raise _mismatch("java.util.LinkedHashMap<String,Set<String>>", tags)
        tags = {k: _texts(v) for k, v in tags.items()}
    return tidy_metadata({"tags": tags, "properties": properties, "sensitive": sensitive and _texts(sensitive)})


def read_rules(given: Any) -> dict[str, Any]:
    """A rule set, kept as it came once its shape is made sure of."""
    if not isinstance(given, dict):
        raise _mismatch("RuleSet", given)
    names: set[str] = set()
    for family, modes in _RULE_MODES.items():
        rules = given.get(family)
        if rules is not None and not isinstance(rules, list):
            raise _mismatch("java.util.ArrayList<Rule>", rules)
        for rule in rules or ():
            if not isinstance(rule, dict):
                raise _mismatch("Rule", rule)
            _refuse_rule(rule, names)
            if (text(rule, "mode") or "WRITEREAD") not in modes:
                raise Fault(422, 42210, f"{family.removesuffix('Rules').title()} rules can only be {', '.join(modes)}")
    return given


def _refuse_rule(rule: dict[str, Any], names: set[str]) -> None:
    name = text(rule, "name")
    if name is None:
        raise Fault(422, 42210, "Missing rule name")
    if not name:
        raise Fault(422, 42210, "Empty rule name")
    if not (name[0].isalpha() or name[0] == "_") or not all(c.isalnum() or c == "_" for c in name):
        raise Fault(422, 42210, f"Illegal character in rule name: {name}")
    if name in names:
        raise Fault(422, 42210, f"Found rule with duplicate name '{name}'")
    names.add(name)
    for field, allowed in (("kind", _RULE_KINDS), ("mode", tuple(m for modes in _RULE_MODES.values() for m in modes))):
        value = text(rule, field)
        if value is not None and value not in allowed:
            accepted = ", ".join(sorted(set(allowed)))
            raise Fault(400, 400, f'Cannot deserialize value of type `Rule{field.title()}` from String "{value}": '
                                  f"not one of the values accepted for Enum class: [{accepted}]")  # fmt: skip
    if not text(rule, "type"):
        raise Fault(422, 42210, "Missing rule type")
    if not isinstance(rule.get("tags") or [], list) or not isinstance(rule.get("params") or {}, dict):
        raise _mismatch("Rule", rule)


def _texts(given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(each, str) and storable(each) for each in given):
        raise _mismatch("java.util.HashSet<String>", given)
    return given


def text(body: dict[str, Any], name: str) -> str | None:
    """A field as text; numbers and booleans are written out, as Jackson does."""
    value = body.get(name)
    if isinstance(value, str) and not storable(value):
        raise Fault(400, 400, f"The field '{name}' has a character that no text may have")
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _mismatch("java.lang.String", value)


def number(body: dict[str, Any], name: str, default: int) -> int:
    """A field as a 32-bit number; digits in quotes count, as Jackson has it."""
    value = body.get(name)
    if value is None or value == "":
        return default
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            what = f'"{value}": not a valid `java.lang.Integer` value'
            raise Fault(400, 400, f"Cannot deserialize value of type `java.lang.Integer` from String {what}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _mismatch("java.lang.Integer", value)
    if not _SMALLEST <= value <= _LARGEST:
        raise Fault(400, 400, f"Numeric value ({value}) out of range of int ({_SMALLEST} - {_LARGEST})")
    return int(value)


def boolean(body: dict[str, Any], name: str) -> bool | None:
    """A field as a yes or no."""
    value = body.get(name)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if value is None or isinstance(value, bool):
        return value
    raise _mismatch("java.lang.Boolean", value)


def _mismatch(wanted: str, given: Any) -> Fault:
    name, token = _NAMES.get(type(given), "null"), _TOKENS.get(type(given), "VALUE_NUMBER_INT")
    return Fault(400, 400, f"Cannot deserialize value of type `{wanted}` from {name} value (token `JsonToken.{token}`)")
