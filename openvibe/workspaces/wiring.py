"""What this floor plugs into those below: who a token's participant is, and the embedders of model endpoints, which do
not know search, nor it them."""

from openvibe.api.auth import PARTICIPANT_ACCESS
from openvibe.engines.llm.endpoints.embeddings import embedder_for
from openvibe.engines.search.spaces import ENDPOINT_EMBEDDER
from openvibe.workspaces.queries import participant_access


def wire() -> None:
    PARTICIPANT_ACCESS.add(participant_access)
    ENDPOINT_EMBEDDER.add(embedder_for)
