import pytest

from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory


@pytest.fixture
def endpoint(ana: Member) -> Endpoint:
    """A model endpoint of Ana's workspace that can make vectors."""
    return EndpointFactory.create(
        workspace=ana.workspace, name="Embeddings", base_url="https://models.example/v1", model="small"
    )
