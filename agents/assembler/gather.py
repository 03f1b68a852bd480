"""Reading what a prompt could hold: one function per section, each a bounded number of queries.

Every read starts from what `agents.visibility` lets the agent see. Nothing here writes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from agents.assembler.items import in_steps, item
from agents.assembler.policy import policy_text
from agents.assembler.stack import REQUEST_ROOM, TaskBudget
from agents.assembler.values import Bundle, Dropped, Item, Offer, SectionName, Trust, drop, trust_reason
from agents.assembler.wording import ago, data_block, minute, request_block
from agents.models import Agent
from agents.soul import TaskType, render_soul, soul_from_dict
from memory.models import Episode
from openvibe.base.secrets import mask_secrets
from openvibe.chat.models import Message, Thread
from openvibe.llm.tokens import TokenCounter, head_and_tail
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

NEIGHBOURS = 5
"""Messages before the request that a mention always asks for."""

WINDOW = {"mention": NEIGHBOURS, "thread": 50, "dive": 400, "publish": 400}
"""Messages of history a task asks for within P1; what is left after P6 brings more."""

STEP = 10
"""History leaves the window this many messages at a time."""

REACH = 240
"""Messages read at most; a ceiling is full of them long before."""

LONGEST = 1_200
"""Tokens one message of history may take; longer ones show head and tail. Constant, so that prefixes stay equal."""

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
    thread: Thread
    task: TaskType
    asked: Asked
    counter: TokenCounter
    budget: TaskBudget


@dataclass(frozen=True, slots=True)
class Said:
    """A stored message as prompts read it: plain values, since a prompt reads hundreds of them."""

    pk: int
    seq: int
    kind: str
    body: str
    token_count: int
    created_at: datetime
    author_id: int
    author_name: str
    author_kind: str


def said(messages: QuerySet[Message]) -> list[Said]:
    """The messages of a queryset as plain values, in its order."""
    names = ("pk", "seq", "kind", "body", "token_count", "created_at", "author_id", "author__name", "author__kind")
    return [Said(*row) for row in messages.values_list(*names)]


def trust_of(author_id: int | None, author_kind: str, agent: Agent) -> Trust:
    """Members' messages are semi-trusted; imports and other agents' text are not trusted."""
    if author_id is None or author_kind == Participant.Kind.MEMBER or author_id == agent.participant_id:
        return "semi_trusted"
    return "untrusted"


def one_each(items: Iterable[Item]) -> tuple[Bundle, ...]:
    return tuple(Bundle((entry,)) for entry in items)


# --- P0 -----------------------------------------------------------------------------------------------------
def policy(scene: Scene) -> Offer:
    who = scene.agent.participant
    text = policy_text(name=who.name, handle=who.handle)
    entry = item(scene.counter, section="policy", key="policy", text=text, trust="trusted", source="built-in policy")
    return Offer("P0", "policy", (Bundle((entry,)),), required=True)


def soul(scene: Scene) -> Offer:
    """The sections of the SOUL that this task carries."""
    version = scene.agent.soul
    if version is None:
        return Offer("P0", "soul", ())
    entries = [
        item(
            scene.counter,
            section="soul",
            key=f"soul:{section.title.lower()}",
            text=f"## {section.title}\n{mask_secrets(section.text)}",
            trust="trusted",
            source=f"SOUL version {version.number}, {section.title}",
            ref=f"soul:{version.number}",
            order=place,
        )
        for place, section in enumerate(render_soul(soul_from_dict(version.content), scene.task))
    ]
    return Offer("P0", "soul", one_each(entries), required=True)


def instructions(scene: Scene) -> tuple[Offer, Offer]:
    """Organisation → channel → thread; trusted, since only admins write them, each at most 2,000 tokens.

    The organisation's always stand. The narrower ones come first of all that is not required.
    """
    thread = scene.thread
    organisation = _instructions(scene, "organisation", thread.workspace.instructions, 0)
    narrower = (
        *_instructions(scene, "channel", thread.channel.instructions, 1),
        *_instructions(scene, "thread", thread.instructions, 2),
    )
    return (
        Offer("P0", "instructions", organisation, required=True),
        Offer("P0", "instructions", narrower, beyond_layer_cap=True),
    )


def _instructions(scene: Scene, scope: str, text: str, order: int) -> tuple[Bundle, ...]:
    if not text.strip():
        return ()
    entry = item(
        scene.counter,
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
    """The request whole, or its head and tail when it needs more than `room` tokens."""
    asked = scene.asked
    ref = str(asked.before) if asked.message else "draft"
    author = asked.author.name if asked.author else "somebody"
    trust = trust_of(asked.author.pk, asked.author.kind, scene.agent) if asked.author else "semi_trusted"

    def made(text: str) -> Item:
        block = request_block(text, ref=ref, author=author, trust=trust, time=minute(asked.at))
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
    """Head and tail of a text with a marker that says where the whole is; the text itself when it fits."""
    return head_and_tail(text, limit, counter, f"\n[… cut here: message {ref} is stored whole …]\n")


def history(scene: Scene, messages: Sequence[Said]) -> tuple[Offer, ...]:
    """What was said before the request: the task's window, and what is left after P6 brings more of it.

    Two offers over the same messages, so that the window stops at P1's cap and the rest waits for what is left.
    """
    entries = [history_item(scene, message) for message in messages]
    bundles = in_steps(entries, step=STEP)
    window = _first(bundles, WINDOW[scene.task])
    return (
        Offer("P1", "history", window, contiguous=True, extendable=True),
        Offer("P1", "history", bundles[len(window) :], cap=0, contiguous=True, extendable=True),
    )


def _first(bundles: Sequence[Bundle], messages: int) -> tuple[Bundle, ...]:
    taken, counted = [], 0
    for bundle in bundles:
        if counted >= messages:
            break
        taken.append(bundle)
        counted += len(bundle.items)
    return tuple(taken)


def history_item(scene: Scene, message: Said) -> Item:
    """One message: the agent's own words as they are, everybody else's fenced."""
    own = message.author_id == scene.agent.participant_id and message.kind == Message.Kind.TEXT
    ref = str(message.seq)
    body = message.body
    if message.token_count > LONGEST:
        body = shortened(body, LONGEST, scene.counter, ref=ref)
    return item(
        scene.counter,
        section="history",
        key=f"message:{message.pk}",
        text=mask_secrets(body) if own else message_block(scene, message, body),
        trust=trust_of(message.author_id, message.author_kind, scene.agent),
        source=f"message {ref}",
        author=message.author_name,
        ref=ref,
        role="assistant" if own else "user",
        order=message.seq,
    )


def message_block(scene: Scene, message: Said, body: str) -> str:
    kind = "message" if message.kind == Message.Kind.TEXT else message.kind
    return data_block(
        body,
        source=kind,
        ref=str(message.seq),
        author=message.author_name,
        trust=trust_of(message.author_id, message.author_kind, scene.agent),
        time=minute(message.created_at),
    )


def said_before(scene: Scene) -> tuple[list[Said], list[Dropped], bool]:
    """The newest messages before the request, oldest first, as many as could ever fit; what the level hides; and
    whether that is all there is."""
    before = (
        Message.objects.filter(thread=scene.thread, deleted_at=None, state__in=("complete", "stopped"))
        .exclude(kind=Message.Kind.SYSTEM)
        .exclude(body="")
        .order_by("-seq")
    )
    if scene.asked.before is not None:
        before = before.filter(seq__lt=scene.asked.before)
    kept, hidden, tokens = [], [], 0
    newest = list(said(before[:REACH]))
    for message in newest:
        if message.kind == Message.Kind.DIVE_RESULT and not scene.access.reads_dive_results:
            hidden.append(drop(history_item(scene, message), trust_reason(scene.agent.level)))
            continue
        tokens += min(message.token_count, LONGEST)
        if tokens > scene.budget.ceiling:
            break
        kept.append(message)
    return kept[::-1], hidden, len(kept) + len(hidden) == len(newest) < REACH


# --- P2, P6: what the agent remembers -----------------------------------------------------------------------
def remembered(scene: Scene) -> tuple[Offer, Offer, list[Dropped]]:
    """Open feedback (the last five), older episodes, and what was learned where this audience was not."""
    own = Episode.objects.of(scene.agent.participant_id)
    wanted = own.filter(applied_at=None).select_related("feedback__participant").order_by("-created_at", "-id")
    newest = list(wanted[: 4 * OLDER_EPISODES])
    usable = own.usable_in(scene.thread.channel_id).filter(pk__in=[episode.pk for episode in newest])
    usable_ids = set(usable.values_list("pk", flat=True))
    feedback: list[Item] = []
    older: list[Item] = []
    hidden: list[Dropped] = []
    for episode in newest:
        is_feedback = episode.kind == Episode.Kind.FEEDBACK_RECEIVED
        first_ones = is_feedback and len(feedback) < FEEDBACK_ITEMS
        entry = episode_item(scene, episode, recent=first_ones)
        if episode.pk not in usable_ids:
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


def episode_item(scene: Scene, episode: Episode, *, recent: bool) -> Item:
    """`[RECENT FEEDBACK] User Ana (2 days ago): …`, or an older episode in the same manner."""
    giver = episode.feedback.participant.name if episode.feedback else ""
    said = head_and_tail(episode.learning or episode.summary, _share(scene), scene.counter, " … ")
    when = ago(episode.created_at, scene.asked.at)
    label = "RECENT FEEDBACK" if recent else str(episode.get_kind_display()).upper()
    line = f"[{label}] User {giver} ({when}): {said}" if giver else f"[{label}] ({when}): {said}"
    return item(
        scene.counter,
        section="feedback" if recent else "episodes",
        key=f"episode:{episode.pk}",
        text=data_block(
            line, source="feedback" if recent else "episode", ref=f"episode:{episode.pk}", author=giver or "the agent",
            trust="semi_trusted",
        ),
        trust="semi_trusted",
        source="feedback" if episode.feedback else "own episode",
        author=giver,
        ref=f"episode:{episode.pk}",
        order=-episode.pk,
    )  # fmt: skip


def _share(scene: Scene) -> int:
    """Tokens for the words of one piece of feedback, so that five fit into P2."""
    return max(40, (scene.budget.caps["P2"] or 500) // FEEDBACK_ITEMS - 45)


# --- P4, time -----------------------------------------------------------------------------------------------
def surroundings(scene: Scene) -> Offer:
    """Who the workspace is and what the channel is for."""
    channel = scene.thread.channel
    about: tuple[tuple[SectionName, str], ...] = (
        ("workspace", f"Workspace {scene.thread.workspace.name}. {scene.thread.workspace.description}".strip()),
        ("channel", f"Channel #{channel.name}. {channel.description} Thread: {scene.thread.title}".strip()),
    )
    half = (scene.budget.caps["P4"] or 200) // len(about) - 40
    entries = [
        item(
            scene.counter,
            section=name,
            key=name,
            text=data_block(
                head_and_tail(text, max(half, 20), scene.counter, " … "),
                source=name, ref=name, author="workspace", trust="semi_trusted",
            ),
            trust="semi_trusted",
            source=name,
            ref=name,
        )
        for name, text in about
    ]  # fmt: skip
    return Offer("P4", "workspace", one_each(entries))


def clock(scene: Scene) -> Offer:
    """When it is and who asks: what changes with every prompt stands last."""
    asker = f" Asked by {scene.asked.author.name} (@{scene.asked.author.handle})." if scene.asked.author else ""
    text = f"It is {minute(scene.asked.at)} UTC.{asker}"
    entry = item(
        scene.counter,
        section="time",
        key="time",
        text=data_block(text, source="clock", ref="time", author="OpenVibe", trust="semi_trusted"),
        trust="semi_trusted",
        source="clock",
    )
    return Offer("P1", "time", (Bundle((entry,)),))
