"""What the asker once asked for stands word for word in the prompts of that person's requests, and binds nobody."""

from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.sections.constraints import PREFERENCES_CAP
from memory.models import WorkItem
from memory.work.services import create_work_item, decide_constraint
from openvibe.chat.models import Thread
from openvibe.chat.services import start_dive
from openvibe.engines.llm.fences import Fence, parse_fences
from openvibe.workspaces.models import Member
from tests.factories import access, say

GRAMS = "Always give me amounts in grams, <never> in cups."


def prompt_for(agent: Agent, thread: Thread, by: Member) -> Prompt:
    return assemble(agent=agent, thread=thread, task="mention", request=say(thread, by, "And the oven?"))


def preferences(prompt: Prompt) -> list[Fence]:
    users = [message.content for message in prompt.messages if message.role == "user"]
    return [fence for content in users for fence in parse_fences(content) if fence.tag == "preference"]


def test_it_stands_word_for_word_for_the_person_who_said_it(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    say(thread, ana, GRAMS)
    prompt = prompt_for(vibe, thread, ana)
    assert [fence.text for fence in preferences(prompt)] == [GRAMS]
    (item,) = [item for item in prompt.included if item.section == "preferences"]
    assert (item.layer, item.trust, item.author) == ("P1", "semi_trusted", "Ana")
    assert preferences(prompt_for(vibe, thread, dora)) == []


def test_it_stands_in_dives_too(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, GRAMS)
    source = say(thread, ana, "Which oven?")
    dive = start_dive(source=source, by=access(ana), agent=vibe.participant)
    assert [fence.text for fence in preferences(prompt_for(vibe, dive.thread, ana))] == [GRAMS]


def test_of_two_that_contradict_the_newer_stands_alone(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "Always answer in German.")
    say(thread, ana, "I prefer trains.")
    say(thread, ana, "From now on answer in English.")
    prompt = prompt_for(vibe, thread, ana)
    assert {fence.text for fence in preferences(prompt)} == {"I prefer trains.", "From now on answer in English."}
    assert [item.section for item in prompt.dropped] == ["preferences"]


def test_one_that_contradicts_what_binds_says_so(ana: Member, vibe: Agent, thread: Thread) -> None:
    rule = create_work_item(thread=thread, by=access(ana), kind="constraint", text="Always answer in English.")
    say(thread, ana, "From now on answer in German.")
    (fence,) = preferences(prompt_for(vibe, thread, ana))
    assert fence.attributes["contradicts"] == f"work:{rule.pk}, which binds"


def test_one_that_stands_as_a_constraint_stands_once(ana: Member, vibe: Agent, thread: Thread) -> None:
    message = say(thread, ana, GRAMS)
    create_work_item(thread=thread, by=access(ana), kind="constraint", text=GRAMS, message=message)
    assert preferences(prompt_for(vibe, thread, ana)) == []


def test_made_binding_it_is_a_constraint_and_no_preference(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    say(thread, ana, GRAMS)
    decide_constraint(item=WorkItem.objects.get(), by=access(dora), is_confirmed=True)
    prompt = prompt_for(vibe, thread, ana)
    assert preferences(prompt) == []
    assert [item.section for item in prompt.included if item.section in ("constraints", "preferences")] == [
        "constraints"
    ]


def test_many_take_a_small_part_of_the_prompt_the_newest_first(ana: Member, vibe: Agent, thread: Thread) -> None:
    for number in range(40):
        say(thread, ana, f"Always tell me about step {number} before all the others of the plan.")
    items = [item for item in prompt_for(vibe, thread, ana).included if item.section == "preferences"]
    assert 5 < len(items) < 40
    assert sum(item.tokens for item in items) <= PREFERENCES_CAP
    assert any("step 39 " in item.text for item in items)
