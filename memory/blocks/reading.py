"""What prompts read of blocks."""

from memory.blocks.database import DatabaseBlocks
from memory.blocks.predefined import PREDEFINED
from memory.blocks.values import Carried


def carried(agent_participant_id: int) -> list[Carried]:
    """The blocks of an agent that say something, sorted by label; predefined ones included. One query."""
    found = {block.label: block for block in PREDEFINED}
    found |= {block.label: block for block in DatabaseBlocks(agent_participant_id).get_blocks()}
    return [
        Carried(block.label, block.description, block.content, block.tokens, block.readonly, block.version)
        for _, block in sorted(found.items())
        if block.content
    ]
