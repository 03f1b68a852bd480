"""Labels of trust levels for pages: allowed actions and visible scope, in words. Pure; decides nothing."""

from agents.trust import TRUST_LEVELS, TrustLevel

_OCCASION_LABELS = {
    "mention": "when mentioned",
    "thread": "in threads it follows",
    "dive": "in dives",
    "scheduled": "on schedule",
    "proactive": "unasked, where its SOUL says so",
}
_TOOL_LABELS = {
    "none": "no tools that act",
    "approved": "tools that act, once approved",
    "most": "most tools that act; listed ones ask first",
}
_CHANNEL_LABELS = {
    "added": "channels it was added to",
    "public": "all public channels, and those it was added to",
    "granted": "all public channels, and private ones it was added to",
}
_KNOWLEDGE_LABELS = {
    "none": "no knowledge entries",
    "shared": "shared knowledge",
    "restricted": "shared and restricted knowledge",
}


def allowed_actions(level: TrustLevel) -> tuple[str, ...]:
    """What the level may do, a phrase each."""
    answers = ", ".join(words for occasion, words in _OCCASION_LABELS.items() if occasion in level.responds_to)
    return (
        f"answers {answers}",
        "writes its own memory" if level.writes_own_memory else "writes no memory",
        "suggests knowledge" if level.suggests_knowledge else "suggests no knowledge",
        f"uses {_TOOL_LABELS[level.acting_tools]}",
        "external, financial and legal acts only with approval"
        if level.high_stakes_with_approval
        else "no external, financial or legal acts",
    )


def visible_scope(level: TrustLevel) -> tuple[str, ...]:
    """What the level may see, a phrase each."""
    return (
        _CHANNEL_LABELS[level.channels],
        "the history of the thread it answers in" if level.thread_history else "no thread history",
        "dive results" if level.dive_results else "no dive results",
        _KNOWLEDGE_LABELS[level.knowledge],
        "its own episodes" if level.own_episodes_and_blocks else "no episodes",
        "never threads that are for people only",
    )


def trust_table() -> tuple[tuple[TrustLevel, tuple[str, ...], tuple[str, ...]], ...]:
    """Every level with what it may see and do."""
    return tuple((level, visible_scope(level), allowed_actions(level)) for level in TRUST_LEVELS)
