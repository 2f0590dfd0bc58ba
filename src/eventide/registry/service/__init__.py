"""The registry over HTTP: Confluent's REST surface, and ours under /eventide/v1."""

from eventide.registry.service.app import Application, Options
from eventide.registry.service.server import serve

__all__ = ["Application", "Options", "serve"]
