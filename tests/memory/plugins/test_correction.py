"""A member corrects a summary: prompts say it from then on, what it said is kept, and a deletion takes both."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, transaction
from django.test import Client

from agents.models import Agent
from memory.plugins.lcm.integrity import find_violations
from memory.plugins.lcm.models import STALE_CONTENT, Summary, SummaryCorrection
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.models import Compaction
from memory.plugins.services import correct_summary
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Erasure, Message, Thread
from openvibe.chat.services import delete_message, erase_texts
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member
from tests.api.client import Api, is_problem
from tests.factories import access, say, signed_in
from tests.memory.plugins.lcm.factories import condensed, leaf, session_of, taken_in, told

RIGHT = "Ana said <b>May</b>, not March & not April."


@pytest.fixture
def summary(thread: Thread, ana: Member, vibe: Agent) -> Summary:
    told(thread, ana.participant, *(f"Roses of bed {n} are pruned in May." for n in range(1, 61)))
    return leaf(taken_in(thread), 1, 10, "Ana said to prune the roses in March.")


def corrected(thread: Thread, by: Member, summary: Summary, content: str = RIGHT, version: int = 1) -> Summary:
    correct_summary(thread=thread, by=access(by), summary_id=summary.pk, content=content, version=version)
    summary.refresh_from_db()
    return summary


def test_prompts_say_what_a_member_wrote_and_what_it_said_before_is_kept(
    thread: Thread, summary: Summary, dora: Member, vibe: Agent
) -> None:
    corrected(thread, dora, summary)
    assert (summary.content, summary.token_count, summary.level) == (RIGHT, count_tokens(RIGHT), "corrected")
    row = SummaryCorrection.objects.get()
    assert (row.author, row.previous, row.content) == (dora.participant, "Ana said to prune the roses in March.", RIGHT)
    entries = LcmProvider().assemble(session_of(thread, vibe.participant), 15_000, 20)
    assert entries[0].text == RIGHT
    assert find_violations(thread.pk) == []


def test_a_stale_version_is_refused_and_nothing_is_lost(thread: Thread, summary: Summary, ana: Member) -> None:
    corrected(thread, ana, summary)
    with pytest.raises(Conflict, match="written anew while you"):
        corrected(thread, ana, summary, "Something else.")
    summary.refresh_from_db()
    assert summary.content == RIGHT
    assert corrected(thread, ana, summary, "Ana said May.", version=2).version == 3
    assert SummaryCorrection.objects.count() == 2


def test_the_same_text_again_changes_nothing(thread: Thread, summary: Summary, ana: Member) -> None:
    assert corrected(thread, ana, summary, summary.content).version == 1
    assert not SummaryCorrection.objects.exists()


@pytest.mark.parametrize(("text", "code"), [("", "empty"), ("\u200b \n", "empty"), ("word " * 1_300, "too_long")])
def test_what_cannot_be_a_summary_is_refused(
    thread: Thread, summary: Summary, ana: Member, text: str, code: str
) -> None:
    with pytest.raises(Problem) as error:
        corrected(thread, ana, summary, text)
    assert error.value.code == code


def test_secrets_are_masked(thread: Thread, summary: Summary, ana: Member) -> None:
    assert "sk-" not in corrected(thread, ana, summary, f"The key is sk-{'a1' * 20}.").content


def test_what_stands_above_is_written_anew(thread: Thread, summary: Summary, ana: Member) -> None:
    conversation = summary.conversation
    above = condensed(conversation, [summary, leaf(conversation, 11, 20, "Roses again.")], "Ana said March.")
    corrected(thread, ana, summary)
    above.refresh_from_db()
    assert (above.stale, above.content, summary.stale) == (True, STALE_CONTENT, False)
    assert Compaction.objects.get().trigger == "changed"
    assert find_violations(thread.pk) == []


def test_a_deletion_takes_the_correction_and_what_was_there_before(
    thread: Thread, summary: Summary, ana: Member
) -> None:
    corrected(thread, ana, summary)
    delete_message(message=Message.objects.get(thread=thread, seq=3), by=access(ana))
    summary.refresh_from_db()
    assert summary.content == STALE_CONTENT
    row = SummaryCorrection.objects.get()
    assert (row.author, row.previous, row.content) == (ana.participant, "", "")
    with pytest.raises(Conflict):
        corrected(thread, ana, summary, "Too late.", version=summary.version)


def test_words_of_a_later_message_go_with_that_message(thread: Thread, summary: Summary, ana: Member) -> None:
    words = "The northern greenhouse is sold for forty thousand to the Ortega family."
    conversation = taken_in(thread)
    container = condensed(
        conversation, [summary, leaf(conversation, 11, 20, "Roses of beds 11 to 20 are pruned in May.")]
    )
    message = say(thread, ana, words)
    corrected(thread, ana, summary, f"Ana said to prune in May. {words}")
    Summary.objects.filter(pk=container.pk).update(stale=False, content=f"Sold: {words}", level="normal")
    delete_message(message=message, by=access(ana))
    erase_texts()
    assert set(Summary.objects.filter(pk__in=[summary.pk, container.pk]).values_list("content", "stale")) == {
        (STALE_CONTENT, True)
    }
    assert not SummaryCorrection.objects.exclude(previous="", content="").exists()
    assert find_violations(thread.pk) == []


def test_a_summary_written_anew_is_left_alone_where_others_still_say_the_same(
    thread: Thread, summary: Summary, ana: Member
) -> None:
    """The summary's words are those of messages that stand: writing it anew in each pass would bring the same, at a
    price."""
    words = "Nobody objected to that in the round, and the plan for the summer stays as it was agreed."
    first, *_ = told(thread, ana.participant, *(f"Bed {n}. {words}" for n in range(1, 11)))
    quoting = leaf(taken_in(thread), 61, 70, "Placeholder.")
    delete_message(message=first, by=access(ana))
    Summary.objects.filter(pk=quoting.pk).update(stale=False, content=f"Ana: {words}", level="normal", version=2)
    erase_texts()
    erase_texts()
    quoting.refresh_from_db()
    assert (quoting.content, quoting.stale, quoting.version) == (f"Ana: {words}", False, 2)
    assert "summaries" not in Erasure.objects.get().counts


def test_guests_agents_and_strangers_cannot(
    thread: Thread, summary: Summary, vibe: Agent, ben: Member, cleo: Member
) -> None:
    agent = session_of(thread, vibe.participant).access
    for by, error in ((agent, Refused), (access(ben), (Refused, Missing)), (access(cleo), Missing)):
        with pytest.raises(error):
            correct_summary(thread=thread, by=by, summary_id=summary.pk, content=RIGHT, version=1)
    summary.refresh_from_db()
    assert summary.version == 1


def test_the_database_refuses_a_rewriting_that_is_no_correction(summary: Summary) -> None:
    for change in ({"content": "Other words."}, {"content": "Other words.", "level": "corrected"}):
        with pytest.raises(DatabaseError), transaction.atomic():
            Summary.objects.filter(pk=summary.pk).update(**change)


def test_on_the_page(thread: Thread, summary: Summary, ana: Member) -> None:
    client, address = Client(), f"/w/{ana.workspace.slug}/t/{thread.pk}/memory/{summary.pk}/"
    client.force_login(ana.user)
    assert "Correct this summary" in client.get(address).content.decode()
    assert client.post(f"{address}correct/", {"content": RIGHT, "version": "1"}).status_code == 302
    page = " ".join(client.get(address).content.decode().split())
    assert "Ana said &lt;b&gt;May&lt;/b&gt;, not March &amp; not April." in page
    assert "corrected by Ana" in page
    assert "Before that it said:" in page
    response = client.post(f"{address}correct/", {"content": "Too <late>.", "version": "1"})
    assert response.status_code == 409
    assert "Too &lt;late&gt;.</textarea>" in response.content.decode()
    assert "was written anew while you were correcting it" in response.content.decode()
    empty = client.post(f"{address}correct/", {"content": " \u200b", "version": "2"})
    assert empty.status_code == 400
    assert "A summary needs some words. Nothing was changed." in empty.content.decode()
    assert client.post(f"{address}correct/", {"content": "", "version": "x"}).status_code == 400


def test_the_page_says_that_a_correction_went_with_a_deleted_message(
    thread: Thread, summary: Summary, ana: Member
) -> None:
    corrected(thread, ana, summary)
    page, gone = f"/w/{ana.workspace.slug}/t/{thread.pk}/memory/{summary.pk}/", "The correction went with it"
    assert gone not in signed_in(ana).get(page).content.decode()
    delete_message(message=Message.objects.get(thread=thread, seq=3), by=access(ana))
    assert gone in signed_in(ana).get(page).content.decode()
    Summary.objects.filter(pk=summary.pk).update(stale=False, content="Ana: in May.", level="normal", version=3)
    assert gone in signed_in(ana).get(page).content.decode()


def test_through_the_api(thread: Thread, summary: Summary, ana: Member) -> None:
    client = Client()
    client.force_login(ana.user)
    api, path = Api(client, {"X-Workspace": ana.workspace.slug}), f"memory/summaries/{summary.pk}/"
    data = api.get(f"{path}?thread={thread.pk}").json()
    assert (data["version"], data["corrections"]) == (1, [])
    body = {"thread": thread.pk, "version": 1, "content": RIGHT}
    written = api.patch(path, body).json()
    assert (written["version"], written["content"], written["level"]) == (2, RIGHT, "corrected")
    assert [(one["author"], one["content"]) for one in written["corrections"]] == [("Ana", RIGHT)]
    assert is_problem(api.patch(path, body), 409, "changed_meanwhile")
    assert is_problem(api.patch("memory/summaries/987654321/", body), 404, "not_found")
