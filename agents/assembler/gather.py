"""What a prompt could hold: one function per section, from what `reading` found. Nothing here asks the database.

What a text becomes depends on the text alone, so items are made once and remembered.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from agents.assembler.found import Place, Remembered
from agents.assembler.items import item
from agents.assembler.policy import policy_text
from agents.assembler.stack import REQUEST_ROOM, TaskBudget
from agents.assembler.values import Bundle, Dropped, Item, Offer, SectionName, Trust, drop
from agents.assembler.wording import ago, data_block, minute
from agents.models import Agent
from agents.skills import read_override
from agents.soul import TaskType, render_soul, soul_from_dict
from memory.models import Episode
from openvibe.base.secrets import mask_secrets
from openvibe.chat.models import Message
from openvibe.llm.tokens import TokenCounter, head_and_tail
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

FEEDBACK_ITEMS = 5
OLDER_EPISODES = 10


@dataclass(frozen=True)
class Asked:
    """The request: a stored message, or text not sent yet."""

    text: str
    author: Participant | None
    at: datetime
    message: Message | None = None

    @property
    def before(self) -> int | None:
        """History is what stands before this seq; all of the thread for text not sent yet."""
        return self.message.seq if self.message else None


@dataclass(frozen=True)
class Scene:
    """What every gathering function needs to know."""

    agent: Agent
    access: Access
    place: Place
    task: TaskType
    asked: Asked
    counter: TokenCounter
    budget: TaskBudget


def trust_of(author_kind: str, *, is_own: bool) -> Trust:
    """Members' messages and the agent's own are semi-trusted; imports and other agents' text are not trusted."""
    return "semi_trusted" if is_own or author_kind == Participant.Kind.MEMBER else "untrusted"


def one_each(items: Iterable[Item]) -> tuple[Bundle, ...]:
    return tuple(Bundle((entry,)) for entry in items)


# --- P0 -----------------------------------------------------------------------------------------------------
def policy(scene: Scene) -> Offer:
    """The basic layer: the built-in policy, or the agent's SYSTEM.md in its place."""
    written = read_override(scene.agent, "SYSTEM.md")
    if written is not None:
        entry = _file_item(scene.counter, "policy", "policy", written, "SYSTEM.md")
        return Offer("P0", "policy", one_each([entry]), required=True)
    who = scene.agent.participant
    return Offer("P0", "policy", one_each([_policy_item(scene.counter, who.name, who.handle)]), required=True)


@lru_cache(maxsize=256)
def _policy_item(counter: TokenCounter, name: str, handle: str) -> Item:
    text = policy_text(name=name, handle=handle)
    return item(counter, section="policy", key="policy", text=text, trust="trusted", source="built-in policy")


@lru_cache(maxsize=64)
def _file_item(counter: TokenCounter, section: SectionName, key: str, text: str, file: str) -> Item:
    return item(counter, section=section, key=key, text=mask_secrets(text), trust="trusted", source=file, ref=file)


def soul(scene: Scene) -> Offer:
    """The sections of the SOUL that this task carries, or the agent's SOUL.md in their place."""
    written = read_override(scene.agent, "SOUL.md")
    if written is not None:
        entry = _file_item(scene.counter, "soul", "soul:file", written, "SOUL.md")
        return Offer("P0", "soul", one_each([entry]), required=True)
    version = scene.agent.soul
    if version is None:
        return Offer("P0", "soul", ())
    entries = _soul_items(scene.counter, scene.task, version.number, json.dumps(version.content))
    return Offer("P0", "soul", one_each(entries), required=True)


@lru_cache(maxsize=256)
def _soul_items(counter: TokenCounter, task: TaskType, number: int, content: str) -> tuple[Item, ...]:
    return tuple(
        item(
            counter,
            section="soul",
            key=f"soul:{section.title.lower()}",
            text=f"## {section.title}\n{mask_secrets(section.text)}",
            trust="trusted",
            source=f"SOUL version {number}, {section.title}",
            ref=f"soul:{number}",
            order=place,
        )
        for place, section in enumerate(render_soul(soul_from_dict(json.loads(content)), task))
    )


def instructions(scene: Scene) -> tuple[Offer, Offer]:
    """Organisation → channel → thread; trusted, since only admins write them, each at most 2,000 tokens.

    The organisation's always stand. The narrower ones come first of all that is not required.
    """
    counter, place = scene.counter, scene.place
    organisation = _instructions(counter, "organisation", place.workspace_instructions, 0)
    narrower = (
        *_instructions(counter, "channel", place.channel_instructions, 1),
        *_instructions(counter, "thread", place.instructions, 2),
    )
    return (
        Offer("P0", "instructions", organisation, required=True),
        Offer("P0", "instructions", narrower, beyond_layer_cap=True),
    )


@lru_cache(maxsize=1_024)
def _instructions(counter: TokenCounter, scope: str, text: str, order: int) -> tuple[Bundle, ...]:
    if not text.strip():
        return ()
    entry = item(
        counter,
        section="instructions",
        key=f"instructions:{scope}",
        text=f"## Instructions ({scope})\n{mask_secrets(text.strip())}",
        trust="trusted",
        source=f"{scope} instructions",
        order=order,
    )
    return (Bundle((entry,)),)


