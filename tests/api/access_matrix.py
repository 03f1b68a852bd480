"""One scene for the access matrix: who is there, which places there are, and, written down once more and on its own,
who may see what."""

from dataclasses import asdict, dataclass

from agents.models import Agent, Run
from knowledge.services import pin_result, suggest_entry
from memory.blocks.context_blocks import ContextBlocks
from memory.episodes.models import Episode, Proposal
from memory.episodes.services import give_feedback
from memory.plugins.models import SessionInfo
from memory.work.approvals import request_approval
from memory.work.services import create_work_item, log_progress
from openvibe.api.services import issue_token, revoke_token
from openvibe.chat.images import make_image
from openvibe.chat.models import Channel, Dive, Image, Message, Thread
from openvibe.chat.services import add_to_channel, create_reply, set_thread_access
from openvibe.workspaces.models import Member, Participant
from tests import factories
from tests.knowledge.factories import ContradictionFactory
from tests.memory.factories import CompactionFactory

PLACES = ("open", "people_only", "restricted", "private", "elsewhere")
PEOPLE = ("ana", "dora", "ben")
AGENTS = ("l1", "l2", "l3", "l4")
CALLERS = (*PEOPLE, "cleo", *AGENTS)
OUTSIDE = ("anonymous", "revoked")

# Ana owns, Dora is a member, Ben a guest who was added nowhere. Of the agents only l1 was added to #general; l3 and l4
# read public channels by their level. Cleo owns another workspace.
THREADS: dict[str, set[str]] = {
    "open": {"ana", "dora", "l1", "l3", "l4"},
    "people_only": {"ana", "dora"},
    "restricted": {"ana", "dora", "l3"},
    "private": {"ana"},
    "elsewhere": {"cleo"},
}
CHANNELS = {**THREADS, "people_only": THREADS["open"], "restricted": THREADS["open"]}

# Entries pinned from these threads are shared, in the private channel restricted. Agents know shared ones from L3 on,
# restricted ones from L4 on, and nothing from a thread they may not know of.
ENTRIES = {
    "open": {"ana", "dora", "ben", "l3", "l4"},
    "people_only": {"ana", "dora", "ben"},
    "restricted": {"ana", "dora", "ben", "l3"},
    "private": {"ana", "l4"},
    "elsewhere": {"cleo"},
}


def may_see(caller: str, thing: str, place: str) -> bool:
    """The rules in their shortest form, independent of the code that keeps them."""
    if thing == "channel":
        return caller in CHANNELS[place]
    if thing == "agent":  # people know their workspace's agents, guests only those they meet
        return (caller == "cleo") == (place == "elsewhere") and caller != "ben"
    if thing == "person":  # the place's owner; guests know those they meet
        return (caller == "cleo") == (place == "elsewhere") and caller != "ben"
    if thing == "token":
        return caller == ("cleo" if place == "elsewhere" else "ana")
    seen = caller in THREADS[place]
    if thing == "memory":  # nothing is remembered of threads for people only
        return seen and place != "people_only"
    if thing == "prompt":  # people, admins, may assemble for the place's agent where that one sees it too
        return seen and (caller in AGENTS or place in ("open", "elsewhere"))
    if thing == "run":  # an agent knows its own runs only
        return seen and caller not in {"l2", "l3", "l4"}
    if thing in ("episode", "proposal"):  # its agent's, an episode's giver's, and the admins'
        return seen and caller in {"ana", "cleo", "l1"}
    if thing == "entry":
        return caller in ENTRIES[place]
    if thing == "suggestion":  # until somebody accepts it, for people who see where it comes from
        return seen and caller in ENTRIES[place] and caller not in AGENTS
    if thing == "contradiction":  # agents know what holds, people decide on the rest
        return caller in ENTRIES[place] and caller not in AGENTS
    if thing == "dive":  # agents that read no results know of no dives
        return seen and caller != "l1"
    if thing == "session":  # the agent's that leads it
        return caller == "l1" and place == "open"
    if thing == "feedback":
        return seen and caller in {"ana", "cleo"}
    return seen


@dataclass
class Place:
    """One thread and what hangs on it."""

    channel: Channel
    thread: Thread
    message: Message
    reply: Message
    run: Run
    episode: Episode
    feedback: int
    proposal: int
    token: int
    agent: str
    compaction: int
    work: int = 0
    approval: int = 0
    progress: int = 0
    dive: int = 0
    attachment: int = 0
    image: int = 0
    entry: int = 0
    suggestion: int = 0
    contradiction: int = 0
    person: str = ""
    block: str = ""

    def ids(self) -> dict[str, int | str]:
        return {
            "channel": self.channel.pk,
            "thread": self.thread.pk,
            "message": self.message.pk,
            "reply": self.reply.pk,
            "run": self.run.pk,
            "episode": self.episode.pk,
            "feedback": self.feedback,
            "session": self.thread.pk,
            "proposal": self.proposal,
            "token": self.token,
            "agent": self.agent,
            "compaction": self.compaction,
            "work": self.work,
            "approval": self.approval,
            "progress": self.progress,
            "dive": self.dive,
            "attachment": self.attachment,
            "image": self.image,
            "entry": self.entry,
            "suggestion": self.suggestion,
            "contradiction": self.contradiction,
            "person": self.person,
            "block": self.block,
        }


NUMBERED = (
    "channel",
    "thread",
    "message",
    "reply",
    "run",
    "episode",
    "feedback",
    "session",
    "proposal",
    "token",
    "compaction",
    "work",
    "approval",
    "progress",
    "dive",
    "attachment",
    "image",
    "entry",
    "suggestion",
    "contradiction",
)
UNKNOWN: dict[str, int | str] = {
    **dict.fromkeys(NUMBERED, 987_654_321),
    **dict.fromkeys(("agent", "person", "block"), "unknown"),
}


