"""What a run is offered, and what a call brings back."""

import pytest
from structlog.testing import capture_logs

from agents.agent.services import save_soul
from agents.models import Agent, LoadedSkill, Run, SoulVersion
from agents.prompts.assembler.stack import REQUIRED_TOKENS
from agents.tools.toolbox import MAX_RESULT_TOKENS, TOOLS, Toolbox
from agents.tools.values import Decision, Tool
from memory.blocks.context_blocks import ContextBlocks
from memory.blocks.values import BlockAuthor
from memory.work.models import Approval, ProgressEntry, WorkItem
from openvibe.chat.models import Thread
from openvibe.engines.llm.tokens import count_tokens, count_tool, counter_for
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.models import Member
from tests.agents.conftest import WriteFile
from tests.agents.tools.tool_calls import call, written
from tests.factories import SOUL, access, attach, make_agent, make_thread, say
from tests.memory.factories import ProgressEntryFactory

EXACT = counter_for("offline")


def names(box: Toolbox) -> list[str]:
    return [spec.name for spec in box.specs]


def test_the_definitions_fit_their_part_of_every_prompt(ana: Member, thread: Thread, skill: WriteFile) -> None:
    skill("pruning", "# Pruning\nIn March.", folder="sage")
    attach(thread, ana, plan_md="Prune in March.")
    box = Toolbox.for_agent(make_agent(ana, "sage", level=3), thread)
    assert names(box) == [tool.name for tool in TOOLS]
    assert sum(count_tool(spec, EXACT) for spec in box.specs) <= REQUIRED_TOKENS["tool definitions"] == 1_300


def test_what_does_not_fit_any_more_is_not_offered(vibe: Agent, thread: Thread, skill: WriteFile) -> None:
    skill("pruning", "# Pruning\nIn March.")
    for n in range(16):
        label = f"bed-{n}-x7k-9vw-3jh-q8z-b5t-x2y-w6p"
        ContextBlocks(vibe.participant, author=BlockAuthor(None, "admin", configures=True)).set(
            label, "x", max_tokens=10
        )
    box = Toolbox.for_agent(vibe, thread)
    assert names(box)[:2] == ["memory", "update_context_block"]
    assert "unload_skill" not in names(box)
    assert sum(count_tool(spec, EXACT) for spec in box.specs) <= 1_300


def test_an_observer_writes_its_own_memory_and_nothing_else(ana: Member, thread: Thread) -> None:
    watcher = make_agent(ana, "watcher", level=1, channel=thread.channel)
    assert names(Toolbox.for_agent(watcher, thread)) == ["memory", "update_context_block", "log_progress"]


def test_skills_are_offered_to_agents_that_have_some(vibe: Agent, thread: Thread, skill: WriteFile) -> None:
    assert "load_skill" not in names(Toolbox.for_agent(vibe, thread))
    skill("pruning", "# Pruning\nIn March.")
    assert {"load_skill", "unload_skill"} <= set(names(Toolbox.for_agent(vibe, thread)))


@pytest.mark.parametrize(
    ("listed", "offered"),
    [("[memory, log_progress]", ["memory", "log_progress"]), ("[a spade, a rake]", None)],
    ids=["names of ours restrict", "other words do not"],
)
def test_a_soul_may_restrict_its_tools(
    ana: Member, vibe: Agent, thread: Thread, listed: str, offered: list[str] | None
) -> None:
    everything = names(Toolbox.for_agent(vibe, thread))
    soul = SOUL.format(name="Vibe") + f"capabilities:\n  tools: {listed}\n"
    save_soul(agent=vibe, by=access(ana), text=soul, note="Fewer tools.", based_on=1)
    vibe.soul = SoulVersion.objects.get(agent=vibe, number=2)
    assert names(Toolbox.for_agent(vibe, thread)) == (offered or everything)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("spade", "{}", "There is no tool"),
        ("log_progress", '{"checkpoint": ', "not valid JSON"),
        ("log_progress", "[1]", "must be a JSON object"),
        ("log_progress", "[" * 100_000, "arguments"),
        ("log_progress", "{}", "checkpoint is missing"),
        ("log_progress", '{"checkpoint": "a", "colour": 1}', "no argument colour"),
        ("log_progress", '{"checkpoint": 3}', "checkpoint must be of type string"),
        ("log_progress", '{"checkpoint": " "}', ""),
        ("work_update", '{"action": "burn"}', "action must be one of: add, done, drop"),
        ("work_update", '{"action": "done", "id": true}', "id must be of type integer"),
        ("work_update", '{"action": "done", "id": 99999999999999999999}', "There is no row"),
        ("work_update", '{"action": "done"}', "by its id"),
        ("work_update", '{"action": "add", "kind": "todo"}', "kind and its text"),
        ("memory", '{"action": "dance"}', 'unknown action "dance", available: status'),
        ("update_context_block", '{"label": "nowhere", "content": "x"}', "label must be one of"),
        ("request_approval", '{"what": ""}', ""),
    ],
)
def test_a_wrong_call_says_what_was_wrong_and_changes_nothing(
    vibe: Agent, thread: Thread, name: str, arguments: str, said: str
) -> None:
    with capture_logs() as logs:
        outcome = Toolbox.for_agent(vibe, thread).execute(written(name, arguments))
    assert outcome.decision == Decision.REFUSED
    assert said in outcome.result
    assert outcome.why
    assert "tool_call_refused" in [line["event"] for line in logs]
    assert not WorkItem.objects.exists()
    assert not ProgressEntry.objects.exists()
    assert not Approval.objects.exists()


