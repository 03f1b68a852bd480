"""`manage.py demo`: the first workspace, what it is filled with, and the sign-in that opens it."""

import os
import secrets
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from agents.agent.access import visible_to
from agents.agent.models import Agent
from agents.agent.services import create_agent, set_trust_level
from agents.connect.first_steps import SAMPLE_THREAD
from knowledge.queries import parse_expiry
from knowledge.services import create_entry, pin_result
from memory.services import create_work_item
from openvibe.chat.models import Channel, Dive, Message, Thread
from openvibe.chat.services import (
    ImportedLine,
    ImportedThread,
    add_to_channel,
    create_channel,
    create_thread,
    import_thread,
    post_message,
    publish_dive,
    start_dive,
)
from openvibe.engines.database.planner_statistics import analyze_changed_tables
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User, Workspace
from openvibe.workspaces.queries import member_access
from openvibe.workspaces.services import create_workspace, restart_first_steps, update_workspace

WORKSPACE_SLUG = "willow"
WORKSPACE_NAME = "Willow & Co"
WORKSPACE_DESCRIPTION = (
    "Willow & Co plants and looks after roof gardens in the city: three people, one van, forty roofs."
)
OWNER_EMAIL = "ana@openvibe.local"

VIBE_SOUL = """\
identity:
  name: Vibe
  role: Helps the team find, understand and decide from what was said
  description: |-
    A calm colleague who has read the whole thread. Answers the person who asked, in their language,
    and shows where every statement comes from, so that nobody has to take its word for it.
philosophy:
  principles:
    - Quote before you conclude; name who said it
    - The shortest answer that is complete is the best one
    - Say what is missing instead of filling the gap
    - When people disagree, show both sides before taking one
    - Feedback is an instruction for the next answer, not a verdict
  values: [honesty about sources, respect for people's time, curiosity]
capabilities:
  domains: [finding what was said, summaries of threads and meetings, decisions and open points, first drafts]
  limitations:
    - Reads only this conversation and what this workspace has shared with it
    - Cannot look anything up outside, and does not pretend to
behavior:
  response_style: structured
  progressive_disclosure: true
  max_output_tokens: 900
constraints:
  restricted_topics: [salaries, health of single people]
  never_do:
    - Invent a quote, a number, a date or a decision
    - Repeat keys, passwords or personal data from a conversation
    - Promise something on behalf of a person
  escalation_rules:
    - condition: somebody asks to spend money or to sign something
      action: escalate_to_human
    - condition: two sources contradict each other on a decision
      action: request_approval
"""

FERN_SOUL = """\
identity:
  name: Fern
  role: Answers from what the workspace has agreed on
  description: Knows what was pinned as knowledge and says who decided it, when, and how fresh it is.
philosophy:
  principles:
    - Say who decided it and when
    - When knowledge is about to expire, say so
constraints:
  never_do:
    - Answer from memory of other conversations instead of from knowledge
"""

WELCOME_MESSAGES = (
    """\
Welcome! Here people and agents talk in the same threads, and you can always see what an agent read before it \
answered.

Five things to try:

1. Ask the agent something right here: `@vibe what can I try first?`
2. Press **Why this answer?** under its words: every line it was shown, what was left out, and why.
3. Press thumbs down and say what was missing. Your words stand in its very next prompt, and a chip on the \
message tells what became of them.
4. Open **Work** and **Memory** at the top of *Spring planting*: what the meeting is working on, and how agents \
remember it.
5. In *Spring planting* somebody dived into one question with the agent. Its result is a card in the thread, and what \
was decided is pinned in **Knowledge**. Ask `@fern` right here when to prune the roses: it answers from what is \
pinned, without a word of that thread.""",
    """\
There is a real conversation to ask about. Open **Spring planting** in #meetings and write \
`@vibe when do we prune the roses, and who brings the mulch?` It finds the right passage in long threads too.""",
    """\
To begin with, `@vibe` runs on the built-in offline model. It needs no key and no network: it quotes what bears on \
your question and does not think. For real answers [connect a model](/connect-model/): paste a key into one field.""",
)
INTRODUCTION_MESSAGE = """\
Hello, I am Vibe, an agent at level L2. I answer when somebody mentions me, and I can follow a thread. I read the \
channels I was added to, #general and #meetings, and nothing else; a thread marked \
*people only* does not exist for me."""

