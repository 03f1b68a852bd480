"""Model endpoints, for tests of what asks them."""

from factory.declarations import LazyAttribute, SubFactory
from factory.django import DjangoModelFactory

from openvibe.engines.llm.models import Endpoint


class EndpointFactory(DjangoModelFactory[Endpoint]):
    """An endpoint that nobody asks by default; past the check of its address. With `kind="offline"` it has none."""

    class Meta:
        model = Endpoint

    workspace = SubFactory("tests.factories.WorkspaceFactory")
    name = "Model"
    kind = Endpoint.Kind.OPENAI
    base_url = LazyAttribute(lambda endpoint: "" if endpoint.kind == "offline" else "https://models.example/v1")
    model = LazyAttribute(lambda endpoint: "" if endpoint.kind == "offline" else "m")
