"""What prompts show of files: small ones near the request whole, of others the first lines, and never too much."""

import json

import pytest

from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.items import Item
from agents.tools.toolbox import Toolbox
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, set_thread_access, start_dive
from openvibe.engines.llm.tokens import count_prompt_tokens, count_tokens
from openvibe.engines.llm.values import ToolCallRequest
from openvibe.workspaces.models import Member
from tests.factories import access, attach, make_agent, make_channel, make_thread, say

WHOLE, FIRST_LINES, READ_ON = "The whole file:", "Its first lines:", "[… read on with read_file …]"


def rows(count: int) -> str:
    return "\n".join(f"Row {n}: roses want water" for n in range(count))


def prompt_for(
    agent: Agent, request: Message, task: str = "thread", budget: int | None = None, model: str = ""
) -> Prompt:
    thread = request.thread
    tools = () if task == "publish" else Toolbox.for_agent(agent, thread).specs
    prompt = assemble(
        agent=agent, thread=thread, task=task, request=request, tools=tools, budget=budget, model=model or None
    )
    assert count_prompt_tokens(prompt.messages, prompt.tools, prompt.counter) == prompt.tokens <= prompt.ceiling
    return prompt


def files_of(prompt: Prompt) -> dict[str, Item]:
    """The item of each file in the prompt, by the name in its line."""
    file_items = [item for item in prompt.included if item.section == "files"]
    assert all((item.trust, item.role) == ("untrusted", "user") for item in file_items)
    return {item.text.partition(", ")[2].partition(" [")[0]: item for item in file_items}


def test_a_small_file_stands_whole_while_it_is_near(ana: Member, vibe: Agent, thread: Thread) -> None:
    source = attach(thread, ana, "The plan.", plan_md="# Plan\n  if x < 3 & y:\n    prune()")
    file = source.attachments.get()
    question = say(thread, ana, "@vibe what does it say?")

    item = files_of(prompt_for(vibe, question))["plan.md"]
    assert item.text.splitlines() == [
        f"attachment:{file.pk} Ana, plan.md [file of message 1, {source.created_at:%Y-%m-%d %H:%M}, "
        f"{file.token_count} tokens]: The whole file:",
        "  # Plan",
        "    if x < 3 & y:",
        "      prune()",
    ]
    last = prompt_for(vibe, question).messages[-2]
    assert f'<messages trust="untrusted" attached="yes">\n{item.text}</messages>' in last.content


def test_of_a_larger_or_older_file_the_first_lines_stand(ana: Member, vibe: Agent, thread: Thread) -> None:
    attach(thread, ana, old_txt=rows(150), tiny_txt="All of it.")
    for n in range(5):
        say(thread, ana, f"Between {n}.")
    attach(thread, ana, new_txt=rows(150), large_txt=rows(260), huge_log="\n".join([rows(2_000)] * 2))
    question = say(thread, ana, "@vibe what do they say?")

    files = files_of(prompt_for(vibe, question))
    assert {name: WHOLE in item.text for name, item in files.items()} == {
        "old.txt": False,
        "tiny.txt": True,
        "new.txt": True,
        "large.txt": False,
        "huge.log": False,
    }
    for name in ("old.txt", "large.txt", "huge.log"):
        lines = files[name].text.splitlines()
        assert lines[0].endswith(FIRST_LINES)
        assert (lines[1], lines[-1].strip()) == ("  Row 0: roses want water", READ_ON)
        assert 150 <= files[name].tokens <= 290, name


def test_without_the_tool_nobody_is_told_to_use_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    dive = start_dive(source=attach(thread, ana, big_txt=rows(400)), by=access(ana), agent=vibe.participant)
    question = say(dive.thread, ana, "Go on.")
    assert READ_ON in files_of(prompt_for(vibe, question, "dive"))["big.txt"].text
    text = files_of(prompt_for(vibe, question, "publish"))["big.txt"].text
    assert "read_file" not in text
    assert text.rstrip().endswith("[… the rest is not shown …]")


