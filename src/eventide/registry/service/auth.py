"""Who is asking, and what they may do: hashed passwords and tokens, with roles per subject prefix."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

from eventide.registry.sight import Sight

T = TypeVar("T")
_COST, _BLOCK, _PARALLEL = 2**14, 8, 1
_REMEMBERED = 1_000
_REFUSED_REMEMBERED = 10_000


class Role(IntEnum):
    """What somebody may do; each role includes the ones below it."""

    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for all subjects that begin with a prefix; the empty prefix is every subject."""

    prefix: str
    role: Role


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who was let in."""

    name: str
    grants: tuple[Grant, ...]
    sight: Sight = field(init=False)
    """What they may see."""

    def __post_init__(self) -> None:
        prefixes = {grant.prefix for grant in self.grants}
        object.__setattr__(self, "sight", Sight(self.name, ("",) if "" in prefixes else tuple(sorted(prefixes))))

    def may(self, role: Role, subject: str) -> bool:
        """May they do this with a subject?"""
        return any(grant.role >= role and subject.startswith(grant.prefix) for grant in self.grants)

    def may_somewhere(self, role: Role) -> bool:
        """May they do this with any subject at all?"""
        return any(grant.role >= role for grant in self.grants)


NOBODY = Principal("anonymous", (Grant("", Role.ADMIN),))
"""Everybody, where authentication is off."""


NOBODY_AT_ALL = Principal("anonymous", ())
"""Somebody who was not asked for credentials, and may read nothing."""


def hashed(secret: str, salt: bytes | None = None) -> str:
    """A password or token as it may be written down."""
    salt = salt or os.urandom(16)
    key = hashlib.scrypt(secret.encode(), salt=salt, n=_COST, r=_BLOCK, p=_PARALLEL, maxmem=64 * 1024 * 1024)
    return f"scrypt${base64.b64encode(salt).decode()}${base64.b64encode(key).decode()}"


def matches(secret: str, stored: str) -> bool:
    """Is this the secret that was hashed? Takes the same time either way."""
    try:
        _, salt, _ = stored.split("$")
        return hmac.compare_digest(hashed(secret, base64.b64decode(salt)), stored)
    except (ValueError, binascii.Error):
        return False


class Accounts:
    """The accounts in a file: `[{"name", "secret": "scrypt$…", "grants": [{"prefix", "role"}]}]`.

    A bearer token is `NAME.SECRET`, so that one hash settles it rather than one per account.
    """

    def __init__(self, accounts: list[dict[str, Any]]) -> None:
        self._by_name: dict[str, tuple[str, Principal]] = {}
        for account in accounts:
            grants = tuple(Grant(g.get("prefix", ""), Role[g["role"].upper()]) for g in account["grants"])
            self._by_name[account["name"]] = (account["secret"], Principal(account["name"], grants))
        # Scrypt is slow on purpose; who was let in once is recognised by a keyed hash that never leaves memory.
        self._key = os.urandom(32)
        self._seen: OrderedDict[bytes, Principal] = OrderedDict()
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self._nobody = hashed("", b"no such account.."), None
        self._lock = threading.Lock()

    @classmethod
    def load(cls, path: Path) -> Accounts:
        """Read the accounts of a file.

        Raises:
            ValueError: the file is not what it should be.
        """
        try:
            held = json.loads(path.read_text())
            if not isinstance(held, list):
                raise TypeError("it holds no list")
            return cls(held)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is no accounts file ({error!r}). `eventide registry account` writes one.") from error

    def recognise(self, header: str) -> Principal | None:
        """Somebody whose credentials were checked before; costs next to nothing."""
        with self._lock:
            return self._seen.get(self._mark(header))

    def was_refused(self, header: str) -> bool:
        """Were these very credentials wrong before?"""
        with self._lock:
            return self._mark(header) in self._refused

    def admit(self, header: str) -> Principal | None:
        """Check credentials; slow on purpose, so never on the event loop: `Door` gives everybody a turn."""
        known = self.recognise(header)
        if known is not None or self.was_refused(header):
            return known
        name, secret = credentials(header)
        stored, principal = self._by_name.get(name, self._nobody)
        if not matches(secret, stored) or principal is None:
            self._remember(self._refused, header, None, _REFUSED_REMEMBERED)
            return None
        self._remember(self._seen, header, principal, _REMEMBERED)
        return principal

    def _remember(self, where: OrderedDict[bytes, T], header: str, what: T, most: int) -> None:
        with self._lock:
            where[self._mark(header)] = what
            while len(where) > most:
                where.popitem(last=False)

    def _mark(self, header: str) -> bytes:
        return hmac.digest(self._key, header.encode("utf-8", "surrogatepass"), "sha256")


def credentials(header: str) -> tuple[str, str]:
    """The name and the secret that a header gives; both are empty if it gives none."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":
        name, _, secret = rest.strip().partition(".")
        return name, secret
    if scheme.lower() == "basic":
        try:
            name, _, secret = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return "", ""
        return name, secret
    return "", ""
