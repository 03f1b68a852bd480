"""What each trust level may do and see: the tables that visibility, runs and tools read, and their words for pages.

Source of the rules: the product specification, "Trust levels" and "What an agent may see". Pure.
The level belongs to the agent, is set by admins only, and new agents start at L1.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

Occasion = Literal["mention", "thread", "dive", "publish", "scheduled", "proactive"]
"""An occasion on which an agent would speak: task types, plus speaking by plan or unasked. `thread` is following a
thread."""

KnowledgeScope = Literal["none", "shared", "restricted"]
"""`restricted` includes what is shared."""

ChannelScope = Literal["added", "public", "granted"]
"""`added`: those it was added to; `public`: also public ones; `granted`: also private ones granted."""

Effect = Literal["reads", "own_memory", "acts", "external"]
"""What a tool does: looks things up; writes what belongs to the agent or the thread, or proposes something to people;
changes something elsewhere; or reaches people, money or contracts outside, which cannot be taken back."""

Gate = Literal["allowed", "ask", "refused"]
"""What becomes of a call: it is executed; it waits until a person has approved it; it is not executed."""

GateRule = Literal["allowed", "approved", "most", "ask", "refused"]
"""A cell of the gate table. `approved`: tools approved for the agent, others are refused. `most`: all of them. Tools
that are listed as asking first wait for an approval under either."""

GATES: dict[Effect, tuple[GateRule, GateRule, GateRule, GateRule]] = {
    "reads": ("allowed", "allowed", "allowed", "allowed"),
    "own_memory": ("allowed", "allowed", "allowed", "allowed"),
    "acts": ("refused", "refused", "approved", "most"),
    "external": ("refused", "refused", "refused", "ask"),
}
"""The gate table: what agents of L1 to L4 may do with tools of each effect."""

CallKind = Literal["read", "search", "think", "edit", "move", "delete", "execute", "fetch", "switch_mode", "other"]
"""What an agent elsewhere says that a call of its own tools is, in the words of the Agent Client Protocol."""

CallClass = Literal["looks", "changes", "outside"]
"""What such a call does: looks at something; changes something on its machine; or reaches beyond it, lifts the agent's
own limits, or is of no kind that is known."""

CallEffect = Literal["allow", "ask", "deny"]
"""What a rule of an agent says of the calls that it is about."""

CALL_CLASSES: dict[CallKind, CallClass] = {
    "read": "looks",
    "search": "looks",
    "think": "looks",
    "edit": "changes",
    "move": "changes",
    "delete": "changes",
    "execute": "changes",
    "fetch": "outside",
    "switch_mode": "outside",
    "other": "outside",
}

CALL_GATES: dict[CallClass, tuple[GateRule, GateRule, GateRule, GateRule]] = {
    "looks": ("allowed", "allowed", "allowed", "allowed"),
    "changes": ("refused", "refused", "approved", "most"),
    "outside": ("refused", "refused", "ask", "ask"),
}
"""The gate table of calls that agents elsewhere ask about. `approved`: what a rule allows, anything else asks; `most`:
all but what a rule lets ask or denies."""


@dataclass(frozen=True, slots=True)
class TrustLevel:
    """One row of the table. What is not said otherwise is what every level has, or what L1 has not."""

    number: int
    name: str
    # may do
    responds_to: tuple[Occasion, ...]
    writes_own_memory: bool = True
    suggests_knowledge: bool = False
    # may see
    channels: ChannelScope = "added"
    thread_history: bool = True
    dive_results: bool = False
    knowledge: KnowledgeScope = "none"
    own_episodes_and_blocks: bool = True

    @property
    def label(self) -> str:
        return f"L{self.number} {self.name}"

    @property
    def reads_public_channels(self) -> bool:
        """Whether public channels are readable without having been added to them."""
        return self.channels in ("public", "granted")

    @property
    def allowed_actions(self) -> tuple[str, ...]:
        """What the level may do, a phrase each."""
        answers = ", ".join(words for occasion, words in _OCCASION_LABELS.items() if occasion in self.responds_to)
        return (
            f"answers {answers}",
            *(["writes its own memory"] if self.writes_own_memory else []),
            *(["suggests knowledge"] if self.suggests_knowledge else []),
            *self.tool_actions,
        )

    @property
    def denied_actions(self) -> tuple[str, ...]:
        """What the level may not see or do, a phrase each."""
        return (
            *([] if self.thread_history else ["see the history of the thread it answers in"]),
            *([] if self.dive_results else ["see dive results"]),
            *(["see knowledge entries"] if self.knowledge == "none" else []),
            *([] if self.own_episodes_and_blocks else ["see its own episodes"]),
            "see threads that are for people only",
            *([] if self.writes_own_memory else ["write memory"]),
            *([] if self.suggests_knowledge else ["suggest knowledge"]),
            *(["use tools that act"] if gate_rule(self.number, "acts") == "refused" else []),
            *(["act outside the workspace"] if gate_rule(self.number, "external") == "refused" else []),
        )

    @property
    def tool_actions(self) -> tuple[str, ...]:
        """What it may do with tools that act, and with those that act outside, a phrase each."""
        acting, external = gate_rule(self.number, "acts"), gate_rule(self.number, "external")
        return tuple(words for words in (_ACTING_LABELS.get(acting), _EXTERNAL_LABELS.get(external)) if words)

    @property
    def visible_scope(self) -> tuple[str, ...]:
        """What the level may see, a phrase each."""
        return (
            _CHANNEL_LABELS[self.channels],
            *(["the history of the thread it answers in"] if self.thread_history else []),
            *(["dive results"] if self.dive_results else []),
            *([_KNOWLEDGE_LABELS[self.knowledge]] if self.knowledge != "none" else []),
            *(["its own episodes"] if self.own_episodes_and_blocks else []),
        )


@dataclass(frozen=True, slots=True)
class LevelDifference:
    """What an agent gains when it comes to a higher level, or loses at a lower one, a phrase each."""

    level: TrustLevel
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    is_current: bool


def level_differences(number: int) -> tuple[LevelDifference, ...]:
    """Every level beside the one of this number, in order. Each has what the one before it has, so that a step up only
    gains."""
    now = _level_phrases(trust_level(number))
    return tuple(
        LevelDifference(
            level=level,
            gained=_without(_level_phrases(level), now) if level.number > number else (),
            lost=_without(now, _level_phrases(level)) if level.number < number else (),
            is_current=level.number == number,
        )
        for level in TRUST_LEVELS
    )


def _without(phrases: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(phrase for phrase in phrases if phrase not in others)


def _level_phrases(level: TrustLevel) -> tuple[str, ...]:
    answers = (f"answers {words}" for occasion, words in _OCCASION_LABELS.items() if occasion in level.responds_to)
    seen = (f"sees {phrase}" for phrase in level.visible_scope)
    return (*seen, *answers, *level.allowed_actions[1:])


_OBSERVER = TrustLevel(number=1, name="Observer", responds_to=("mention",))
_ADVISOR = replace(
    _OBSERVER,
    number=2,
    name="Advisor",
    responds_to=("mention", "thread", "dive", "publish"),
    suggests_knowledge=True,
    dive_results=True,
)
_OPERATOR = replace(
    _ADVISOR,
    number=3,
    name="Operator",
    responds_to=(*_ADVISOR.responds_to, "scheduled", "proactive"),
    channels="public",
    knowledge="shared",
)
_AUTONOMOUS = replace(_OPERATOR, number=4, name="Autonomous", channels="granted", knowledge="restricted")
TRUST_LEVELS = (_OBSERVER, _ADVISOR, _OPERATOR, _AUTONOMOUS)
"""Each level has what the one before it has, and more."""


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


def gate_rule(level: int, effect: Effect) -> GateRule:
    """The cell of the gate table. Raises ValueError for another level."""
    return GATES[effect][trust_level(level).number - 1]


def gate(level: int, effect: Effect, *, is_approved: bool = False, asks_first: bool = False) -> Gate:
    """What becomes of a call of a tool. `is_approved`: an admin approved it for this agent; `asks_first`: it is listed
    as one that asks."""
    rule = gate_rule(level, effect)
    if rule == "approved" and not is_approved:
        return "refused"
    if rule == "approved" or rule == "most":
        return "ask" if asks_first else "allowed"
    return rule


def gate_refusal(level: int, effect: Effect) -> str:
    """The reason why `gate` refuses, as the end of a sentence that begins with the tool's name."""
    if gate_rule(level, effect) == "approved":
        return f"which {EFFECT_LABELS[effect]}: at L{level} only once an admin has approved it for the agent"
    lowest = next(row.number for row in TRUST_LEVELS if gate_rule(row.number, effect) != "refused")
    return f"which {EFFECT_LABELS[effect]}: agents may from L{lowest} on"


