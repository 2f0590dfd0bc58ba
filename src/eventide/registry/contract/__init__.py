"""A subject as a data contract: the Open Data Contract Standard, version 3, out of a registry and into one."""

from eventide.registry.contract.document import ContractRefused, Parts, build, read, take_apart, write

__all__ = ["ContractRefused", "Parts", "build", "read", "take_apart", "write"]
