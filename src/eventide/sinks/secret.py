"""Secrets, kept out of what people see."""

from __future__ import annotations

import re


def masked(dsn: str) -> str:
    """A connection string without its password.

    >>> masked("postgresql://me:pa@ss@db/x?password=b"), masked("host=db password='a b' user=me")
    ('postgresql://me:***@db/x?password=***', 'host=db password=*** user=me')
    """
    dsn = re.sub(r"(?<=://)([^:/@]*):.*@", r"\1:***@", dsn)
    return re.sub(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&]*)", r"\1***", dsn, flags=re.IGNORECASE)
