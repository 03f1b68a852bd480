"""Context blocks: labelled text an agent carries. Stores keep them, `ContextBlocks` holds the rules."""

from memory.blocks.database import DatabaseBlocks
from memory.blocks.predefined import PREDEFINED
from memory.blocks.store import BlockStore, InMemoryBlocks
from memory.blocks.values import Author, ContextBlock
from memory.blocks.wrapper import ContextBlocks

__all__ = [
    "PREDEFINED",
    "Author",
    "BlockStore",
    "ContextBlock",
    "ContextBlocks",
    "DatabaseBlocks",
    "InMemoryBlocks",
]
