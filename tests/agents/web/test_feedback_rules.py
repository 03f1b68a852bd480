"""The way of *Apply always*: feedback becomes a rule in the SOUL, linked both ways, and leaves the prompts."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django.fixtures import DjangoAssertNumQueries

from agents.agent.rule_drafts import draft_rule
from agents.agent.services import restore_soul
from agents.agent.soul.parser import parse_soul
from agents.agent.soul.rules import SoulRule
from agents.models import Agent, Run, SoulVersion
from memory.episodes.models import Episode
from memory.episodes.services import give_feedback
from openvibe.api.services import issue_token
from openvibe.base.models import AuditRecord
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel, Message, Thread
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.workspaces.models import Member, Spending
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.scripted_client import ScriptedModel
from tests.factories import access, signed_in


@pytest.fixture
def feedback(answered: Run, dora: Member) -> Episode:
    """Dora's reason on Vibe's answer."""
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(dora), verdict="down", text="Never invent a month.")
    return Episode.objects.select_related("feedback__message").get(kind="feedback_received")


def address(episode: Episode) -> str:
    slug = episode.agent.workspace.slug
    return f"/w/{slug}/agents/{episode.agent.handle}/feedback/{episode.pk}/always/"


def send(client: Client, episode: Episode, **fields: Any) -> Any:
    typed = {"rule": "invent a month", "place": "never", "note": "Dora is right", "based_on": 1, "question": "Who?"}
    return client.post(address(episode), typed | fields)


def test_the_rule_is_shown_tried_saved_and_linked_both_ways(
    ana: Member, feedback: Episode, vibe: Agent, thread: Thread
) -> None:
    client = signed_in(ana)
    assert feedback.feedback is not None
    chip = client.get(f"/w/{ana.workspace.slug}/t/{thread.pk}/").content.decode()
    assert address(feedback) in chip
    page = client.get(address(feedback)).content.decode()
    assert "invent a month</textarea>" in page
    assert "<ins>invent a month</ins>" in page
    assert "From Dora&#x27;s feedback: “Never invent a month.”" in page
    response = client.post(
        address(feedback), {"rule": "guess", "place": "never", "based_on": 1, "show": 1}, headers={"HX-Request": "true"}
    )
    assert "<ins>guess</ins>" in response.content.decode()
    assert "As it is now, version 1" in send(client, feedback, **{"try": "1"}).content.decode()
    assert (SoulVersion.objects.count(), Episode.objects.open_feedback().count()) == (1, 1)
    assert send(client, feedback).status_code == 302
    newest = SoulVersion.objects.get(agent=vibe, number=2)
    assert parse_soul(newest.source).constraints.never_do[-1:] == ("invent a month",)
    assert AuditRecord.objects.filter(action="soul", note="Dora is right", after="version 2").count() == 1
    feedback.refresh_from_db()
    assert (feedback.applied_how, feedback.soul_version, feedback.applied_by) == ("soul", 2, ana.participant)
    assert not Episode.objects.of(vibe.participant_id).open_feedback().exists()
    assert "Applied in SOUL version 2" in client.get(f"/w/{ana.workspace.slug}/t/{thread.pk}/").content.decode()
    about = client.get(f"/w/{ana.workspace.slug}/agents/vibe/").content.decode()
    assert f'/m/{feedback.feedback.message_id}/">Feedback from Dora</a>' in about
    for based_on in (1, 2):  # the same form sent twice, and a page opened anew
        again = send(client, feedback, rule="other", based_on=based_on)
        assert again.status_code == 422
        assert "This feedback is settled already. Nothing more was saved." in again.content.decode()
        assert "other</textarea>" in again.content.decode()
    assert SoulVersion.objects.count() == 2


def test_one_rule_answers_several_and_an_earlier_version_opens_them_again(
    ana: Member, feedback: Episode, vibe: Agent, answered: Run
) -> None:
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(ana), verdict="down", text="Which month?")
    other = Episode.objects.get(summary="Which month?")
    send(signed_in(ana), feedback, others=[other.pk])
    assert set(Episode.objects.values_list("soul_version", flat=True)) == {2}
    restore_soul(version=SoulVersion.objects.get(number=1), by=access(ana), based_on=2)
    assert Episode.objects.of(vibe.participant_id).open_feedback().filter(soul_version=None).count() == 2


def test_each_piece_of_feedback_names_the_answer_it_is_about(
    ana: Member, feedback: Episode, answered: Run, thread: Thread, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    assert answered.reply is not None
    Message.objects.filter(pk=answered.reply.pk).update(body="In **March**, " + "when the buds swell " * 9)
    client = signed_in(ana)
    links = []
    for n in range(3):
        reply = Message.objects.create(thread=thread, author=answered.reply.author, seq=100 + n, body=f"Bed <b>{n}</b>")
        give_feedback(message=reply, by=access(ana), verdict="down", text=f"Which bed, {n}?")
        links.append(f'About <a href="/w/{ana.workspace.slug}/m/{reply.pk}/">“Bed &lt;b&gt;{n}&lt;/b&gt;”</a>')
        if n == 0:
            client.get(address(feedback))
            with CaptureQueriesContext(connection) as queries:
                client.get(address(feedback))
    with django_assert_num_queries(len(queries)):
        page = " ".join(client.get(address(feedback)).content.decode().split())
    assert [link for link in links if page.count(link) != 1] == []
    assert "<bdi>Vibe</bdi>’s answer “<bdi>In March, when the buds swell when the buds" in page
    assert "…</bdi>”</a>" in page


def test_what_cannot_be_saved_is_said_and_the_rule_stays(ana: Member, feedback: Episode, vibe: Agent) -> None:
    client = signed_in(ana)
    for fields, complaint in (
        ({"rule": "  "}, "Write a rule"),
        ({"rule": "\u202e"}, "Write a rule"),
        ({"rule": "x" * 2001}, "at most 2000 characters"),
        ({"note": "\u202e"}, "Say in a few words"),
        ({"based_on": ""}, "does not say which version you began from"),
        ({"based_on": -1}, "does not say which version you began from"),
        ({"rule": "é" * 2000}, "the limit is 2,000"),
        ({"note": ""}, "Say in a few words"),
        ({"based_on": 0}, "Version 1 was saved meanwhile"),
        ({"rule": "a\x07b"}, "unprintable"),
        ({"rule": "INVENT facts"}, "Its SOUL says this already"),
        ({"draft": "1"}, "There is no model to draft it"),
        ({"place": "top"}, "top is not one"),
    ):
        page = send(client, feedback, **fields)
        assert (page.status_code, complaint in page.content.decode()) == (422, True), fields
    assert "Dora is right" in page.content.decode()
    assert (SoulVersion.objects.count(), Episode.objects.open_feedback().count()) == (1, 1)


def test_a_program_quotes_no_reason_that_not_everybody_may_read(ana: Member, feedback: Episode) -> None:
    assert feedback.thread is not None
    Channel.objects.filter(pk=feedback.thread.channel_id).update(is_private=True)
    _, secret = issue_token(participant=ana.participant, name="x", scopes=["admin"])
    headers = {"Authorization": f"Bearer {secret}", "If-Match": '"1"'}

    def apply(**rule: str) -> tuple[int, str]:
        body = {"feedback": [feedback.pk], "note": "Dora is right", **rule}
        program = Client(headers=headers)
        answer = program.post("/api/v1/agents/vibe/soul/rules/", body, content_type="application/json")
        return answer.status_code, answer.json().get("code", "")

    assert apply() == (400, "bad_rule")
    assert apply(rule="Guess nothing.") == (200, "")
    assert "month" not in SoulVersion.objects.get(number=2).source.split("Guess")[1]


def test_members_suggest_and_admins_find_it(ana: Member, dora: Member, feedback: Episode) -> None:
    slug, page = ana.workspace.slug, f"/w/{ana.workspace.slug}/agents/vibe/"
    assert signed_in(dora).get(address(feedback)).status_code == 403
    assert send(signed_in(dora), feedback).status_code == 403
    assert "Suggest to apply always" in signed_in(dora).get(page).content.decode()
    assert signed_in(ana).post(f"/w/{slug}/episodes/{feedback.pk}/suggest/").status_code == 403
    for _ in range(2):
        signed_in(dora).post(f"/w/{slug}/episodes/{feedback.pk}/suggest/", {"on": "agent"})
    about = signed_in(ana).get(page).content.decode()
    assert "Suggested for its SOUL" in about
    assert address(feedback) in about
    send(signed_in(ana), feedback)
    feedback.refresh_from_db()
    assert (feedback.suggested_at, feedback.soul_version) == (None, 2)


def test_a_model_drafts_it_within_its_budget(ana: Member, feedback: Episode, vibe: Agent) -> None:
    vibe.endpoint = EndpointFactory.create(
        workspace=vibe.workspace, name="Big one", base_url="https://models.example/v1", model="big"
    )
    vibe.save(update_fields=["endpoint"])
    assert "Draft it with Big one" in signed_in(ana).get(address(feedback)).content.decode()
    model = ScriptedModel(['{"rules": [{"place": "never", "text": "guess a month"}]}', "No.", ModelUnavailable("down")])
    assert draft_rule(agent=vibe, episode=feedback, client=model) == SoulRule("never", "guess a month")
    assert "Never invent a month." in model.calls[0].messages[1].content
    for complaint in ("is no rule", "gave no draft"):
        with pytest.raises(Problem, match=complaint):
            draft_rule(agent=vibe, episode=feedback, client=model)
    assert Spending.objects.filter(agent=vibe.participant).count() == 3


@pytest.mark.parametrize("who", ["ben", "cleo"])
def test_who_may_not_read_it_gets_the_answer_for_unknown(
    who: str, feedback: Episode, request: pytest.FixtureRequest
) -> None:
    stranger = signed_in(request.getfixturevalue(who))
    unknown = stranger.get(address(feedback).replace(f"/{feedback.pk}/", "/999999/"))
    assert (stranger.get(address(feedback)).status_code, unknown.status_code) == (404, 404)
