"""Can this reader read what that writer wrote? Avro, JSON Schema and Protobuf, with reasons."""
