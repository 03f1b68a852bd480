"""Context blocks: labelled text an agent carries. Stores keep them, `ContextBlocks` holds the rules."""

from memory.blocks.database import DatabaseBlocks
from memory.blocks.predefined import PREDEFINED
from memory.blocks.reading import carried
from memory.blocks.store import BlockStore, InMemoryBlocks
from memory.blocks.values import Author, Carried, ContextBlock
from memory.blocks.wrapper import ContextBlocks

__all__ = [
    "PREDEFINED",
    "Author",
    "BlockStore",
    "Carried",
    "ContextBlock",
    "ContextBlocks",
    "DatabaseBlocks",
    "InMemoryBlocks",
    "carried",
]
