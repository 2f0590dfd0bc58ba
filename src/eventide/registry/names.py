"""A subject as clients name it: `:.context:subject` in a context of its own, plain `subject` in the default one."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_CONTEXT = "."
EVERY_CONTEXT = ":*:"
GLOBAL_CONTEXT = ".__GLOBAL"
_RESERVED = frozenset({"__GLOBAL", "__EMPTY"})


@dataclass(frozen=True, slots=True)
class Name:
    """A subject split into its context and its own name.

    >>> Name.parse(":.staging:orders-value")
    Name(context='.staging', subject='orders-value')
    >>> str(Name.parse("orders-value"))
    'orders-value'
    """

    context: str
    subject: str

    @classmethod
    def parse(cls, qualified: str) -> Name:
        """Split what a client wrote; a text that names no context is in the default one."""
        if qualified.startswith(":."):
            end = qualified.find(":", 2)
            if end < 0:
                return cls(qualified[1:], "")
            return cls(qualified[1:end], qualified[end + 1 :])
        if qualified.startswith(EVERY_CONTEXT):
            return cls("*", qualified[len(EVERY_CONTEXT) :])
        return cls(DEFAULT_CONTEXT, qualified)

    @property
    def prefix(self) -> str:
        """The context as it stands before a subject: nothing for the default one."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"

    def __str__(self) -> str:
        return self.prefix + self.subject

    @property
    def is_default_context(self) -> bool:
        """Does it name the default context as a whole, and no subject in it?"""
        return self.context == DEFAULT_CONTEXT and not self.subject


def normal(qualified: str) -> str:
    """The one spelling under which a subject is stored: `:.:s` and `s` are the same subject."""
    return str(Name.parse(qualified))


def beside(parent: str, subject: str) -> str:
    """A subject named from within another one: without a context of its own it is in its parent's."""
    name = Name.parse(subject)
    if name.context != DEFAULT_CONTEXT:
        return str(name)
    return str(Name(Name.parse(parent).context, name.subject))


def context_prefix(context: str) -> str:
    """The prefix of a context that a client named with or without its colons and leading dot.

    >>> context_prefix("staging"), context_prefix(":.staging:"), context_prefix(".")
    (':.staging:', ':.staging:', '')

    Raises:
        ValueError: a colon inside the name.
    """
    bare = context.removeprefix(":").removesuffix(":")
    if ":" in bare:
        raise ValueError(f"Context name '{bare}' cannot contain a colon")
    if not bare.startswith("."):
        bare = f".{bare}"
    return "" if bare == DEFAULT_CONTEXT else f":{bare}:"


def is_valid(qualified: str, *, for_settings: bool = False) -> bool:
    """May a client use this name? Control characters and the reserved names are refused."""
    if any(ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F or 0xD800 <= ord(c) <= 0xDFFF for c in qualified):
        return False
    name = Name.parse(qualified)
    if name.subject in _RESERVED:
        return False
    return for_settings or name.context != GLOBAL_CONTEXT


def java_order(text: str) -> bytes:
    """A sort key that puts texts in the order of Java's `String.compareTo`, which the listings promise."""
    return text.encode("utf-16-be", "surrogatepass")
