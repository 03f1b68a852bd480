"""The blocks every agent has from the start: empty, and its own to fill. One that is deleted comes back empty."""

from memory.blocks.values import ContextBlock

PREDEFINED: tuple[ContextBlock, ...] = (
    ContextBlock("learned", "What it learned that helps in later conversations: corrections, ways that worked."),
    ContextBlock("team", "How this team works: its words, its habits, who does what."),
)
