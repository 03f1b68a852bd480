"""The embedders a workspace can choose, in words: what each does to its texts, and whether it is in use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import SpaceStatus
from openvibe.engines.search.spaces import LOCAL_EMBEDDERS

Kind = VectorSpace.Kind


class EmbedderOption(NamedTuple):
    """An embedder as the page offers it. `key` is what its buttons post; `state` "" where it is not in use."""

    key: str
    title: str
    description: str
    state: str


def embedder_options(endpoints: Iterable[Any], statuses: Iterable[SpaceStatus]) -> list[EmbedderOption]:
    """Every embedder that a workspace with these endpoints, and spaces in these states, can choose."""
    spaces = [status.space for status in statuses]
    states = {(space.kind, space.endpoint_id): space.get_state_display().lower() for space in spaces}
    return [
        EmbedderOption(
            "static",
            "Built in",
            "Vectors are made on this server; no text leaves it and no model is asked. Knows words and their kin.",
            states.get((Kind.STATIC, None), ""),
        ),
        EmbedderOption(
            "multilingual",
            "Multilingual",
            "Vectors are made on this server; no text leaves it and no model is asked. A question in one language "
            "finds what stands in another: English, German, French, Spanish, Italian, Portuguese, Dutch, Polish, "
            "Russian, Turkish, Arabic, Chinese, Japanese, Korean or Thai. It takes some 30 times as long as the "
            "built-in embedder, about 2 milliseconds for a short text, and 120 MB of memory in each process. "
            + LOCAL_EMBEDDERS[Kind.MULTILINGUAL].missing,
            states.get((Kind.MULTILINGUAL, None), ""),
        ),
        *(
            EmbedderOption(
                f"openai-{endpoint.pk}",
                f"{endpoint.name}: {endpoint.model}",
                "Every message and every knowledge entry of this workspace, with secrets masked, is sent to "
                f"{endpoint.base_url} once, and so is every question that is searched for. That may cost money. "
                "Its model has to be one that makes embeddings: Test tells.",
                states.get((Kind.OPENAI, endpoint.pk), ""),
            )
            for endpoint in endpoints
        ),
        EmbedderOption(
            "none",
            "None",
            "Search goes by words alone, at once, and all vectors are removed. An embedder that is chosen later makes "
            "them anew.",
            states.get((Kind.NONE, None), ""),
        ),
    ]
