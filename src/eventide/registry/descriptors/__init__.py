"""Protobuf schemas as base64 file descriptors, which clients send and ask for instead of text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from eventide.registry.compatibility import InvalidSchema
from eventide.registry.descriptors.compiling import compile_file
from eventide.registry.descriptors.writing import write_file

__all__ = ["descriptor_of", "encoded_file", "is_descriptor", "text_of"]


def is_descriptor(text: str) -> bool:
    """Is this a base64 file descriptor rather than the text of a .proto file?"""
    if not text or any(c in text for c in ' ;{}"'):
        return False
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def text_of(encoded: str) -> str:
    """The .proto text of a base64 file descriptor.

    Raises:
        InvalidSchema: the bytes are no file descriptor.
    """
    file = FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(encoded))
    except (DecodeError, binascii.Error, ValueError) as error:
        raise InvalidSchema(f"The text is neither a .proto file nor a base64 file descriptor: {error}") from None
    return write_file(file)


def descriptor_of(text: str, references: Mapping[str, str], name: str = "default") -> str:
    """The base64 file descriptor of a .proto text; `references` are the files it imports, by name.

    Raises:
        InvalidSchema: a type that is named nowhere.
    """
    return base64.b64encode(compile_file(text, references, name).SerializeToString()).decode()


def encoded_file(file: Any) -> str:
    """The base64 descriptor of the file that a generated class comes from."""
    return base64.b64encode(file.serialized_pb).decode()
