"""Results of tools that an agent called in earlier runs, for the memory tool: prompts show them in short."""

from collections.abc import Callable

from memory.plugins.base import Session, TextPiece
from memory.plugins.message_search import MAX_PIECE_TOKENS
from openvibe.base.problems import Missing
from openvibe.chat.queries import cut_excerpt
from openvibe.engines.registers import Register

TOOL_RESULTS: Register[Callable[[Session, int], str | None]] = Register("memory.plugins.tool_results.TOOL_RESULTS")
"""The stored result of a call by its number, where the session's agent may be shown it again in this thread."""


def read_tool_result(session: Session, number: int, offset: int) -> TextPiece:
    """A piece of the result from character `offset` on. Raises Missing for one that is unknown or may not be shown."""
    text = TOOL_RESULTS.only()(session, number)
    if text is None:
        raise Missing(f"There is no observation:{number} to read here.")
    piece = cut_excerpt(text, offset, MAX_PIECE_TOKENS)
    return TextPiece(piece.text, piece.start, piece.end, piece.total)
