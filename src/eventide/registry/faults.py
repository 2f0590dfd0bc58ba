"""What the service refuses, as an HTTP status, Confluent's error code and Confluent's words."""

from __future__ import annotations

from eventide.errors import EventideError


class Fault(EventideError):
    """A request that is refused: becomes `{"error_code", "message"}` with an HTTP status."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class InvalidSchemaFault(Fault):
    """The schema itself is wrong; the compatibility check with `verbose` reports it instead of failing."""


class MissingReferenceFault(InvalidSchemaFault):
    """The schema refers to one that is not there: it cannot be registered, and nobody can have registered it."""


def plain(status: int, phrase: str) -> Fault:
    """A refusal of HTTP itself, in the words of the server that clients know."""
    return Fault(status, status, f"HTTP {status} {phrase}")


def subject_not_found(subject: str) -> Fault:
    """40401."""
    return Fault(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> Fault:
    """40402."""
    return Fault(404, 40402, f"Version {version} not found.")


def schema_not_found(which: object = None) -> Fault:
    """40403, naming the id or guid if that was asked for."""
    return Fault(404, 40403, "Schema not found" if which is None else f"Schema {which} not found")


def subject_soft_deleted(subject: str) -> Fault:
    """40404."""
    return Fault(404, 40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> Fault:
    """40405."""
    return Fault(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> Fault:
    """40406."""
    return Fault(404, 40406, f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently")


def version_not_soft_deleted(subject: str, version: int) -> Fault:
    """40407."""
    return Fault(404, 40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted")


def no_subject_config(subject: str) -> Fault:
    """40408."""
    return Fault(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def no_subject_mode(subject: str) -> Fault:
    """40409."""
    return Fault(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, reasons: list[str]) -> Fault:
    """40901, with every reason."""
    details = "[" + ", ".join(reasons) + "]"
    message = f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
    return Fault(409, 40901, message + details)


def invalid_schema(message: str) -> InvalidSchemaFault:
    """42201."""
    return InvalidSchemaFault(422, 42201, message)


def missing_reference(message: str) -> MissingReferenceFault:
    """42201 too."""
    return MissingReferenceFault(422, 42201, message)


def invalid_version(version: str) -> Fault:
    """42202."""
    return Fault(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. "
        'Allowed values are between [1, 2^31-1] and the string "latest"',
    )


def invalid_level() -> Fault:
    """42203."""
    return Fault(
        422,
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode() -> Fault:
    """42204."""
    return Fault(422, 42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.")


def not_permitted(message: str) -> Fault:
    """42205."""
    return Fault(422, 42205, message)


def reference_exists(subject: str, version: int) -> Fault:
    """42206."""
    return Fault(
        422,
        42206,
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def invalid_subject(subject: str) -> Fault:
    """42208."""
    return Fault(422, 42208, f"The specified subject '{subject}' is not a valid.")


def context_not_empty(context: str) -> Fault:
    """42211."""
    return Fault(422, 42211, f"The specified context '{context}' is not empty.")


def not_built(name: str, instead: str) -> Fault:
    """42250, ours: Confluent's service knows this and ours does not; better refused than ignored."""
    return Fault(422, 42250, f"This registry does not have {name}. {instead}")


def owner_missing(subject: str) -> Fault:
    """42251, ours: the policy wants an owner."""
    return Fault(
        422,
        42251,
        f"Subject '{subject}' has no owner and the policy of this registry requires one. Name one with "
        "PUT /eventide/v1/owners, or put an `owner` into the schema's metadata.properties.",
    )


def name_refused(subject: str, pattern: str, hint: str) -> Fault:
    """42252, ours: the naming rule of its prefix does not take this subject."""
    return Fault(422, 42252, f"Subject '{subject}' does not match the naming rule {pattern!r}. {hint}".rstrip())


def naming_unusable(prefix: str, pattern: str, why: str) -> Fault:
    """42254, ours: a naming rule that cannot be asked."""
    return Fault(
        422,
        42254,
        f"The naming rule {pattern!r} of prefix '{prefix}' cannot be used: {why}. Write another one with "
        "PUT /eventide/v1/naming, or take it away with DELETE /eventide/v1/naming.",
    )


def denied(name: str, role: str, subject: str) -> Fault:
    """40301."""
    return Fault(403, 40301, f"User is denied operation: '{name}' may not {role} '{subject or 'the registry'}'.")


def no_ids_left(context: str) -> Fault:
    """50001: every id that 32 bits can hold is in use."""
    return Fault(500, 50001, f"Context '{context}' has used up its ids; register in another context")


def store_down(detail: str) -> Fault:
    """50001."""
    return Fault(500, 50001, f"Error in the backend data store: {detail}")


def timed_out() -> Fault:
    """50002; only ever given before anything was stored."""
    return Fault(500, 50002, "Register operation timed out. Nothing was stored; send the request again.")