def test_many_files_are_named_and_never_fill_the_prompt(ana: Member, vibe: Agent, thread: Thread) -> None:
    for n in range(6):
        attach(thread, ana, f"Part {n}.", **{f"{letter}{n}_txt": rows(100 + 60 * n) for letter in "abcd"})
    question = say(thread, ana, "@vibe what do they say?")
    for task in ("mention", "thread"):
        prompt = prompt_for(vibe, question, task)
        files = files_of(prompt)
        assert list(files)[:5] == ["a5.txt", "b5.txt", "c5.txt", "d5.txt", "a4.txt"]
        assert (len(files), FIRST_LINES in files["a4.txt"].text, FIRST_LINES in files["d1.txt"].text) == (
            20,
            True,
            False,
        )
        assert sum(item.tokens for item in files.values()) <= 2_400 + 700
        assert not [left for left in prompt.dropped if left.section == "files"]
    for ceiling in range(1_800, 8_000, 1_500):
        for model in ("gpt-4", "somebodys-own-model"):
            small = prompt_for(vibe, question, "mention", budget=ceiling, model=model)
            assert sum(item.tokens for item in files_of(small).values()) <= ceiling // 3 + 700


def test_a_dive_shows_its_own_files_and_those_it_started_from(ana: Member, vibe: Agent, thread: Thread) -> None:
    attach(thread, ana, other_md="Not of the dive.")
    source = attach(thread, ana, source_md="Of the source.")
    for n in range(9):
        say(thread, ana, f"Between {n}.")
    dive = start_dive(source=source, by=access(ana), agent=vibe.participant)
    attach(dive.thread, ana, "And this.", own_md="Of the dive.")
    files = files_of(prompt_for(vibe, say(dive.thread, ana, "Compare."), "dive"))
    assert set(files) == {"source.md", "own.md"}
    assert "[file of the message this dive started from, " in files["source.md"].text
    assert set(files_of(prompt_for(vibe, say(thread, ana, "@vibe hi")))) == {"source.md", "other.md"}


def test_only_files_of_this_thread_that_still_stand_are_shown(ana: Member, vibe: Agent, thread: Thread) -> None:
    attach(make_thread(thread.channel, ana, "Elsewhere"), ana, elsewhere_md="x")
    attach(make_thread(make_channel(ana, "board", private=True), ana), ana, private_md="x")
    delete_message(message=attach(thread, ana, deleted_md="x"), by=access(ana))
    attach(thread, ana, env_md="password=hunter22 and ghp_" + "a1B2" * 9)
    question = say(thread, ana, "@vibe what do they say?")
    files = files_of(prompt_for(vibe, question))
    assert list(files) == ["env.md"]
    assert files["env.md"].text.endswith("password=[secret removed] and [secret removed]\n")


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_every_level_that_sees_the_message_sees_its_files(ana: Member, thread: Thread, level: int) -> None:
    agent = make_agent(ana, "sol", level=level, channel=thread.channel)
    attach(thread, ana, plan_md="Prune.")
    question = say(thread, ana, "@sol what does it say?")
    assert list(files_of(prompt_for(agent, question, "mention"))) == ["plan.md"]
    set_thread_access(thread=thread, by=access(ana), access=Thread.Access.HUMAN_ONLY, allowed_agents=[])
    assert "read_file" not in [spec.name for spec in Toolbox.for_agent(agent, thread).specs]


def test_text_not_sent_yet_reads_what_is_near_the_end(ana: Member, vibe: Agent, thread: Thread) -> None:
    attach(thread, ana, old_txt=rows(100))
    for n in range(6):
        say(thread, ana, f"Between {n}.")
    attach(thread, ana, new_txt=rows(100))
    prompt = assemble(agent=vibe, thread=thread, task="mention", request="@vibe well?", asked_by=ana.participant)
    assert {name: WHOLE in item.text for name, item in files_of(prompt).items()} == {"old.txt": False, "new.txt": True}
    assert count_tokens(rows(100)) > 200


def test_a_secret_in_a_files_name_reaches_no_prompt_and_no_tool(ana: Member, vibe: Agent, thread: Thread) -> None:
    message = attach(thread, ana, **{"key-of-ana ghp_" + "a1B2c3D4e5" * 4 + "_md": "# Notes"})

    prompt = prompt_for(vibe, say(thread, ana, "@vibe what does it say?"))
    call = ToolCallRequest("c1", "read_file", json.dumps({"id": message.attachments.get().pk}))
    outcome = Toolbox.for_agent(vibe, thread).execute(call)

    assert "ghp_" not in str([message.content for message in prompt.messages])
    assert "Ana, key-of-ana secret removed .md [" in str(prompt.messages)
    assert "ghp_" not in outcome.result
    assert "key-of-ana [secret removed].md" in outcome.result
