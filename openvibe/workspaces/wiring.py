"""What this floor plugs into those below: who a token's participant is, and the embedders of model endpoints."""

from openvibe.api.auth import PARTICIPANT_ACCESS
from openvibe.engines.search.embedders import Embedder
from openvibe.engines.search.spaces import ENDPOINT_EMBEDDER
from openvibe.workspaces.queries import participant_access


def wire() -> None:
    PARTICIPANT_ACCESS.add(participant_access)
    ENDPOINT_EMBEDDER.add(endpoint_embedder)


def endpoint_embedder(endpoint_id: int | None, *, address: str, model: str, for_query: bool) -> Embedder:
    """Model endpoints and search do not know each other: this floor knows both."""
    from openvibe.engines.llm.endpoints.embeddings import (  # its SDK takes a second to import: only when it is used
        embedder_for,
    )

    return embedder_for(endpoint_id, address=address, model=model, for_query=for_query)
