"""A workspace of its own with all that a page can show, the same whenever it is made: screens are looked at with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from unittest.mock import patch

from django.test import Client
from django.utils import timezone

from agents.agent.access import visible_to
from agents.agent.services import create_agent, set_trust_level
from agents.management.commands import demo
from agents.models import Agent, Run
from agents.runs.external.lifecycle import begin_external_run
from agents.runs.permissions.requests import PermissionRequest, request_permission
from knowledge.expiry import parse_expiry
from knowledge.services import create_entry, suggest_entry
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import (
    add_reaction,
    add_to_channel,
    create_channel,
    create_thread,
    open_direct_messages,
    post_message,
)
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User, Workspace
from openvibe.workspaces.queries import member_access
from openvibe.workspaces.services import add_member
from tests.journeys.installation import Installation
from tests.journeys.sample_thread import MAKE as MAKE_GREENHOUSE

SLUG = "roofs"
RUN = "from tests.journeys import roof_gardens; roof_gardens.{step}"
VALVE = "Valve for the Harbour roof"
CHANNELS = (
    ("harbour-roof", "The oldest roof: 200 square metres of roses, and the pump."),
    ("orders", "What is ordered, and when it comes."),
    ("plants", ""),
)
Line = tuple[str, str]
"""A handle, and what is said under it."""

WATERING: Sequence[Line] = (
    ("sofia", "The Harbour roof takes 140 litres a day in July, and Mill Street 90."),
    ("nils", "Valve 3 leaks: a tenth of it runs into the gutter. The new valve comes on Thursday, see #orders."),
    ("theo", "Water at **six in the morning**: after nine a third of it is gone before it reaches a root."),
)
THREADS: Sequence[tuple[str, str, Sequence[Line]]] = (
    (
        "plants",
        "Lavender or thyme for the school roof?",
        (("theo", "Thyme stays below 20 cm, @ana. Which one do you want?"),),
    ),
    ("orders", VALVE, (("nils", "Ordered for 38 euros. It comes on Thursday."), ("sofia", "Thank you. @ana pays it."))),
    (
        "orders",
        "Spring list",
        (("nils", "The nursery asks for our list of spring plants by Friday, four weeks before it delivers."),),
    ),
    ("harbour-roof", "Gutter", (("sofia", "The gutter is clean again."),)),
)
DIFF = """\
--- a/timer.py
+++ b/timer.py
@@ -1,3 +1,3 @@
 ROOF = "Harbour"
-TIMES = ["06:00", "18:00"]
+TIMES = ["06:00"]
 MINUTES = 12
"""
QUESTION = "@vibe how much do we water, and when?"
ANSWER = """\
At **six in the morning**, because after nine a third is gone (Theo, message 3). So much a day (Sofia, message 1):

| roof | litres | by |
|---|--:|---|
| Harbour | 140 | valve 3 |
| Mill Street | 90 | valve 1 |
| School | 60 | drip hoses |

With a tenth lost at valve 3 (Nils, message 2) the pump has to give

$$V = \\frac{A \\cdot d}{1 - \\frac{1}{10}}$$

```python
def litres(area: float, depth: float, lost: float = 0.1) -> float:
    \"\"\"What the pump gives, so that each root gets its share.\"\"\"
    return area * depth / (1 - lost)
```

