"""What an agent remembers of its own past: tasks of weight that were done, and what it was trusted with."""

import re
from typing import Any

import pytest

from agents.agent.access import visible_to
from agents.agent.services import set_trust_level
from agents.models import Agent
from agents.prompts.assembler.assemble import assemble
from memory.episodes.services import EPISODE_LIFETIME, give_feedback, withdraw_feedback
from memory.models import Approval, Episode, WorkItem
from memory.work.approvals import decide_approval
from memory.work.services import close_work_item, create_work_item, redact_work_item, reopen_work_item
from openvibe.chat.models import Thread
from openvibe.chat.services import publish_dive, start_dive
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, calling, reply_of, told
from tests.factories import access, make_channel, make_thread, say

DONE = WorkItem.State.DONE


def remembered(agent: Agent, kind: str) -> list[str]:
    return list(
        Episode.objects.of(agent.participant_id).filter(kind=kind).order_by("id").values_list("summary", flat=True)
    )


def in_prompt(agent: Agent, thread: Thread) -> str:
    prompt = assemble(agent=agent, thread=thread, task="mention", request="What did you do?")
    return "\n".join(item.text for item in prompt.included if item.section == "episodes")


def work(thread: Thread, by: Member, kind: str, text: str) -> WorkItem:
    return create_work_item(thread=thread, by=access(by), kind=kind, text=text)


def closing(row: WorkItem) -> tuple[str, dict[str, Any]]:
    return "work_update", {"action": "done", "id": row.pk}


class TestTasksOfWeight:
    def test_a_goal_that_a_run_reached(self, ana: Member, vibe: Agent, thread: Thread) -> None:
        goal = work(thread, ana, "goal", "Order the\ntulip bulbs")
        run = ask(thread, ana)
        told(run, calling(closing(goal), closing(goal)), "They are ordered.")
        assert remembered(vibe, "task_completed") == ["Finished the goal in “Pruning”: “Order the tulip bulbs”"]
        episode = Episode.objects.get()
        assert (episode.subject, episode.thread) == (f"work:{goal.pk}", thread)
        assert episode.expires_at == episode.created_at + EPISODE_LIFETIME
        assert re.search(r"\[TASK COMPLETED\] \(20[\d: -]+\): Finished the goal in “Pruning”", in_prompt(vibe, thread))

    def test_a_routine_success_makes_none(self, ana: Member, vibe: Agent, thread: Thread) -> None:
        first, second = (work(thread, ana, "todo", text) for text in ("Mulch bed 1", "Mulch bed 2"))
        told(ask(thread, ana), calling(closing(first)), "Bed 1 is mulched.")
        assert not Episode.objects.exists()
        told(ask(thread, ana), calling(closing(second)), "So is bed 2.")
        assert remembered(vibe, "task_completed") == ["Finished the last open to-do in “Pruning”: “Mulch bed 2”"]

    def test_what_people_close_is_theirs(self, ana: Member, vibe: Agent, thread: Thread) -> None:
        close_work_item(item=work(thread, ana, "goal", "Order bulbs"), by=access(ana), state=DONE)
        assert not Episode.objects.exists()

    @pytest.mark.parametrize("undo", [reopen_work_item, redact_work_item])
    def test_what_is_open_again_or_deleted_is_not_remembered(
        self, ana: Member, vibe: Agent, thread: Thread, undo: Any
    ) -> None:
        goal = work(thread, ana, "goal", "Order bulbs")
        close_work_item(item=goal, by=visible_to(vibe), state=DONE)
        assert remembered(vibe, "task_completed")
        undo(item=goal, by=access(ana))
        assert not remembered(vibe, "task_completed")

    def test_a_dive_that_was_published(self, ana: Member, vibe: Agent, thread: Thread) -> None:
        dive = start_dive(source=say(thread, ana, "When?"), by=access(ana), agent=vibe.participant)
        publish_dive(dive=dive, by=access(ana), result=ResultDraft("Prune in March", ("A", "B", "C"), ""))
        assert remembered(vibe, "task_completed") == ["Ana published the result of the dive from “Pruning”."]
        assert "Ana published the result of the dive" in in_prompt(vibe, thread)

    def test_an_answer_that_somebody_found_helpful_is_on_record_and_in_no_prompt(
        self, ana: Member, vibe: Agent, thread: Thread
    ) -> None:
        run = ask(thread, ana)
        told(run, "In March.")
        give_feedback(message=reply_of(run), by=access(ana), verdict="up")
        give_feedback(message=reply_of(run), by=access(ana), verdict="up", text="Short and clear.")
        assert remembered(vibe, "task_completed") == ["Ana found the answer in “Pruning” helpful: Short and clear."]
        assert "helpful" not in in_prompt(vibe, thread)
        give_feedback(message=reply_of(run), by=access(ana), verdict="down")
        assert not remembered(vibe, "task_completed")
        give_feedback(message=reply_of(run), by=access(ana), verdict="up")
        withdraw_feedback(message=reply_of(run), by=access(ana))
        assert not remembered(vibe, "task_completed")


