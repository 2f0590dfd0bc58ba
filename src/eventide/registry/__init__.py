"""A Confluent-compatible schema registry: service, store, compatibility, wire format and client."""