MEETING_MESSAGES: tuple[tuple[str, str], ...] = (
    ("Mara", "Good morning. Three points today: the roses on Mill Street, the new irrigation, and the spring order."),
    ("Jonas", "Before we start: the van is at the garage until Wednesday noon. Nothing heavy before that."),
    ("Mara", "Noted. Roses first. Last year we pruned in February and lost a third of the buds to the late frost."),
    ("Li", "The frost came on 14 March, I looked it up. The Harbour roof, pruned in late March, had no damage at all."),
    ("Mara", "Then we prune the roses in the last week of March this year, on all roofs, and not a day before."),
    ("Jonas", "Agreed. I bring the mulch, twelve bags, but only once the van is back."),
    ("Li", "Put it on Mill Street first. That roof dries out fastest because it has no wind screen."),
    ("Mara", "Second point. The irrigation on the Harbour roof leaks at the third valve. Who has seen it?"),
    ("Jonas", "I did. The seal is worn. A new valve is 38 euros; the seal alone would hold for one summer at most."),
    ("Mara", "Buy the valve. We do not want to go up there twice."),
    ("Li", "Should we move that roof to drip hoses? They need 40 % less water according to the maker."),
    ("Mara", "Not this year. We try drip hoses on the school roof and decide in autumn with numbers of our own."),
    (
        "Jonas",
        "Third point, the spring order. The nursery wants our list by Friday, after that delivery takes four weeks.",
    ),
    ("Li", "Lavender, thyme, stonecrop, as last year. I would leave out the box: the moths ate half of it."),
    ("Mara", "No box, then. Take yew instead, ten plants, for the school roof and Mill Street."),
    ("Li", "I send the list on Thursday evening, so that you can both still look at it."),
    ("Jonas", "Open question: who talks to the neighbours on Mill Street about the noise of the pump?"),
    ("Mara", "Nobody yet. Let us keep that open until next Monday. Thank you both."),
)

WORK_ITEMS = (
    ("objective", "All forty roofs planted before the end of April"),
    ("constraint", "No roses are pruned before the last week of March."),
    ("todo", "Li sends the spring order on Thursday evening"),
    ("open_question", "Who talks to the neighbours on Mill Street about the noise of the pump?"),
)

DIVE_SOURCE = "Then we prune the roses"
DIVE_MESSAGES = (
    ("ana", "Is the last week of March right for every roof, or only for Harbour?"),
    (
        "vibe",
        "What was said supports it for every roof. Mara: pruning in February lost a third of the buds to the late "
        "frost. Li: that frost came on 14 March, and the Harbour roof, pruned in late March, had no damage at all. "
        "Nobody said anything about roofs that are warmer than Harbour.",
    ),
    ("ana", "And if March stays cold?"),
    ("vibe", "That was not discussed. Nobody named a day after which it would be too late."),
)
DIVE_RESULT = ResultDraft(
    headline="Roses are pruned in the last week of March, on every roof",
    bullets=(
        "Pruned in February last year, a third of the buds were lost to the frost of 14 March.",
        "The Harbour roof, pruned in late March, had no damage at all.",
        "The same week holds for all roofs, and not a day before.",
    ),
    full="The meeting compared two roofs: those pruned in February lost a third of their buds to the frost of "
    "14 March, the Harbour roof, pruned in late March, none. So the last week of March holds for every roof.",
    deferred=("Whether warmer roofs could begin earlier",),
    questions=("What if March stays cold: until when may we wait?",),
)
KNOWLEDGE_ENTRIES = (
    ("Supplier", "fact", "The nursery wants our spring list by Friday; delivery then takes four weeks.", ("orders",)),
    ("Heavy loads", "policy", "Nothing over 25 kg is carried up by one person alone.", ("safety",)),
)


class Command(BaseCommand):
    help = "Makes a first workspace with sample content and prints a sign-in. A second time it only prints it again."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--if-empty", action="store_true", help="do nothing when there is any workspace")
        parser.add_argument("--url", default=served_url(), help="where OpenVibe answers (%(default)s)")
        parser.add_argument("--no-password", action="store_true", help="name the password's file, do not print it")

    def handle(self, *_arguments: Any, if_empty: bool, url: str, no_password: bool, **_options: Any) -> None:
        workspaces = Workspace.objects.all() if if_empty else Workspace.objects.filter(slug=WORKSPACE_SLUG)
        if workspaces.exists():
            self.stdout.write(sign_in_line(url))
            return
        password = secrets.token_urlsafe(12)
        try:
            with transaction.atomic():
                user = create_demo_workspace(password=password).user
                if user.check_password(password):
                    write_credentials(credentials_path(), password)  # before the commit: no workspace without a way in
        except OSError as error:
            raise CommandError(f"{credentials_path()} cannot be written: {error.strerror}. Nothing was made.") from None
        analyze_changed_tables()
        is_printed = user.check_password(password) and not no_password
        self.stdout.write(
            f"Sign in: {url} as {OWNER_EMAIL} with password {password}" if is_printed else sign_in_line(url)
        )


