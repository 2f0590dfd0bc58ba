"""Protobuf schemas as base64 descriptors, which clients send and ask for instead of text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping


def is_descriptor(text: str) -> bool:
    """Is this a base64 file descriptor rather than the text of a .proto file?"""
    if not text or any(c in text for c in " ;{"):
        return False
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def text_of(encoded: str) -> str:
    """The .proto text of a base64 file descriptor."""
    raise NotImplementedError


def descriptor_of(text: str, references: Mapping[str, str]) -> str:
    """The base64 file descriptor of a .proto text."""
    raise NotImplementedError
