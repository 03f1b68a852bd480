"""`context show`: the same prompt as everywhere, printed."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from agents.models import Agent, Snapshot
from agents.prompts.assembler.assemble import assemble
from agents.tools.toolbox import Toolbox
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.factories import make_channel, make_thread, say, say_all


def show(thread: Thread, *more: str, agent: str = "vibe") -> str:
    output = io.StringIO()
    call_command("context", "show", "--agent", agent, "--thread", str(thread.pk), *more, stdout=output)
    return output.getvalue()


@pytest.mark.parametrize("task", ["mention", "thread"])
def test_json_fits_the_ceiling_and_adds_up(ana: Member, vibe: Agent, thread: Thread, task: str) -> None:
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch " * 60 for n in range(40)))
    say(thread, ana, "@vibe what do roses want?")
    answer = json.loads(show(thread, "--task", task, "--json"))
    assert set(answer) == {
        "messages",
        "tools",
        "tokens",
        "budget",
        "counter",
        "model",
        "layers",
        "dropped",
        "prefix_shared",
    }
    assert 0 < answer["tokens"] <= answer["budget"] == {"mention": 8_000, "thread": 15_000}[task]
    assert sum(layer["tokens"] for layer in answer["layers"]) == answer["tokens"]
    assert [layer["layer"] for layer in answer["layers"]] == ["P0", "P1", "P2", "P3", "P4", "P5", "P6", "frame"]
    assert {d["reason"] for d in answer["dropped"]} <= {"over budget", "superseded"}
    prompt = assemble(agent=vibe, thread=thread, task=task, tools=Toolbox.for_agent(vibe, thread).offered_specs)
    assert [m["content"] for m in answer["messages"]] == [m.content for m in prompt.messages]
    assert not Snapshot.objects.exists()


def test_in_words(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "The roses froze in March.")
    said = show(thread, "--request", "When did they freeze?", agent="@vibe")
    assert said.startswith("mention · offline · ")
    assert "Nothing was left out." in said
    assert "The roses froze in March." in said
    assert "When did they freeze?" in said


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--agent", "fern"], "There is no agent @fern in Ana's garden"),
        (["--thread", "0"], "There is no thread 0"),
        (["--workspace", "nowhere"], "in workspace 'nowhere'"),
        (["--budget", "10"], "need"),
    ],
)
def test_what_cannot_be_shown_gets_a_sentence(
    ana: Member, vibe: Agent, thread: Thread, more: list[str], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        show(thread, *more)


def test_a_thread_the_agent_may_not_see_says_why(ana: Member, vibe: Agent) -> None:
    elsewhere = make_thread(make_channel(ana, "elsewhere"), ana)
    with pytest.raises(CommandError, match=r"@vibe \(L2\) may not see thread .* Add it to #elsewhere"):
        show(elsewhere)