def test_a_call_outside_the_list_names_what_is_there(ana: Member, thread: Thread) -> None:
    watcher = make_agent(ana, "watcher", level=1, channel=thread.channel)
    outcome = Toolbox.for_agent(watcher, thread).execute(call("work_update", action="add", kind="todo", text="Prune"))
    assert "Available: memory, update_context_block, log_progress" in outcome.result
    assert not WorkItem.objects.exists()


def test_a_tool_that_breaks_leaves_nothing_behind(vibe: Agent, thread: Thread) -> None:
    def breaks(arguments: dict[str, object]) -> str:
        ProgressEntryFactory.create(thread=thread, checkpoint="half", author=vibe.participant)
        raise RuntimeError("secret inside")

    box = Toolbox(thread, {"breaks": Tool(ToolSpec("breaks", "", {}), breaks)})
    outcome = box.execute(call("breaks"))
    assert "Go on without it" in outcome.result
    assert "secret inside" not in outcome.result
    assert not ProgressEntry.objects.exists()


def test_results_are_cut_masked_and_cleaned(vibe: Agent, thread: Thread) -> None:
    said = "first \x00line\n" + "roses and mulch " * 5_000 + "password=hunter2hunter2 \ud800last line"
    box = Toolbox(thread, {"big": Tool(ToolSpec("big", "", {}), lambda arguments: said)})
    result = box.execute(call("big")).result
    assert count_tokens(result) <= MAX_RESULT_TOKENS
    assert result.startswith("first line")
    assert result.endswith("last line")
    assert "was cut here" in result
    assert "hunter2" not in result


def test_memory_is_searched(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "The mulch is in the shed.")
    outcome = Toolbox.for_agent(vibe, thread).execute(call("memory", action="search", query="mulch"))
    assert outcome.decision == Decision.ALLOWED
    assert "in the shed" in outcome.result


def test_blocks_are_written_and_said_how_full_they_are(vibe: Agent, thread: Thread) -> None:
    label = ContextBlocks(vibe.participant).list()[0].label
    box = Toolbox.for_agent(vibe, thread)
    outcome = box.execute(call("update_context_block", label=label, content="Ana prefers metric."))
    assert outcome.decision == Decision.ALLOWED, outcome.result
    box.execute(call("update_context_block", label=label, content="And short answers.", action="append"))
    block = ContextBlocks(vibe.participant).get(label)
    assert block is not None
    assert block.content == "Ana prefers metric.\nAnd short answers."


def test_work_rows_are_added_done_and_dropped(ana: Member, vibe: Agent, thread: Thread) -> None:
    box = Toolbox.for_agent(vibe, thread)
    added = box.execute(call("work_update", action="add", kind="goal", text="Mulch", done_condition="All beds"))
    row = WorkItem.objects.get()
    assert added.result == f"work:{row.pk} (goal) stands."
    assert row.data == {"done_condition": "All beds"}
    assert box.execute(call("work_update", action="done", id=row.pk)).result == f"work:{row.pk} is done."
    row.refresh_from_db()
    assert row.state == "done"