@dataclass
class Scene:
    members: dict[str, Member]
    agents: dict[str, Agent]
    places: dict[str, Place]
    revoked: str

    def participant(self, caller: str) -> Participant:
        return self.members[caller].participant if caller in self.members else self.agents[caller].participant


def make_place(by: Member, channel: Channel, agent: Agent, title: str) -> Place:
    thread = factories.make_thread(channel, by, title)
    message = factories.attach(thread, by, f"About roses in {title}", notes_md=f"Notes on roses in {title}")
    reply = create_reply(thread=thread, author=agent.participant, client_id=title)
    Message.objects.filter(pk=reply.pk).update(state="complete", body="Roses like sun.")
    run = Run.objects.create(
        workspace=by.workspace, agent=agent, thread=thread, trigger=message, requested_by=by.participant, task="mention"
    )
    feedback = give_feedback(message=reply, by=factories.access(by), verdict="down", text=f"Too short in {title}")
    SessionInfo.objects.create(agent=agent.participant, thread=thread, external_id=title)
    token, _ = issue_token(participant=by.participant, name=title, scopes=["read"])
    episode = Episode.objects.get(feedback=feedback)
    proposal = Proposal.objects.create(
        agent=agent.participant,
        thread=thread,
        kind="episode",
        text=f"Roses in {title}",
        since_seq=0,
        upto_seq=1,
        state="accepted",
    )
    compaction = CompactionFactory.create(thread=thread, plugin="memory/lcm", trigger="threshold", state="done")
    place = Place(
        channel, thread, message, reply, run, episode, feedback.pk, proposal.pk, token.pk, agent.handle, compaction.pk
    )
    place.attachment = message.attachments.get().pk
    image = asdict(make_image("rose.png", factories.image_file()))
    place.image = Image.objects.create(message=message, position=2, **image).pk
    return place


def write_work(place: Place, by: Member) -> None:
    """A to-do, an approval that waits and a line of progress."""
    access, title = factories.access(by), place.thread.title
    place.work = create_work_item(thread=place.thread, by=access, kind="todo", text=f"Water in {title}").pk
    place.approval = request_approval(thread=place.thread, by=access, what=f"Order mulch for {title}").pk
    place.progress = log_progress(thread=place.thread, by=access, checkpoint=f"Dug in {title}").pk


def write_knowledge(place: Place, by: Member) -> None:
    """Two entries pinned from what was said there, said to contradict each other, and a suggestion."""
    access, title = factories.access(by), place.thread.title
    first, second = (
        pin_result(message=place.message, by=access, topic=f"Roses in {title}", content=f"Prune in {month}.")
        for month in ("February", "March")
    )
    place.entry = first.pk
    place.suggestion = suggest_entry(by=access, topic="Mulch", content=f"In {title}.", source_message=place.message).pk
    place.contradiction = ContradictionFactory.create(
        workspace=by.workspace, first=first, second=second, first_version=1, second_version=1, why="The months differ."
    ).pk


def write_dive(place: Place, by: Member) -> None:
    """A dive that the place's owner started, with the place's agent: an L1 agent takes no part in it."""
    agent = by.workspace.participants.get(handle=place.agent)
    side = Thread.objects.create(
        workspace=by.workspace, channel=place.channel, parent=place.thread, title="Dive", created_by=by.participant
    )
    place.dive = Dive.objects.create(
        thread=side, parent=place.thread, source=place.message, agent=agent, started_by=by.participant, slot=1
    ).pk


def write_block(place: Place, by: Member) -> None:
    """A block that the place's agent carries, by its ETag, and somebody to have notes about."""
    agent = by.workspace.participants.get(handle=place.agent)
    place.person = by.participant.handle
    place.block = f'"{ContextBlocks(agent).set("notes", "Roses like sun.").stamp}"'


def make_scene() -> Scene:
    ana, cleo = factories.make_member("Ana"), factories.make_member("Cleo")
    dora = factories.make_member("Dora", ana.workspace)
    ben = factories.make_member("Ben", ana.workspace, role="guest")
    agents = {f"l{level}": factories.make_agent(ana, f"l{level}", level=level) for level in (1, 2, 3, 4)}
    general = factories.make_channel(ana)
    add_to_channel(channel=general, participant=agents["l1"].participant, by=factories.access(ana))
    private = factories.make_channel(ana, "secret", private=True)
    there = factories.make_channel(cleo)
    l1 = agents["l1"]
    places = {
        "open": make_place(ana, general, l1, "open"),
        "people_only": make_place(ana, general, l1, "people_only"),
        "restricted": make_place(ana, general, l1, "restricted"),
        "private": make_place(ana, private, l1, "private"),
        "elsewhere": make_place(cleo, there, factories.make_agent(cleo, "fern", channel=there), "elsewhere"),
    }
    for name, place in places.items():
        write_work(place, cleo if name == "elsewhere" else ana)
        write_block(place, cleo if name == "elsewhere" else ana)
        write_dive(place, cleo if name == "elsewhere" else ana)
        write_knowledge(place, cleo if name == "elsewhere" else ana)
    access = factories.access(ana)
    set_thread_access(thread=places["people_only"].thread, by=access, access="human_only")
    set_thread_access(
        thread=places["restricted"].thread,
        by=access,
        access="agent_restricted",
        allowed_agents=[agents["l3"].participant],
    )
    revoked, secret = issue_token(participant=ana.participant, name="revoked", scopes=["read"])
    revoke_token(token=revoked)
    return Scene({"ana": ana, "dora": dora, "ben": ben, "cleo": cleo}, agents, places, secret)
