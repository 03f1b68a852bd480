"""`read_file`: files of the thread in pieces, nothing from elsewhere, and for whom its results are."""

import re

import pytest

from agents.models import Agent, Run, Snapshot, ToolCall
from agents.prompts.snapshots.origins import DELETED_REASON, NO_ACCESS_REASON
from agents.prompts.snapshots.redaction import read_snapshot, visible_tool_calls
from agents.prompts.snapshots.store import load_content
from agents.tools.toolbox import Toolbox
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, erase_texts, remove_from_channel, start_dive
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, calling, results, told
from tests.agents.tools.tool_calls import call
from tests.factories import access, attach, make_agent, make_channel, make_thread, say

ROWS = "\n".join(f"Row {n}: roses want water <b> & more" for n in range(3_000))
HEAD = re.compile(
    r"log\.txt, characters ([\d,]+) to ([\d,]+) of ([\d,]+)\. (This is its end|Go on with offset (\d+))\.\n"
)


def file_of(message: Message) -> int:
    return int(message.attachments.get().pk)


def read(box: Toolbox, number: int, **arguments: object) -> str:
    outcome = box.execute(call("read_file", id=number, **arguments))
    assert outcome.decision == "allowed", outcome.why
    return outcome.result


def test_a_thread_without_files_offers_no_tool_for_them(ana: Member, vibe: Agent, thread: Thread) -> None:
    assert "read_file" not in Toolbox.for_agent(vibe, thread).tools
    attach(make_thread(thread.channel, ana), ana, plan_md="Prune.")
    assert "read_file" not in Toolbox.for_agent(vibe, thread).tools
    attach(thread, ana, plan_md="Prune.")
    for level in (1, 2, 3, 4):
        vibe.level = level
        assert "read_file" in Toolbox.for_agent(vibe, thread).tools


@pytest.mark.parametrize("limit", [500, 99_999])
def test_pieces_give_back_the_whole_file(ana: Member, vibe: Agent, thread: Thread, limit: int) -> None:
    text = ROWS[:20_000] if limit == 500 else ROWS
    number, box = file_of(attach(thread, ana, log_txt=text)), Toolbox.for_agent(vibe, thread)
    offset, given_back = "0", ""
    while offset:
        result = read(box, number, offset=int(offset), limit=limit)
        head = HEAD.match(result)
        assert head, result[:200]
        assert int(head[1].replace(",", "")) == len(given_back)
        given_back += result[head.end() :]
        assert len(given_back) == int(head[2].replace(",", ""))
        assert count_tokens(result) <= min(limit + 60, 4_000)
        offset = head[5]
    assert given_back == text


def test_words_are_found(ana: Member, vibe: Agent, thread: Thread) -> None:
    number, box = file_of(attach(thread, ana, log_txt=ROWS)), Toolbox.for_agent(vibe, thread)
    assert read(box, number, find="row 2999").splitlines()[1] == "Row 2999: roses want water <b> & more"
    missed = box.execute(call("read_file", id=number, find="tulips"))
    assert (missed.decision, missed.result) == ("refused", "“tulips” is not in this file from character 0 on.")


def test_what_is_not_of_this_thread_is_answered_as_unknown(
    ana: Member, cleo: Member, vibe: Agent, thread: Thread
) -> None:
    attach(thread, ana, plan_md="Prune.")
    deleted = attach(thread, ana, gone_md="Gone.")
    elsewhere = {
        "another thread": file_of(attach(make_thread(thread.channel, ana), ana, a_md="x")),
        "a private channel": file_of(attach(make_thread(make_channel(ana, "b", private=True), ana), ana, a_md="x")),
        "another workspace": file_of(attach(make_thread(make_channel(cleo), cleo), cleo, a_md="x")),
        "a deleted message": file_of(deleted),
        "nowhere": 987_654,
        "below": -1,
        "far above": 2**70,
    }
    delete_message(message=deleted, by=access(ana))
    box = Toolbox.for_agent(vibe, thread)
    for place, number in elsewhere.items():
        outcome = box.execute(call("read_file", id=number))
        expected = ("refused", f"There is no attachment:{number} in this thread.")
        assert (outcome.decision, outcome.result) == expected, place


def test_a_dive_reads_what_it_started_from_and_no_more(ana: Member, vibe: Agent, thread: Thread) -> None:
    other, source = attach(thread, ana, a_md="Other."), attach(thread, ana, b_md="Source.")
    dive = start_dive(source=source, by=access(ana), agent=vibe.participant)
    box = Toolbox.for_agent(vibe, dive.thread)
    assert read(box, file_of(source)).endswith("\nSource.")
    assert box.execute(call("read_file", id=file_of(other))).decision == "refused"


def test_a_run_reads_on_and_its_call_is_for_who_sees_the_thread(
    ana: Member, dora: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    number = file_of(attach(thread, ana, log_txt=ROWS))
    run = ask(thread, ana, "@vibe what is in row 2999?")
    model = told(run, calling(("read_file", {"id": number, "find": "Row 2999"})), "Roses want water.")
    assert run.state == "done", run.error
    assert "Row 2999: roses want water" in results(model.calls[1])[0]
    for reader, is_shown in ((ana, True), (dora, True), (ben, False)):
        (seen,) = visible_tool_calls(run, access(reader))
        assert bool(seen.result) == is_shown


def test_files_leave_stored_prompts_and_calls_with_their_message(ana: Member, vibe: Agent, thread: Thread) -> None:
    message = attach(thread, ana, "Hi.", vault_txt="The vault code is tulip, the fourth drawer holds the key to it.")
    key = f"file:{message.pk}:{file_of(message)}"
    run = ask(thread, ana, "@vibe what is the code?")
    told(run, calling(("read_file", {"id": file_of(message)})), "I see.")
    view = read_snapshot(run, access(ana))
    assert view is not None
    assert {item.key: item.hidden for part in view.sections for item in part.items}[key] == ""
    assert "tulip" in stored_words(run)

    delete_message(message=message, by=access(ana))
    view = read_snapshot(run, access(ana))
    assert view is not None
    assert {item.key: item.hidden for part in view.sections for item in part.items}[key] == DELETED_REASON
    assert "tulip" not in "".join(message.content for message in view.messages)
    erase_texts()
    assert "tulip" not in stored_words(run)


def stored_words(run: Run) -> str:
    prompt = load_content(Snapshot.objects.get(run=run))
    return f"{prompt} {[(row.arguments, row.result) for row in ToolCall.objects.filter(run=run)]}"


def test_a_file_is_hidden_from_who_does_not_see_its_message(ana: Member, dora: Member, vibe: Agent) -> None:
    private = make_channel(ana, "board", private=True)
    sol = make_agent(ana, "sol", level=4, channel=private)
    thread = make_thread(private, ana)
    message = attach(thread, ana, "Hi.", plan_md="Prune in March.")
    run = ask(thread, ana, "@sol what does it say?")
    told(run, "I see.")
    view = read_snapshot(run, access(dora))
    assert view is not None
    hidden = {item.key: item.hidden for part in view.sections for item in part.items}
    assert hidden[f"file:{message.pk}:{file_of(message)}"] == NO_ACCESS_REASON
    remove_from_channel(channel=private, participant=sol.participant, by=access(ana))
    assert say(thread, ana, "@sol?").mentions.get().note