- [x] Valve ordered
- [ ] Timer set to once a day
"""


@dataclass(frozen=True)
class Roofs:
    """The session of its owner, and addresses below /w/roofs/."""

    session: str
    watering: str
    context: str
    entry: str
    channel: str
    greenhouse: str


def planted(installation: Installation) -> Roofs:
    """The workspace, made in the installation; its model has answered in it, and an agent elsewhere waits for leave."""
    installation.model.says("The heater kept the greenhouse above four degrees, and the lemon tree is well.")
    session, entry, channel = json.loads(installation.shell(RUN.format(step="plant()")).splitlines()[-1])
    made = installation.shell(MAKE_GREENHOUSE.replace('"willow"', f'"{SLUG}"')).splitlines()[-1]
    installation.model.says(ANSWER)
    watering = installation.shell(RUN.format(step=f"ask({installation.url!r})"))
    installation.wait_until_idle()
    run = installation.shell(RUN.format(step="wait_for_leave()"))
    return Roofs(session, f"t/{watering}/", f"runs/{run}/context/", entry, channel, f"t/{json.loads(made)[0]}/")


def plant() -> None:
    """Makes what people and agents have said and know. Runs inside the installation, and prints what leads there."""
    owner = _make_workspace()
    people = {"ana": member_access(owner), **_join_people(owner)}
    channels = _make_channels(owner, people)
    vibe = _add_agents(owner, channels["harbour-roof"])
    for channel, title, lines in THREADS:
        _say(channels[channel], people, title, lines)
    direct, _ = open_direct_messages(by=people["sofia"], recipient=owner.participant)
    post_message(thread=direct, by=people["sofia"], body="Do you have the key to the Harbour roof?")
    entry = _make_knowledge(people["ana"], vibe)
    client = Client()
    client.force_login(owner.user)
    session = client.cookies["sessionid"].value
    print(json.dumps([session, f"knowledge/{entry}/", f"c/{channels['harbour-roof'].pk}/"]))


def ask(url: str) -> None:
    """Has the agent asked what the thread says, at the OpenVibe of this address. Prints the thread."""
    workspace = Workspace.objects.get(slug=SLUG)
    members = workspace.members.select_related("participant")
    people = {member.participant.handle: member_access(member) for member in members}
    valve = Thread.objects.get(workspace=workspace, title=VALVE)
    (who, words), *others = WATERING
    lines = ((who, f"{words} {url}/w/{SLUG}/t/{valve.pk}/"), *others)
    channel = Channel.objects.get(workspace=workspace, name="harbour-roof")
    thread, messages = _say(channel, people, "Watering in July", lines)
    add_reaction(message=messages[2], by=people["ana"], emoji="❤")
    post_message(thread=thread, by=people["ana"], body=QUESTION)
    print(thread.pk)


def wait_for_leave() -> None:
    """Has an agent elsewhere ask whether it may change a file. Prints the run that answered before."""
    answer = Run.objects.get(agent__workspace__slug=SLUG, trigger__body=QUESTION)
    wren = Agent.objects.get(workspace__slug=SLUG, participant__handle="wren")
    ana = member_access(Member.objects.get(workspace__slug=SLUG, role="owner"))
    request = post_message(thread=answer.thread, by=ana, body="@wren the timer waters twice a day. Once is enough.")
    run = begin_external_run(agent=wren, message=request)
    call = PermissionRequest("timer", "edit", "Water once a day", paths=("timer.py",), diff=DIFF)
    request_permission(run=run, request=call)
    Run.objects.filter(pk=run.pk).update(heard_at=timezone.now() + timedelta(days=1))  # else it counts as silent soon
    print(answer.pk)


def _make_workspace() -> Member:
    with patch.multiple(demo, WORKSPACE_SLUG=SLUG, WORKSPACE_NAME="Roof gardens", OWNER_EMAIL="ana@roofs.example"):
        owner = demo.create_demo_workspace(password="roofs have a password")
    steered = Endpoint.objects.get(workspace__slug="willow", name="Steered")
    steered.pk, steered.workspace = None, owner.workspace
    steered.save()
    return owner


def _join_people(owner: Member) -> dict[str, Access]:
    people = {}
    for name in ("Nils", "Theo", "Sofia"):
        user = User.objects.create_user(email=f"{name.lower()}@roofs.example", name=name)
        people[name.lower()] = member_access(add_member(workspace=owner.workspace, user=user))
    return people


def _make_channels(owner: Member, people: dict[str, Access]) -> dict[str, Channel]:
    for name, purpose in CHANNELS:
        create_channel(by=people["ana"], name=name, description=purpose)
    channels = {channel.name: channel for channel in Channel.objects.filter(workspace=owner.workspace)}
    for channel in channels.values():
        for member in owner.workspace.members.exclude(pk=owner.pk):
            add_to_channel(channel=channel, participant=member.participant, by=people["ana"])
    return channels


def _add_agents(owner: Member, channel: Channel) -> Agent:
    by = member_access(owner)
    soul = "identity: {name: Wren, role: Mends what waters the roofs}"
    wren = create_agent(by=by, workspace=owner.workspace, handle="wren", name="Wren", soul=soul)
    Agent.objects.filter(pk=wren.pk).update(answers_itself=True)
    set_trust_level(agent=wren, by=by, level=3, note="Mends what waters the roofs")
    agents = {agent.participant.handle: agent for agent in Agent.objects.filter(workspace=owner.workspace)}
    for handle in ("vibe", "wren"):
        add_to_channel(channel=channel, participant=agents[handle].participant, by=by)
    return agents["vibe"]


def _say(
    channel: Channel, people: dict[str, Access], title: str, lines: Sequence[Line]
) -> tuple[Thread, list[Message]]:
    thread = create_thread(channel=channel, by=people[lines[0][0]], title=title)
    return thread, [post_message(thread=thread, by=people[who], body=body) for who, body in lines]


def _make_knowledge(by: Access, vibe: Agent) -> int:
    """Two entries, of which one expires soon, and one that waits for review. Returns the one that expires."""
    now = timezone.now()
    litres = create_entry(
        by=by,
        topic="Litres a day",
        kind="fact",
        tags=("watering",),
        expires_at=parse_expiry((now + timedelta(days=3)).date().isoformat(), now=now),
        content="The Harbour roof takes **140 litres** a day in July, Mill Street 90, the school roof 60.",
    )
    create_entry(by=by, topic="Keys", kind="fact", content="Sofia has those of Harbour and Mill Street.")
    suggest_entry(
        by=visible_to(vibe),
        topic="Watering the school roof",
        content="Drip hoses are tried on the school roof this year; the numbers decide in autumn.",
        why="Agreed in the meeting, and asked about twice since.",
    )
    return litres.pk
