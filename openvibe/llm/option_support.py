"""What of `CallOptions` an endpoint is known not to take, by its protocol and by what it refused before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from openvibe.llm.adaptation_store import StoredAdaptations
from openvibe.llm.models import Endpoint
from openvibe.llm.request_options import MESSAGES_LACKS, RESPONSES_LACKS
from openvibe.llm.values import CallOptions

_PROTOCOL_LACKS: dict[str, Mapping[str, str]] = {
    Endpoint.Kind.ANTHROPIC: MESSAGES_LACKS,
    Endpoint.Kind.RESPONSES: RESPONSES_LACKS,
}


def untaken_options(endpoint: Endpoint | None) -> frozenset[str]:
    """Names of options. A format of answers is never among them: where the endpoint does not take it, its model is told
    in words."""
    names = {field.name for field in fields(CallOptions)} - {"response_format"}
    if endpoint is None or endpoint.kind == Endpoint.Kind.OFFLINE:
        return frozenset(names)
    lacks = {*_PROTOCOL_LACKS.get(endpoint.kind, {}), *StoredAdaptations(endpoint).values()}
    return frozenset(name for name in names if f"no_{name}" in lacks)
