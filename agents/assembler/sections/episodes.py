"""Episodes: open feedback (P2) and older episodes (P6), and which of them this audience may not see."""

from collections.abc import Iterable
from functools import lru_cache

from agents.assembler.items import data_block, make_item, relative_time, single_item_groups
from agents.assembler.queries import EpisodeRow
from agents.assembler.sections.request import PromptRequest
from agents.assembler.values import DroppedItem, Item, SectionCandidates, SectionName, make_dropped
from memory.models import Episode
from openvibe.llm.tokens import TokenCounter, truncate_middle

MAX_FEEDBACK_ITEMS = 5


MAX_OLDER_EPISODES = 10


# --- P2, P6: what the agent remembers -----------------------------------------------------------------------
def episode_candidates(
    request: PromptRequest, rows: Iterable[EpisodeRow]
) -> tuple[SectionCandidates, SectionCandidates, list[DroppedItem]]:
    """Open feedback (the last five), older episodes, and what was learned where this audience was not."""
    feedback: list[Item] = []
    older: list[Item] = []
    hidden: list[DroppedItem] = []
    for episode in rows:
        is_feedback = episode.kind == Episode.Kind.FEEDBACK_RECEIVED
        is_recent_feedback = is_feedback and len(feedback) < MAX_FEEDBACK_ITEMS
        age = relative_time(episode.created_at, request.asked.at)
        entry = episode_item(
            request.counter,
            episode,
            age,
            max_tokens=_feedback_item_tokens(request),
            is_recent_feedback=is_recent_feedback,
        )
        if not episode.is_usable:
            hidden.append(make_dropped(entry, "private"))
        elif is_recent_feedback:
            feedback.append(entry)
        elif len(older) < MAX_OLDER_EPISODES:
            older.append(entry)
    return (
        SectionCandidates("P2", "feedback", single_item_groups(feedback)),
        SectionCandidates("P6", "episodes", single_item_groups(older)),
        hidden,
    )


@lru_cache(maxsize=2_048)
def episode_item(
    counter: TokenCounter, episode: EpisodeRow, age: str, *, max_tokens: int, is_recent_feedback: bool
) -> Item:
    """`[RECENT FEEDBACK] User Ana (2 days ago): …`, or an older episode in the same manner."""
    giver = episode.feedback_author
    shortened_text = truncate_middle(episode.text, max_tokens, counter, " … ")
    label = "RECENT FEEDBACK" if is_recent_feedback else str(Episode.Kind(episode.kind).label).upper()
    line = f"[{label}] User {giver} ({age}): {shortened_text}" if giver else f"[{label}] ({age}): {shortened_text}"
    section: SectionName = "feedback" if is_recent_feedback else "episodes"
    ref = f"episode:{episode.pk}"
    source = "feedback" if is_recent_feedback else "episode"
    block = data_block(line, source=source, ref=ref, author=giver or "the agent", trust="semi_trusted")
    return make_item(
        counter,
        section=section,
        key=ref,
        text=block,
        trust="semi_trusted",
        source="feedback" if episode.from_feedback else "own episode",
        author=giver,
        ref=ref,
        order=-episode.pk,
    )


def _feedback_item_tokens(request: PromptRequest) -> int:
    """Tokens for the words of one piece of feedback, so that five fit into P2."""
    return max(40, (request.budget.caps["P2"] or 500) // MAX_FEEDBACK_ITEMS - 45)
