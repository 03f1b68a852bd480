"""What a fresh installation starts with: a small company, its agent, and something to ask it."""

from django.db import transaction

from agents.models import Agent
from agents.services import create_agent, set_trust_level
from agents.visibility import visible_to
from memory.services.work import add_work
from openvibe.chat.importing import ImportedLine, ImportedThread
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services import add_to_channel, create_channel, create_thread, post_message
from openvibe.chat.services.importing import import_thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import access_of_member, create_workspace, edit_workspace

SLUG = "willow"
NAME = "Willow & Co"
DESCRIPTION = "Willow & Co plants and looks after roof gardens in the city: three people, one van, forty roofs."
EMAIL = "ana@openvibe.local"

SOUL = """\
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

WELCOME = (
    """\
Welcome! Here people and agents talk in the same threads, and you can always see what an agent read before it \
answered.

Four things to try:

1. Ask the agent something right here: `@vibe what can I try first?`
2. Open **Context** on its answer: every line it was shown, what was left out, and why.
3. Press thumbs down and say what was missing. Your words stand in its very next prompt, and a chip on the \
message tells what became of them.
4. Open **Work** and **Memory** at the top of *Spring planting*: what the meeting is working on, and how agents \
remember it.""",
    """\
There is a real conversation to ask about. Open **Spring planting** in #meetings and write \
`@vibe when do we prune the roses, and who brings the mulch?` It finds the right passage in long threads too.""",
    """\
To begin with, `@vibe` runs on the built-in offline model. It needs no key and no network: it quotes what bears on \
your question and does not think. For real answers an admin adds a model endpoint and gives it to the agent.""",
)
INTRODUCTION = """\
Hello, I am Vibe, an agent at level L2. I answer when somebody mentions me, and I can follow a thread. I read the \
channels I was added to, #general and #meetings, and nothing else; a thread marked \
*people only* does not exist for me."""

MEETING: tuple[tuple[str, str], ...] = (
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


WORK = (
    ("objective", "All forty roofs planted before the end of April"),
    ("constraint", "No roses are pruned before the last week of March."),
    ("todo", "Li sends the spring order on Thursday evening"),
    ("open_question", "Who talks to the neighbours on Mill Street about the noise of the pump?"),
)


@transaction.atomic
def make_demo(*, password: str) -> Member:
    """The first workspace with its owner, two channels, an agent, a welcome and a meeting. Returns the owner.

    An account of that address that is there already keeps its password and becomes the owner.
    """
    user = User.objects.filter(email=EMAIL).first() or User.objects.create_superuser(EMAIL, password, name="Ana")
    owner = create_workspace(name=NAME, slug=SLUG, owner=user)
    by = access_of_member(owner)
    edit_workspace(workspace=owner.workspace, by=by, name=NAME, description=DESCRIPTION, instructions="")
    general = create_channel(by=by, name="general", description="Where everybody talks about everything.")
    meetings = create_channel(by=by, name="meetings", description="One thread per meeting, word for word.")
    vibe = _agent(owner, by, (general, meetings))
    _welcome(general, by, vibe)
    lines = [ImportedLine(author, text) for author, text in MEETING]
    import_thread(channel=meetings, imported=ImportedThread("demo:spring-planting", "Spring planting", lines))
    _work(meetings, by)
    return owner


def _work(channel: Channel, by: Access) -> None:
    """What the meeting is working on, so that the panel has something to show."""
    thread = Thread.objects.get(channel=channel, title="Spring planting")
    for kind, text in WORK:
        add_work(thread=thread, by=by, kind=kind, text=text)


def _agent(owner: Member, by: Access, channels: tuple[Channel, ...]) -> Agent:
    vibe = create_agent(by=by, workspace=owner.workspace, handle="vibe", name="Vibe", soul=SOUL)
    set_trust_level(agent=vibe, by=by, level=2, note="Answers in the channels it was added to")
    for channel in channels:
        add_to_channel(channel=channel, participant=vibe.participant, by=by)
    return vibe


def _welcome(channel: Channel, by: Access, vibe: Agent) -> None:
    thread = create_thread(channel=channel, by=by, title="Welcome to OpenVibe")
    for body in WELCOME:
        post_message(thread=thread, by=by, body=body)
    post_message(thread=thread, by=visible_to(vibe), body=INTRODUCTION)