def call_kind(word: str) -> CallKind:
    """The kind that an agent names; one that nobody knows is `other`."""
    return next((kind for kind in get_args(CallKind) if kind == word), "other")


def call_rule(level: int, kind: CallKind) -> GateRule:
    """The cell of the gate table of calls. Raises ValueError for another level."""
    return CALL_GATES[CALL_CLASSES[kind]][trust_level(level).number - 1]


def call_gate(level: int, kind: CallKind, effect: CallEffect | None = None) -> Gate:
    """What becomes of a call that an agent elsewhere asks about. `effect`: what the agent's rules say of it.

    No rule gives more than the level has; a change of mode, which may end the asking itself, is never allowed unasked.
    """
    rule = call_rule(level, kind)
    if rule == "refused" or effect == "deny":
        return "refused"
    if effect == "ask" or kind == "switch_mode":
        return "ask"
    return "allowed" if effect == "allow" or rule in ("allowed", "most") else "ask"


def call_refusal(level: int, kind: CallKind) -> str:
    """The sentence that says why the level refuses a call."""
    lowest = next(row.number for row in TRUST_LEVELS if call_rule(row.number, kind) != "refused")
    row = trust_level(level)
    return f"At {row.label} an agent only looks (read, search, think): “{kind}” is for L{lowest} and up."


