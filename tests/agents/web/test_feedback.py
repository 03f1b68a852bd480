"""👍 and 👎 on a reply, what becomes of them, and who may say so."""

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from agents.models import Agent, Run
from agents.prompts.assembler.assemble import assemble
from memory.episodes.models import Episode, Feedback
from memory.episodes.queries import FeedbackSummary, feedback_by_message
from memory.episodes.services import give_feedback
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member
from tests.factories import access, signed_in

HTMX = {"HX-Request": "true"}


def address(member: Member, message: Message | None) -> str:
    assert message is not None
    return f"/w/{member.workspace.slug}/m/{message.pk}/feedback/"


def test_a_thumb_down_with_words_reaches_the_next_prompt(
    ana: Member, answered: Run, vibe: Agent, thread: Thread
) -> None:
    client = signed_in(ana)
    fragment = client.post(address(ana, answered.reply), {"verdict": "down"}, headers=HTMX)
    assert "open data-just-given>" in fragment.content.decode()
    words = {"verdict": "down", "text": "Give the source.", "tags": ["inaccurate"]}
    fragment = client.post(address(ana, answered.reply), words, headers=HTMX)
    assert "Recorded" in fragment.content.decode()
    prompt = assemble(agent=vibe, thread=thread, task="mention", request="and now?", asked_by=ana.participant)
    assert any("Give the source." in message.content for message in prompt.messages)


def test_a_thread_with_a_thumb_down_opens(ana: Member, answered: Run) -> None:
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(ana), verdict="down", text="Shorter.")
    response = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{answered.thread_id}/")
    assert response.status_code == 200
    assert "Recorded" in response.content.decode()


def test_without_javascript_one_comes_back_to_the_message(ana: Member, answered: Run) -> None:
    response = signed_in(ana).post(address(ana, answered.reply), {"verdict": "up"})
    assert response.status_code == 302
    assert Feedback.objects.get().verdict == "up"


def test_a_verdict_can_be_changed_and_taken_back(ana: Member, answered: Run) -> None:
    client = signed_in(ana)
    client.post(address(ana, answered.reply), {"verdict": "down"}, headers=HTMX)
    client.post(address(ana, answered.reply), {"verdict": "up"}, headers=HTMX)
    assert Episode.objects.get(kind="feedback_received").applied_how == "withdrawn"
    client.post(address(ana, answered.reply), {"verdict": "none"}, headers=HTMX)
    assert not Feedback.objects.exists()


def test_marked_applied_it_says_by_whom_and_can_be_reopened(ana: Member, dora: Member, answered: Run) -> None:
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(dora), verdict="down", text="Shorter.")
    episode = Episode.objects.get(kind="feedback_received")
    slug = ana.workspace.slug
    fragment = signed_in(ana).post(f"/w/{slug}/episodes/{episode.pk}/applied/", headers=HTMX)
    assert "Applied by Ana" in fragment.content.decode()
    fragment = signed_in(ana).post(f"/w/{slug}/episodes/{episode.pk}/reopen/", headers=HTMX)
    assert "Recorded" in fragment.content.decode()
    for verb in ("applied", "reopen"):
        back = signed_in(ana).post(f"/w/{slug}/episodes/{episode.pk}/{verb}/", {"on": "agent"})["Location"]
        assert back == f"/w/{slug}/agents/vibe/#agent-memory", "among what it remembers, not at the top of a long page"


def test_only_the_giver_and_admins_settle(dora: Member, ana: Member, answered: Run) -> None:
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(ana), verdict="down", text="Shorter.")
    episode = Episode.objects.get(kind="feedback_received")
    response = signed_in(dora).post(f"/w/{ana.workspace.slug}/episodes/{episode.pk}/applied/", headers=HTMX)
    assert response.status_code == 403
    assert Episode.objects.get(kind="feedback_received").applied_at is None


@pytest.mark.parametrize("who", ["ben", "cleo"])
def test_who_may_not_read_it_gets_the_answer_for_unknown(
    who: str, ana: Member, answered: Run, request: pytest.FixtureRequest
) -> None:
    stranger: Member = request.getfixturevalue(who)
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(ana), verdict="down")
    client, slug, own = signed_in(stranger), ana.workspace.slug, stranger.workspace.slug
    episode = Episode.objects.get(kind="feedback_received")
    for home in {slug, own}:
        unknown = client.post(f"/w/{home}/m/999999/feedback/", {"verdict": "up"})
        foreign = client.post(f"/w/{home}/m/{answered.reply.pk}/feedback/", {"verdict": "up"})
        assert (unknown.status_code, foreign.status_code) == (404, 404)
        for verb in ("applied", "reopen", "delete"):
            assert client.post(f"/w/{home}/episodes/{episode.pk}/{verb}/").status_code == 404
    assert Feedback.objects.count() == 1


def test_signed_out_goes_to_the_door(client: Client, ana: Member, answered: Run) -> None:
    response = client.post(address(ana, answered.reply), {"verdict": "up"})
    assert (response.status_code, b"/accounts/login/?next=" in response.content) == (401, True)


def test_a_bad_verdict_is_a_sentence(ana: Member, answered: Run) -> None:
    response = signed_in(ana).post(address(ana, answered.reply), {"verdict": "sideways"}, headers=HTMX)
    assert response.status_code == 400
    assert "up or down" in response.content.decode()


def test_too_many_words_keep_the_form_open(ana: Member, answered: Run) -> None:
    words = {"verdict": "down", "text": "x" * 2001}
    page = signed_in(ana).post(address(ana, answered.reply), words, headers=HTMX).content.decode()
    assert 'role="alert"' in page


def test_one_query_whatever_the_number_of_messages(
    ana: Member, dora: Member, answered: Run, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for member in (ana, dora):
        assert answered.reply is not None
        give_feedback(message=answered.reply, by=access(member), verdict="down")
    messages = list(Message.objects.select_related("author"))
    with django_assert_num_queries(1):
        extras = feedback_by_message(messages, access(ana))
    summary = extras[answered.reply.pk]["feedback"] if answered.reply else None
    assert isinstance(summary, FeedbackSummary)
    assert (summary.down, len(summary.statuses), summary.verdict) == (2, 2, "down")