# --- P1 -----------------------------------------------------------------------------------------------------
def request(scene: Scene, room: int) -> Offer:
    """The request whole, or its head and tail when it needs more than `room` tokens. It ends the prompt.

    The message stands exactly as it will stand in the history of the next prompt, which therefore begins alike.
    """
    asked = scene.asked
    ref = str(asked.before) if asked.message else "draft"
    author = asked.author.name if asked.author else "somebody"
    is_own = asked.author is None or asked.author.pk == scene.agent.participant_id
    trust = trust_of(asked.author.kind if asked.author else "", is_own=is_own)

    def made(text: str) -> Item:
        block = data_block(text, source="message", ref=ref, author=author, trust=trust, time=minute(asked.at))
        return item(
            scene.counter,
            section="request",
            key=f"message:{asked.message.pk}" if asked.message else "draft",
            text=block,
            trust=trust,
            source="request",
            author=author,
            ref=ref,
        )

    entry, room = made(asked.text), max(room, REQUEST_ROOM)
    limit = room
    while entry.tokens > room and limit > 16:
        limit = min(limit - 16, limit * room // max(entry.tokens, 1)) if limit < room else room - 80
        entry = made(shortened(asked.text, limit, scene.counter, ref=ref))
    return Offer("P1", "request", (Bundle((entry,)),), required=True)


def shortened(text: str, limit: int, counter: TokenCounter, *, ref: str) -> str:
    """Head and tail of a text with a marker that says where the whole is; the text itself when it fits.

    Secrets are masked first, so that no cut leaves half of one.
    """
    return head_and_tail(mask_secrets(text), limit, counter, f"\n[… cut here: message {ref} is stored whole …]\n")


# --- P2, P6: what the agent remembers -----------------------------------------------------------------------
def remembered(scene: Scene, newest: Iterable[Remembered]) -> tuple[Offer, Offer, list[Dropped]]:
    """Open feedback (the last five), older episodes, and what was learned where this audience was not."""
    feedback: list[Item] = []
    older: list[Item] = []
    hidden: list[Dropped] = []
    for episode in newest:
        is_feedback = episode.kind == Episode.Kind.FEEDBACK_RECEIVED
        first_ones = is_feedback and len(feedback) < FEEDBACK_ITEMS
        when = ago(episode.created_at, scene.asked.at)
        entry = episode_item(scene.counter, episode, when, share=_share(scene), recent=first_ones)
        if not episode.is_usable:
            hidden.append(drop(entry, "private"))
        elif first_ones:
            feedback.append(entry)
        elif len(older) < OLDER_EPISODES:
            older.append(entry)
    return (
        Offer("P2", "feedback", one_each(feedback)),
        Offer("P6", "episodes", one_each(older)),
        hidden,
    )


@lru_cache(maxsize=2_048)
def episode_item(counter: TokenCounter, episode: Remembered, when: str, *, share: int, recent: bool) -> Item:
    """`[RECENT FEEDBACK] User Ana (2 days ago): …`, or an older episode in the same manner."""
    giver = episode.giver
    said = head_and_tail(episode.text, share, counter, " … ")
    label = "RECENT FEEDBACK" if recent else str(Episode.Kind(episode.kind).label).upper()
    line = f"[{label}] User {giver} ({when}): {said}" if giver else f"[{label}] ({when}): {said}"
    section: SectionName = "feedback" if recent else "episodes"
    ref = f"episode:{episode.pk}"
    source = "feedback" if recent else "episode"
    block = data_block(line, source=source, ref=ref, author=giver or "the agent", trust="semi_trusted")
    return item(
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


def _share(scene: Scene) -> int:
    """Tokens for the words of one piece of feedback, so that five fit into P2."""
    return max(40, (scene.budget.caps["P2"] or 500) // FEEDBACK_ITEMS - 45)


# --- P4 ----------------------------------------------------------------------------------------------------
def surroundings(scene: Scene) -> Offer:
    """Who the workspace is and what the channel is for."""
    place = scene.place
    about: tuple[tuple[SectionName, str], ...] = (
        ("workspace", f"Workspace {place.workspace_name}. {place.workspace_description}".strip()),
        ("channel", f"Channel #{place.channel_name}. {place.channel_description} Thread: {place.title}".strip()),
    )
    half = (scene.budget.caps["P4"] or 200) // len(about) - 40
    return Offer("P4", "workspace", one_each(_about(scene.counter, name, text, max(half, 20)) for name, text in about))


@lru_cache(maxsize=1_024)
def _about(counter: TokenCounter, name: SectionName, text: str, limit: int) -> Item:
    shown = head_and_tail(text, limit, counter, " … ")
    block = data_block(shown, source=name, ref=name, author="workspace", trust="semi_trusted")
    return item(counter, section=name, key=name, text=block, trust="semi_trusted", source=name, ref=name)
