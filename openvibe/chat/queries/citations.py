"""What messages cite, for pages and for the API."""

from collections.abc import Mapping, Sequence

from openvibe.chat.models import Message
from openvibe.chat.wiring import CITATIONS, Citation
from openvibe.workspaces.access import Access


def read_citations(messages: Sequence[Message], access: Access) -> Mapping[int, Sequence[Citation]]:
    """What these messages cite and the asker may see, by message id. One query, none where nothing can cite."""
    citations: dict[int, Sequence[Citation]] = {}
    for read in CITATIONS:
        citations |= read(messages, access)
    return citations
