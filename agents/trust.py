"""What each trust level may do and see: the one table that visibility, runs and tools read.

Source of the rules: the product specification, "Trust levels" and "What an agent may see".
The level belongs to the agent, is set by admins only, and new agents start at L1.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Occasion = Literal["mention", "thread", "dive", "publish", "scheduled", "proactive"]
"""Why an agent would speak: task types, plus speaking by plan or unasked. `thread` is following a thread."""

KnowledgeScope = Literal["none", "shared", "restricted"]
"""`restricted` includes what is shared."""

ChannelScope = Literal["added", "public", "granted"]
"""`added`: those it was added to; `public`: also public ones; `granted`: also private ones granted."""

ActingTools = Literal["none", "approved", "most"]
"""Tools that act: none; those approved for it; most of them, while listed ones ask first."""


@dataclass(frozen=True, slots=True)
class TrustLevel:
    number: int
    name: str
    # may do
    responds_to: tuple[Occasion, ...]
    writes_own_memory: bool
    suggests_knowledge: bool
    acting_tools: ActingTools
    high_stakes_with_approval: bool
    # may see
    channels: ChannelScope
    thread_history: bool
    dive_results: bool
    knowledge: KnowledgeScope
    own_episodes_and_blocks: bool

    @property
    def label(self) -> str:
        return f"L{self.number} {self.name}"


TRUST_LEVELS: tuple[TrustLevel, ...] = (
    TrustLevel(
        number=1,
        name="Observer",
        responds_to=("mention",),
        writes_own_memory=True,
        suggests_knowledge=False,
        acting_tools="none",
        high_stakes_with_approval=False,
        channels="added",
        thread_history=True,
        dive_results=False,
        knowledge="none",
        own_episodes_and_blocks=True,
    ),
    TrustLevel(
        number=2,
        name="Advisor",
        responds_to=("mention", "thread", "dive", "publish"),
        writes_own_memory=True,
        suggests_knowledge=True,
        acting_tools="none",
        high_stakes_with_approval=False,
        channels="added",
        thread_history=True,
        dive_results=True,
        knowledge="none",
        own_episodes_and_blocks=True,
    ),
    TrustLevel(
        number=3,
        name="Operator",
        responds_to=("mention", "thread", "dive", "publish", "scheduled", "proactive"),
        writes_own_memory=True,
        suggests_knowledge=True,
        acting_tools="approved",
        high_stakes_with_approval=False,
        channels="public",
        thread_history=True,
        dive_results=True,
        knowledge="shared",
        own_episodes_and_blocks=True,
    ),
    TrustLevel(
        number=4,
        name="Autonomous",
        responds_to=("mention", "thread", "dive", "publish", "scheduled", "proactive"),
        writes_own_memory=True,
        suggests_knowledge=True,
        acting_tools="most",
        high_stakes_with_approval=True,
        channels="granted",
        thread_history=True,
        dive_results=True,
        knowledge="restricted",
        own_episodes_and_blocks=True,
    ),
)


def trust_level(level: int) -> TrustLevel:
    """The row of the table for 1–4. Raises ValueError for any other number."""
    for row in TRUST_LEVELS:
        if row.number == level:
            return row
    raise ValueError(f"There is no trust level {level}. Choose 1 to {len(TRUST_LEVELS)}.")


def may_respond(level: int, task: Occasion) -> bool:
    """Whether an agent of this level answers on this occasion. Raises ValueError for an unknown one."""
    if task not in get_args(Occasion):
        raise ValueError(f"There is no occasion {task!r}. Known: {', '.join(get_args(Occasion))}.")
    return task in trust_level(level).responds_to


def reads_public_channels(level: int) -> bool:
    """Whether public channels are readable without having been added to them."""
    return trust_level(level).channels in ("public", "granted")


def reads_dive_results(level: int) -> bool:
    return trust_level(level).dive_results


def knowledge_scope(level: int) -> KnowledgeScope:
    """Which knowledge entries may reach the agent: none, the shared ones, or restricted ones too."""
    return trust_level(level).knowledge
