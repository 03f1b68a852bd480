"""How a dive ends: with a result that stands in its thread, or without one."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.db.utils import ProgrammingError

from agents.models import Agent
from memory.plugins.models import Compaction
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Dive, DiveResult, Mention, Message, ReadMarker, Thread
from openvibe.chat.services import (
    create_reply,
    delete_message,
    discard_dive,
    publish_dive,
    request_draft,
    start_dive,
    update_message,
)
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import remove_member
from tests.concurrency import at_once
from tests.factories import access, say

RESULT = ResultDraft(
    headline="Prune roses in March",
    bullets=("Before the buds open", "With clean shears", "Climbers after they flower"),
    full="Said by Ana, and why.",
    deferred=("The hedge",),
    questions=("Who has the ladder?",),
)
CARD = "**Prune roses in March**\n\n- Before the buds open\n- With clean shears\n- Climbers after they flower"


@pytest.fixture
def dive(ana: Member, vibe: Agent, thread: Thread) -> Dive:
    return start_dive(source=say(thread, ana, "When?"), by=access(ana), agent=vibe.participant)


def now(dive: Dive) -> Dive:
    return Dive.objects.get(pk=dive.pk)


class TestPublishing:
    def test_the_result_stands_in_the_thread_it_started_in(self, ana: Member, dive: Dive) -> None:
        message = publish_dive(dive=dive, by=access(ana), result=RESULT)

        assert (message.thread, message.kind, message.author, message.body) == (
            dive.parent,
            "dive_result",
            ana.participant,
            CARD,
        )
        result = DiveResult.objects.get(message=message)
        assert (result.headline, result.full, result.deferred, result.questions) == (
            RESULT.headline,
            RESULT.full,
            ["The hedge"],
            ["Who has the ladder?"],
        )
        assert result.full_tokens > 0
        assert (now(dive).state, now(dive).result, now(dive).slot) == ("published", message, None)

    def test_it_can_only_be_read_then(self, ana: Member, dive: Dive) -> None:
        message = say(dive.thread, ana, "One more thing")
        publish_dive(dive=dive, by=access(ana), result=RESULT)

        attempts: tuple[Callable[[], object], ...] = (
            lambda: say(dive.thread, ana, "Again"),
            lambda: update_message(message=message, by=access(ana), body="Changed"),
        )
        for attempt in attempts:
            with pytest.raises(Refused, match="published and can only be read"):
                attempt()
        with pytest.raises(Conflict, match="already published"):
            request_draft(dive=dive, by=access(ana))

    def test_nothing_is_published_twice_or_discarded_after(self, ana: Member, dive: Dive) -> None:
        publish_dive(dive=dive, by=access(ana), result=RESULT)
        attempts: tuple[Callable[[], object], ...] = (
            lambda: publish_dive(dive=dive, by=access(ana), result=RESULT),
            lambda: discard_dive(dive=dive, by=access(ana)),
        )
        for attempt in attempts:
            with pytest.raises(Conflict) as error:
                attempt()
            assert error.value.code == "already_published"
        assert Message.objects.filter(kind="dive_result").count() == 1

    def test_one_may_dive_deeper_from_it(self, ana: Member, vibe: Agent, dive: Dive) -> None:
        message = publish_dive(dive=dive, by=access(ana), result=RESULT)
        deeper = start_dive(source=message, by=access(ana), agent=vibe.participant)
        assert (deeper.source, deeper.parent) == (message, dive.parent)

    def test_whoever_had_read_everything_has_read_the_own_card(self, ana: Member, dive: Dive) -> None:
        message = publish_dive(dive=dive, by=access(ana), result=RESULT)
        assert ReadMarker.objects.get(participant=ana.participant, thread=dive.parent).last_read_seq == message.seq

    def test_people_named_in_it_hear_of_it_and_no_agent_answers(
        self, ana: Member, dora: Member, vibe: Agent, dive: Dive
    ) -> None:
        dive.parent.following_agents.add(vibe.participant)
        message = publish_dive(dive=dive, by=access(ana), result=replace(RESULT, headline="@dora and @vibe: in March"))

        assert {mention.participant for mention in Mention.objects.filter(message=message)} == {
            dora.participant,
            vibe.participant,
        }
        assert not vibe.runs.exists()

    def test_the_thread_has_reached_a_milestone(self, ana: Member, dive: Dive) -> None:
        publish_dive(dive=dive, by=access(ana), result=RESULT)
        assert Compaction.objects.get().thread == dive.parent
        assert Compaction.objects.get().trigger == "milestone"

    def test_a_deleted_result_is_gone_with_all_its_parts(self, ana: Member, dive: Dive) -> None:
        message = publish_dive(dive=dive, by=access(ana), result=RESULT)
        delete_message(message=message, by=access(ana))

        assert not DiveResult.objects.exists()
        assert now(dive).state == "published"

    def test_a_result_is_final(self, ana: Member, dive: Dive) -> None:
        message = publish_dive(dive=dive, by=access(ana), result=RESULT)
        with pytest.raises(Refused, match="cannot be edited"):
            update_message(message=message, by=access(ana), body="Prune in May")
        with pytest.raises(ProgrammingError, match="Cannot update"):
            DiveResult.objects.update(headline="Prune in May")

    def test_a_deleted_source_does_not_keep_it_back(self, ana: Member, dive: Dive) -> None:
        delete_message(message=dive.source, by=access(ana))
        assert publish_dive(dive=dive, by=access(ana), result=RESULT).kind == "dive_result"

    def test_not_while_the_agent_writes(self, ana: Member, vibe: Agent, dive: Dive) -> None:
        create_reply(thread=dive.thread, author=vibe.participant, client_id="r")
        attempts: tuple[Callable[[], object], ...] = (
            lambda: publish_dive(dive=dive, by=access(ana), result=RESULT),
            lambda: request_draft(dive=dive, by=access(ana)),
        )
        for attempt in attempts:
            with pytest.raises(Conflict, match="@vibe is still writing") as error:
                attempt()
            assert error.value.code == "being_written"

    @pytest.mark.parametrize(
        ("wrong", "field", "code"),
        [
            ({"headline": "  "}, "headline", "empty"),
            ({"headline": "x" * 121}, "headline", "too_long"),
            ({"headline": "a\x00b"}, "headline", "has_nul"),
            ({"headline": "\u200b"}, "headline", "empty"),
            ({"bullets": ()}, "bullets", "bad_bullets"),
            ({"bullets": ("a", "b")}, "bullets", "bad_bullets"),
            ({"bullets": ("a", "b", " ", "")}, "bullets", "bad_bullets"),
            ({"bullets": tuple("abcdef")}, "bullets", "bad_bullets"),
            ({"bullets": ("a", "b", "c\x00")}, "bullets", "has_nul"),
            ({"bullets": ("a", "b", "c" * 1_001)}, "bullets", "too_long"),
            ({"full": "x" * 10_000_000}, "full", "too_long"),
            ({"full": "\ud800"}, "full", "has_surrogate"),
            ({"deferred": ("a", "b", "c")}, "deferred", "too_many"),
            ({"questions": ("a", "b", "c")}, "questions", "too_many"),
        ],
    )
    def test_a_part_that_is_wrong_is_named(
        self, ana: Member, dive: Dive, wrong: dict[str, str], field: str, code: str
    ) -> None:
        with pytest.raises(Problem) as error:
            publish_dive(dive=dive, by=access(ana), result=replace(RESULT, **wrong))  # type: ignore[arg-type]  # wrong on purpose
        assert (error.value.field, error.value.code) == (field, code)
        assert now(dive).is_active

    def test_blank_lines_of_the_form_are_no_items(self, ana: Member, dive: Dive) -> None:
        draft = replace(RESULT, headline=" Two\nlines ", bullets=("a", "", "b", " ", "c"), full=" ", deferred=("",))
        message = publish_dive(dive=dive, by=access(ana), result=draft)

        assert message.body == "**Two lines**\n\n- a\n- b\n- c"
        assert (message.dive_result.full, message.dive_result.deferred) == ("", [])


class TestWhoMayEndIt:
    ENDINGS: tuple[Callable[[Dive, Member], object], ...] = (
        lambda dive, by: request_draft(dive=dive, by=access(by)),
        lambda dive, by: publish_dive(dive=dive, by=access(by), result=RESULT),
        lambda dive, by: discard_dive(dive=dive, by=access(by)),
    )

    @pytest.mark.parametrize("end", ENDINGS)
    def test_not_another_member(self, dora: Member, dive: Dive, end: Callable[[Dive, Member], object]) -> None:
        with pytest.raises(Refused, match="Only the person who started a dive and admins"):
            end(dive, dora)

    def test_an_admin_ends_what_somebody_left_behind(
        self, ana: Member, dora: Member, vibe: Agent, thread: Thread
    ) -> None:
        dive = start_dive(source=say(thread, dora, "When?"), by=access(dora), agent=vibe.participant)
        remove_member(member=dora, by=access(ana))

        assert publish_dive(dive=dive, by=access(ana), result=RESULT).author == ana.participant

    def test_a_dive_whose_agent_was_deactivated_ends_by_hand(self, ana: Member, vibe: Agent, dive: Dive) -> None:
        Agent.objects.filter(pk=vibe.pk).update(deactivated_at=dive.created_at)

        with pytest.raises(Refused, match="it is deactivated"):
            request_draft(dive=dive, by=access(ana))
        assert publish_dive(dive=dive, by=access(ana), result=RESULT).kind == "dive_result"

    def test_discarding_leaves_what_was_said_to_be_read(self, ana: Member, dive: Dive) -> None:
        message = say(dive.thread, ana, "Never mind")
        discard_dive(dive=dive, by=access(ana))
        discard_dive(dive=dive, by=access(ana))

        assert now(dive).state == "discarded"
        assert Message.objects.get(pk=message.pk).body == "Never mind"
        with pytest.raises(Refused, match="discarded and can only be read"):
            say(dive.thread, ana, "On second thoughts")
        with pytest.raises(Conflict, match="discarded"):
            publish_dive(dive=dive, by=access(ana), result=RESULT)


@pytest.mark.django_db(transaction=True)
def test_published_by_three_at_once_it_is_published_once(ana: Member, dive: Dive) -> None:
    came = at_once(*[lambda: publish_dive(dive=dive, by=access(ana), result=RESULT)] * 3)

    assert came == ["already_published", "already_published", "done"]
    assert DiveResult.objects.count() == Message.objects.filter(kind="dive_result").count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_three_that_start_at_once_one_gets_the_last_place(ana: Member, vibe: Agent, thread: Thread) -> None:
    source = say(thread, ana, "When?")
    for _ in range(6):
        start_dive(source=source, by=access(ana), agent=vibe.participant)

    came = at_once(*[lambda: start_dive(source=source, by=access(ana), agent=vibe.participant)] * 3)

    assert came == ["done", "too_many_dives", "too_many_dives"]
    assert Dive.objects.count() == Thread.objects.exclude(parent=None).count() == 7


@pytest.mark.django_db(transaction=True)
def test_writing_and_publishing_at_once_leave_no_word_after_the_end(ana: Member, dive: Dive) -> None:
    words: list[Callable[[], object]] = [lambda: say(dive.thread, ana, "And this?") for _ in range(4)]
    came = at_once(*words, lambda: publish_dive(dive=dive, by=access(ana), result=RESULT))

    assert set(came) <= {"done", "dive_over"}
    assert not Message.objects.filter(thread=dive.thread, created_at__gt=now(dive).ended_at).exists()