@transaction.atomic
def create_demo_workspace(*, password: str) -> Member:
    """The first workspace with its owner, two channels, an agent, a welcome and a meeting. Returns the owner.

    An account of that address that is there already keeps its password and becomes the owner.
    """
    user = User.objects.filter(email=OWNER_EMAIL).first() or User.objects.create_superuser(
        OWNER_EMAIL, password, name="Ana"
    )
    owner = create_workspace(name=WORKSPACE_NAME, slug=WORKSPACE_SLUG, owner=user)
    by = member_access(owner)
    update_workspace(
        workspace=owner.workspace, by=by, name=WORKSPACE_NAME, description=WORKSPACE_DESCRIPTION, instructions=""
    )
    general = create_channel(by=by, name="general", description="Where everybody talks about everything.")
    meetings = create_channel(by=by, name="meetings", description="One thread per meeting, word for word.")
    vibe = _create_agents(owner, by, (general, meetings))
    welcome = create_thread(channel=general, by=by, title="Welcome to OpenVibe")
    for body in WELCOME_MESSAGES:
        post_message(thread=welcome, by=by, body=body)
    post_message(thread=welcome, by=visible_to(vibe), body=INTRODUCTION_MESSAGE)
    lines = [ImportedLine(author, text) for author, text in MEETING_MESSAGES]
    import_thread(channel=meetings, imported=ImportedThread(SAMPLE_THREAD, "Spring planting", lines))
    meeting = Thread.objects.get(channel=meetings, title="Spring planting")
    for kind, text in WORK_ITEMS:
        create_work_item(thread=meeting, by=by, kind=kind, text=text)
    _create_knowledge(_create_dive(meetings, by, vibe), by)
    restart_first_steps(owner)
    return owner


def _create_dive(channel: Channel, by: Access, vibe: Agent) -> Message:
    """Somebody looked into one decision of the meeting, and published what came of it."""
    source = Message.objects.get(thread__channel=channel, body__startswith=DIVE_SOURCE)
    dive: Dive = start_dive(source=source, by=by, agent=vibe.participant)
    speakers = {"ana": by.participant_id, "vibe": vibe.participant_id}
    for handle, text in DIVE_MESSAGES:  # written as it was said: nobody has to answer it again
        Message.objects.create(
            thread=dive.thread, author_id=speakers[handle], body=text, token_count=count_tokens(text)
        )
    return publish_dive(dive=dive, by=by, result=DIVE_RESULT)


def _create_knowledge(result: Message, by: Access) -> None:
    content = "\n".join([f"**{DIVE_RESULT.headline}**", "", *(f"- {bullet}" for bullet in DIVE_RESULT.bullets)])
    in_a_year = parse_expiry("1y", now=timezone.now())
    pin_result(message=result, by=by, topic="Pruning roses", content=content, expires_at=in_a_year, tags=("roses",))
    for topic, kind, text, tags in KNOWLEDGE_ENTRIES:
        create_entry(by=by, topic=topic, kind=kind, content=text, tags=tags, how="import")


def _create_agents(owner: Member, by: Access, channels: tuple[Channel, ...]) -> Agent:
    vibe = create_agent(by=by, workspace=owner.workspace, handle="vibe", name="Vibe", soul=VIBE_SOUL)
    set_trust_level(agent=vibe, by=by, level=2, note="Answers in the channels it was added to")
    for channel in channels:
        add_to_channel(channel=channel, participant=vibe.participant, by=by)
    fern = create_agent(by=by, workspace=owner.workspace, handle="fern", name="Fern", soul=FERN_SOUL)
    set_trust_level(agent=fern, by=by, level=3, note="Answers from what the workspace knows")
    add_to_channel(channel=channels[0], participant=fern.participant, by=by)
    return vibe


def credentials_path() -> Path:
    return Path(settings.VAR) / "sign-in.txt"


def served_url() -> str:
    """The address at which the OpenVibe answers that runs from this folder, or ran last (`serve --port` need not be
    PORT); else where it is to."""
    with suppress(OSError, ValueError):
        _pid, url = (Path(settings.VAR) / "serve.lock").read_text().split()
        return url
    return f"{settings.PUBLIC_URL}/"


def sign_in_line(url: str) -> str:
    """The line that tells how to sign in again. A log keeps no password: the first stands in a file of its own."""
    user = User.objects.filter(email=OWNER_EMAIL).first()
    if user is None:
        return f"Sign in: {url} with the account you made."
    password = read_password(credentials_path())
    if password and user.check_password(password):
        return f"Sign in: {url} as {OWNER_EMAIL}; the first password stands in {credentials_path()}."
    reset = f"`manage.py changepassword {OWNER_EMAIL}` sets another"
    return f"Sign in: {url} as {OWNER_EMAIL} with the password you have set ({reset})."


def write_credentials(file: Path, password: str) -> None:
    """Writes the first sign-in where only this system user can read it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(f"First sign-in of {WORKSPACE_NAME}. Delete this file once you have a password of your own.\n")
        stream.write(f"e-mail: {OWNER_EMAIL}\npassword: {password}\n")


def read_password(file: Path) -> str:
    """The password in the file; empty when there is none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("password: ") for line in lines if line.startswith("password: ")), "")
