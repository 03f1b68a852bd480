"""A thread in which everything that memory and work can show is there to look at."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.journeys.installation import Installation

MAKE = """
import json
from django.db import transaction
from agents.agent.access import visible_to
from agents.models import Agent
from memory.blocks.context_blocks import ContextBlocks
from memory.blocks.services import update_notes
from memory.episodes.proposals import accept_proposal
from memory.models import Handoff, Proposal
from memory.plugins.compaction import execute_compaction, request_compaction
from memory.plugins.lcm.models import Summary
from memory.work.approvals import decide_approval, request_approval
from memory.work.services import close_work_item, create_work_item, log_progress
from openvibe.chat.models import Channel
from openvibe.chat.services import create_thread, post_message
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
ana = member_access(Member.objects.get(workspace__slug="willow", participant__handle="ana"))
vibe = Agent.objects.get(workspace__slug="willow", participant__handle="vibe")
person = Member.objects.get(workspace__slug="willow", participant__handle="ana").participant
by_vibe = visible_to(vibe)
general = Channel.objects.get(workspace__slug="willow", name="general")
thread = create_thread(channel=general, by=ana, title="The greenhouse in winter")
for number in range(1, 41):
    said = f"Night {number}: the heater kept it at {number % 5 + 4} degrees. "
    post_message(thread=thread, by=ana, body=said + "The lemon tree has no new spots. " * 5)

def add(kind, text, by=ana, **data):
    return create_work_item(thread=thread, by=by, kind=kind, text=text, data=data)

add("objective", "Bring the lemon tree through the winter.")
add("constraint", "Never heat above 12 degrees.")
add("plan", "Insulate the north wall, then replace the heater.", stage="planning")
add("goal", "No frost inside", done_condition="Ten nights above 4 degrees", budget="300 euros")
add("todo", "Order bubble wrap")
close_work_item(item=add("todo", "Measure the north wall"), by=ana)
add("open_question", "Who looks after it over the holidays?", by_vibe)
add("do_not_redo", "The door has been sealed.")
add("error_tried", "A candle under the pot: it went out.", by_vibe)
add("artifact", "Drawing of the wall", ref="drawings/wall.pdf")
log_progress(thread=thread, by=by_vibe, checkpoint="Wall measured", changed="14 square metres", evidence="message 3",
             open_issues="The corner is damp", next_action="Order bubble wrap")
execute_compaction(request_compaction(thread=thread, trigger="hand", full=True, by=ana).pk)
with transaction.atomic():  # one compaction for all of these, whenever a worker looks
    asked = request_approval(thread=thread, by=by_vibe, what="Buy a heat pump", reason="The heater is 20 years old.")
    decide_approval(approval=asked, by=ana, is_granted=False, note="Next year.")
    request_approval(thread=thread, by=by_vibe, what="Order bubble wrap for 80 euros",
                     reason="It is cheaper until Friday.")
blocks = ContextBlocks(vibe.participant)
blocks.set("team", "Ana decides what is bought.")
blocks.set("team", "Ana decides what is bought. Answers are short here.")
update_notes(agent=vibe.participant, person=person, by=by_vibe, text="Prefers degrees to adjectives.", how="tool")
for text in ("The lemon tree comes first.", "Ana measures at night."):
    proposal = Proposal.objects.create(agent=vibe.participant, thread=thread, kind="episode", text=text,
                                       because="Messages 1 to 3.", since_seq=1, upto_seq=3)
accept_proposal(proposal=proposal, by=ana)
print(json.dumps([thread.pk, Summary.objects.filter(conversation__thread=thread).latest("pk").pk,
                  Handoff.objects.filter(thread=thread).latest("pk").pk]))
"""


@dataclass(frozen=True)
class Scene:
    """Addresses below /w/willow/."""

    thread: str
    memory: str
    summary: str
    work: str
    handoff: str
    agent: str = "agents/vibe/"
    versions: str = "agents/vibe/blocks/team/"


def laid_out(installation: Installation) -> Scene:
    installation.model.says("The heater kept the greenhouse above four degrees, and the lemon tree is well.")
    thread, summary, handoff = json.loads(installation.shell(MAKE).splitlines()[-1])
    below = f"t/{thread}/"
    return Scene(
        below, f"{below}memory/", f"{below}memory/{summary}/", f"{below}work/", f"{below}work/handoffs/{handoff}/"
    )
