"""Can this reader read what that writer wrote? Avro, JSON Schema and Protobuf, with reasons.

>>> old = parse("AVRO", '{"type":"record","name":"R","fields":[]}')
>>> new = parse("AVRO", '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}')
>>> [reason.kind for reason in check_level("BACKWARD", new, [old])]
['READER_FIELD_MISSING_DEFAULT_VALUE']
>>> check_level("FORWARD", new, [old])
[]
"""

from eventide.registry.compatibility.levels import LEVELS, check, check_level, conflict, parse
from eventide.registry.compatibility.schema import Incompatibility, InvalidSchema, ParsedSchema, Reference

__all__ = [
    "LEVELS",
    "Incompatibility",
    "InvalidSchema",
    "ParsedSchema",
    "Reference",
    "check",
    "check_level",
    "conflict",
    "parse",
]