CALL_LABELS: dict[CallKind, str] = {
    "read": "Read a file",
    "search": "Search",
    "think": "Think",
    "edit": "Change a file",
    "move": "Move or rename a file",
    "delete": "Delete a file",
    "execute": "Run a command",
    "fetch": "Fetch something from outside",
    "switch_mode": "Change its mode of work",
    "other": "Do something of another kind",
}

EFFECT_LABELS: dict[Effect, str] = {
    "reads": "only reads",
    "own_memory": "writes its own memory",
    "acts": "acts",
    "external": "acts outside the workspace",
}

_OCCASION_LABELS = {
    "mention": "when mentioned",
    "thread": "in threads it follows",
    "dive": "in dives",
    "scheduled": "on schedule",
    "proactive": "unasked in channels it watches",
}
_ACTING_LABELS: dict[GateRule, str] = {
    "approved": "uses tools that act, once an admin has allowed them to it",
    "most": "uses most tools that act; those marked so ask first",
}
_EXTERNAL_LABELS: dict[GateRule, str] = {
    "ask": "acts outside the workspace (also with money or contracts), once a person has granted it each time"
}
_CHANNEL_LABELS = {
    "added": "channels it was added to",
    "public": "all public channels, and those it was added to",
    "granted": "all public channels, and private ones it was added to",
}
_KNOWLEDGE_LABELS = {"shared": "shared knowledge", "restricted": "shared and restricted knowledge"}
