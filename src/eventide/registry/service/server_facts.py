"""/, /v1/metadata and /associations: what the server says about itself."""

from __future__ import annotations

from eventide.registry.catalog import Catalog
from eventide.registry.service.http import Answer, Request
from eventide.registry.service.routes import Routes

routes = Routes()
SPEAKS = "8.3.1"
"""The version of Confluent's service whose answers these are; clients look at it to see what they may ask."""


@routes.read("GET", "/")
def get_root(catalog: Catalog, request: Request) -> Answer:
    """Nothing, politely: the way clients ask whether anybody is there."""
    return Answer({})


@routes.read("GET", "/v1/metadata/id")
def get_identity(catalog: Catalog, request: Request) -> Answer:
    """Which registry this is."""
    identity = catalog.session.fact("identity") or "eventide"
    clusters = {"kafka-cluster": identity, "schema-registry-cluster": "eventide-registry"}
    return Answer({"scope": {"path": [], "clusters": clusters}})


@routes.read("GET", "/v1/metadata/version")
def get_version(catalog: Catalog, request: Request) -> Answer:
    """Which version of the REST surface this is."""
    return Answer({"version": SPEAKS, "commitId": "eventide"})


@routes.read("GET", "/v1/metadata/deployment")
def get_deployment(catalog: Catalog, request: Request) -> Answer:
    """Where it is deployed: nobody has said, as in a service of Confluent's without that setting."""
    return Answer({"attributes": []})


@routes.read("GET", "/associations/resources/{namespace}/{name}")
@routes.read("GET", "/associations/resources/{name}")
@routes.read("GET", "/associations/subjects/{subject}")
def list_associations(catalog: Catalog, request: Request) -> Answer:
    """None: clients ask before their first serialisation, and fall back to the subject's name."""
    return Answer([])