def test_rows_of_other_threads_are_unknown(ana: Member, vibe: Agent, thread: Thread) -> None:
    other = make_thread(thread.channel, ana, "Other")
    Toolbox.for_agent(vibe, other).execute(call("work_update", action="add", kind="todo", text="Prune"))
    row = WorkItem.objects.get()
    outcome = Toolbox.for_agent(vibe, thread).execute(call("work_update", action="drop", id=row.pk))
    assert outcome.decision == Decision.REFUSED
    row.refresh_from_db()
    assert row.state == "open"


def test_progress_is_logged(vibe: Agent, thread: Thread) -> None:
    Toolbox.for_agent(vibe, thread).execute(call("log_progress", checkpoint="Beds 1-3 done", next_action="Bed 4"))
    entry = ProgressEntry.objects.get()
    assert (entry.checkpoint, entry.next_action, entry.author) == ("Beds 1-3 done", "Bed 4", vibe.participant)


def test_skills_are_taken_up_three_at_a_time_and_put_down(vibe: Agent, thread: Thread, skill: WriteFile) -> None:
    for name in ("one", "two", "three", "four"):
        skill(name, f"# {name}\nText of {name}.")
    box = Toolbox.for_agent(vibe, thread)
    for name in ("one", "two", "three", "three"):
        assert f"Text of {name}." in box.execute(call("load_skill", name=name)).result
    full = box.execute(call("load_skill", name="four"))
    assert (full.decision, "one, two, three" in full.result) == (Decision.REFUSED, True)
    assert box.execute(call("unload_skill", name="two")).decision == Decision.ALLOWED
    assert "Text of four." in box.execute(call("load_skill", name="four")).result
    assert list(LoadedSkill.objects.values_list("name", flat=True)) == ["one", "three", "four"]
    unknown = box.execute(call("load_skill", name="../../etc/passwd"))
    assert (unknown.decision, "Available: four, one" in unknown.result) == (Decision.REFUSED, True)
    assert box.execute(call("unload_skill", name="two")).decision == Decision.REFUSED


def test_what_somebody_wrote_meanwhile_is_not_lost(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = Run.objects.get(trigger=say(thread, ana, "@vibe note it"))
    label = ContextBlocks(vibe.participant).list()[0].label
    box = Toolbox.for_agent(vibe, thread, run=run)
    ContextBlocks(vibe.participant, author=BlockAuthor(ana.participant_id, "page")).set(label, "Ana wrote this.")
    lost = box.execute(call("update_context_block", label=label, content="Mine."))
    assert (lost.decision, "It says now:\nAna wrote this." in lost.result) == (Decision.REFUSED, True)
    assert box.execute(call("update_context_block", label=label, content="Both.")).decision == Decision.ALLOWED
    assert box.execute(call("update_context_block", label=label, content="Again.")).decision == Decision.ALLOWED
    block = ContextBlocks(vibe.participant).get(label)
    assert block is not None
    assert block.content == "Again."


@pytest.mark.parametrize(
    "name", ["log_progress<|channel|>commentary", "functions.log_progress:0", "tools.log_progress"]
)
@pytest.mark.parametrize(
    "arguments",
    [
        '{"checkpoint": "Pruned."}',
        '"{\\"checkpoint\\": \\"Pruned.\\"}"',
        "{'checkpoint': 'Pruned.',}",
        '```json\n{"checkpoint": "Pruned."}\n```',
    ],
)
def test_a_call_with_more_than_the_name_and_odd_arguments_is_executed(
    vibe: Agent, thread: Thread, name: str, arguments: str
) -> None:
    outcome = Toolbox.for_agent(vibe, thread).execute(written(name, arguments))
    assert outcome.decision == Decision.ALLOWED
    assert ProgressEntry.objects.get().checkpoint == "Pruned."


def test_the_tools_of_others_are_given_arguments_by_their_own_schema(thread: Thread) -> None:
    schema = {
        "type": "object",
        "properties": {
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "query": {"type": "string"},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        },
        "$defs": {"tag": {"type": "string"}},
    }
    given: list[dict[str, object]] = []

    def run(arguments: dict[str, object]) -> str:
        given.append(arguments)
        return "Done."

    box = Toolbox(thread, {"far__search": Tool(ToolSpec("far__search", "", schema), run, validates_arguments=True)})
    box.execute(written("far__search", '{"limit": "3", "query": "{\\"a\\": 1}", "tags": "roses"}'))
    box.execute(written("functions.far__search", '{"limit": null, "query": null, "tags": ["a"]}'))
    assert given == [{"limit": 3, "query": '{"a": 1}', "tags": ["roses"]}, {"limit": None, "tags": ["a"]}]