class TestTrustChecks:
    def test_a_run_refused_ten_times_makes_one(self, ana: Member, vibe: Agent, thread: Thread) -> None:
        plan = work(thread, ana, "plan", "Dig, then plant")
        close_work_item(item=plan, by=access(ana), state=DONE)
        rule = work(thread, ana, "constraint", "Never spray")
        search = ("knowledge_search", {"query": "Eve's salary"})
        told(ask(thread, ana), calling(*[search] * 10), calling(closing(rule), search), "I may not.")
        assert remembered(vibe, "trust_check") == [
            "Refused in “Pruning”: knowledge_search, which agents have from L3 on; "
            "work_update, for something that only people do."
        ]
        assert "salary" not in in_prompt(vibe, thread)

    def test_the_same_refusal_in_the_next_run_is_the_same_memory(
        self, ana: Member, vibe: Agent, thread: Thread
    ) -> None:
        for _ in range(3):
            told(ask(thread, ana), calling(("knowledge_search", {"query": "x"})), "I may not.")
        assert len(remembered(vibe, "trust_check")) == 1

    def test_a_call_that_was_merely_wrong_is_none(self, ana: Member, vibe: Agent, thread: Thread) -> None:
        told(ask(thread, ana), calling(("spade", {}), ("log_progress", {}), ("work_update", {"action": "done"})), "No.")
        assert not Episode.objects.exists()

    def test_a_change_of_level_is_known_everywhere_and_only_the_last(
        self, ana: Member, vibe: Agent, thread: Thread
    ) -> None:
        set_trust_level(agent=vibe, by=access(ana), level=3, note="Because of Eve's salary")
        set_trust_level(agent=vibe, by=access(ana), level=1, note="Too fast")
        assert remembered(vibe, "trust_check") == ["Ana changed the trust level from L3 Operator to L1 Observer."]
        assert re.search(r"\[TRUST CHECK\] \(20[\d: -]+\): Ana changed the trust level", in_prompt(vibe, thread))

    def test_what_was_decided_is_known_to_the_audience_it_was_asked_before(
        self, ana: Member, vibe: Agent, thread: Thread
    ) -> None:
        private = make_thread(make_channel(ana, "private", private=True), ana, "Salaries")
        private.channel.memberships.create(participant=vibe.participant)
        order = ("request_approval", {"what": "Raise Eve's pay"})
        run = ask(private, ana)
        told(run, calling(order), "I asked.")
        decide_approval(approval=Approval.objects.get(), by=access(ana), is_granted=False, note="Not before May")
        told(run, "Then I wait.")
        said = "Ana denied what was asked for in “Salaries”: “Raise Eve's pay”. Ana wrote: “Not before May”"
        assert remembered(vibe, "trust_check") == [said]
        assert said in in_prompt(vibe, make_thread(private.channel, ana, "Pay"))
        assert not in_prompt(vibe, private)
        assert "Eve" not in in_prompt(vibe, thread)
