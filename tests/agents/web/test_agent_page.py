"""An agent's page: what everybody may know, and nothing from rooms they are not in."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.agent.services import save_soul, set_trust_level
from agents.models import Agent, Run, SoulVersion, TrustChange
from agents.statistics.statistics import agent_charts, level_suggestion, tokens_per_day
from memory.episodes.services import give_feedback
from memory.models import Episode
from memory.queries import ContextBlocks
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.queries.quotes import access_quotes
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, calling, told
from tests.factories import SOUL, access, make_channel, make_thread, say, signed_in


def page_of(member: Member, query: str = "") -> str:
    response = signed_in(member).get(f"/w/{member.workspace.slug}/agents/vibe/{query}")
    assert response.status_code == 200
    return response.content.decode()


def test_it_shows_soul_level_memory_usage_and_runs(ana: Member, answered: Run) -> None:
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(ana), verdict="down", text="Shorter, please.")
    page = page_of(ana)
    for words in (
        "Quote before you conclude",
        "L2 Advisor",
        "Shorter, please.",
        "in the next prompt",
        "0 % helpful",
        "Pruning",
    ):
        assert words in page


def test_versions_are_compared(ana: Member, vibe: Agent) -> None:
    text = SOUL.format(name="Vibe").replace("Invent facts", "Guess")
    save_soul(agent=vibe, by=access(ana), text=text, note="Clearer", based_on=1)
    page = page_of(ana, "?from=1&to=2")
    assert "<del>Invent facts</del>" in page
    assert "<ins>Guess</ins>" in page
    assert signed_in(ana).get(f"/w/{ana.workspace.slug}/agents/vibe/?from=1&to=9").status_code == 404


def test_a_soul_with_many_versions_shows_all_of_them_and_how_many_there_are(ana: Member, vibe: Agent) -> None:
    assert vibe.soul is not None
    fields = {"source": vibe.soul.source, "content": vibe.soul.content, "token_count": vibe.soul.token_count}
    SoulVersion.objects.bulk_create(
        SoulVersion(agent=vibe, number=number, note=f"Change {number}", **fields) for number in range(2, 121)
    )
    page = page_of(ana)
    assert "120 versions" in page
    last = page_of(ana, "?versions=3")
    assert "<strong>Version 1</strong>" in last
    pages = [page, page_of(ana, "?versions=2"), last]
    numbers = [int(number) for html in pages for number in re.findall(r"<strong>Version (\d+)</strong>", html)]
    assert numbers == list(range(120, 0, -1))
    assert 'href="/w/anas-garden/agents/vibe/?versions=2#soul-versions">Older</a>' in page
    assert re.search(r'name="from" min="1" max="120" required\s+value="119"', page), "any two are compared"


def test_what_it_remembers_comes_in_pages_and_is_counted(ana: Member, vibe: Agent) -> None:
    rows = [Episode(agent=vibe.participant, kind="learning_acquired", summary=f"Bed {n}.") for n in range(120)]
    Episode.objects.bulk_create(rows)
    Episode.objects.bulk_create(
        Episode(agent=vibe.participant, kind="learning_acquired", summary=f"Rule {n}.", suggested_at=timezone.now())
        for n in range(60)
    )
    page = page_of(ana)
    assert "120 other" in page
    assert "50 of 60" in page
    shown = [re.findall(r"<p>Bed \d+\.</p>", page_of(ana, f"?episodes={n}")) for n in (1, 2, 3)]
    assert [len(each) for each in shown] == [50, 50, 20]
    assert len({text for each in shown for text in each}) == 120
    assert 'href="/w/anas-garden/agents/vibe/?episodes=2#agent-memory">Older</a>' in page


def test_every_change_of_trust_is_listed(ana: Member, vibe: Agent) -> None:
    TrustChange.objects.bulk_create(
        TrustChange(agent=vibe, level_before=1, level_after=2, note=f"Reason {n}.", by_name="Ana") for n in range(120)
    )
    pages = [page_of(ana, f"level/?page={n}") for n in (1, 2, 3)]
    reasons = [reason for html in pages for reason in re.findall(r"Reason \d+\.", html)]
    assert (len(reasons), len(set(reasons))) == (120, 120)
    assert 'href="/w/anas-garden/agents/vibe/level/?page=2#level-changes">Older</a>' in pages[0]


def test_what_was_learned_in_a_private_channel_stays_there(ana: Member, dora: Member, vibe: Agent) -> None:
    private = make_thread(make_channel(ana, "private", private=True), ana, "Salaries")
    private.channel.memberships.create(participant=vibe.participant)
    say(private, ana, "@vibe hello")
    reply = Message.objects.create(thread=private, author=vibe.participant, body="Hello.")
    give_feedback(message=reply, by=access(ana), verdict="down", text="The salary of Eve is secret.")
    assert "salary of Eve" in page_of(ana)
    seen_by_dora = page_of(dora)
    assert "salary of Eve" not in seen_by_dora
    assert "Salaries" not in seen_by_dora
    assert "1 more item hidden by your access" in seen_by_dora


def test_foreign_agents_are_unknown(cleo: Member, ana: Member, vibe: Agent) -> None:
    client = signed_in(cleo)
    assert client.get(f"/w/{ana.workspace.slug}/agents/vibe/").status_code == 404
    assert client.get(f"/w/{cleo.workspace.slug}/agents/vibe/").status_code == 404
    assert Client().get(f"/w/{ana.workspace.slug}/agents/vibe/").status_code == 302


@pytest.mark.parametrize("form", ["settings", "soul", "level"])
def test_the_heading_of_its_forms_leads_back_to_it(form: str, ana: Member, vibe: Agent) -> None:
    (heading,) = re.findall(r"<h1>.*?</h1>", page_of(ana, f"{form}/"))
    assert f'<a href="/w/{ana.workspace.slug}/agents/vibe/">Vibe</a>' in heading


def test_view_as_this_agent_never_shows_more_than_either_sees(ana: Member, vibe: Agent, answered: Run) -> None:
    people = make_thread(answered.thread.channel, ana, "People only")
    people.access = "human_only"
    people.save()
    client, home = signed_in(ana), f"/w/{ana.workspace.slug}/agents/vibe/view/"
    page = client.get(home).content.decode()
    assert "Pruning" in page
    assert "People only" not in page
    assert "late February" in client.get(f"{home}{answered.thread_id}/").content.decode()
    assert "does not see this thread" in client.get(f"{home}{people.pk}/").content.decode()
    Message.objects.create(thread=answered.thread, author=ana.participant, kind="dive_result", body="Mulch in May.")
    shared = f"{home}{answered.thread_id}/"
    assert "Mulch in May." in client.get(shared).content.decode()
    set_trust_level(agent=vibe, by=access(ana), level=1, note="It guessed")
    assert "Mulch in May." not in client.get(shared).content.decode()


def test_all_that_it_sees_is_shown_however_much_that_is(ana: Member, vibe: Agent, channel: Channel) -> None:
    """The last of its channels is shown too."""
    Thread.objects.bulk_create(Thread(workspace=ana.workspace, channel=channel, title=f"Bed {n}") for n in range(510))
    last = make_channel(ana, "zinnias")
    add_to_channel(channel=last, participant=vibe.participant, by=access(ana))
    make_thread(last, ana, "The last of all")
    address, html = "view/", ""
    while address:
        page = page_of(ana, address)
        html += page
        following = re.search(r'href="(\?page=\d+)">Next</a>', page)
        address = f"view/{following[1]}" if following else ""
    titles = re.findall(r"(Bed \d+|The last of all)</a>", html)
    assert (len(titles), len(set(titles))) == (511, 511)


def test_how_it_is_doing_is_drawn_with_values(ana: Member, dora: Member, answered: Run) -> None:
    assert answered.reply is not None
    for member, verdict in ((ana, "up"), (dora, "down")):
        give_feedback(message=answered.reply, by=access(member), verdict=verdict)
    charts = {chart.title: chart for chart in agent_charts(answered.agent, tokens_per_day(agent=answered.agent))}
    assert [drawing.summary for drawing in charts["Verdicts per day"].drawings] == ["1 in 30 days"] * 2
    assert charts["Runs per day"].ticks == ("2", "1", "0")
    [first, whole] = charts["Seconds to an answer, median of each day"].drawings
    assert "on a usual day" in first.summary
    assert 0 <= whole.dots[0].y <= first.dots[0].y <= 100
    assert "Tokens per day" not in charts  # the offline model's cost nothing


def test_runs_are_listed_by_state_and_task(ana: Member, answered: Run) -> None:
    other = Run.objects.get(trigger=say(answered.thread, ana, "@vibe and the roses?"))
    link, other_link = (f"/runs/{run.pk}/" for run in (answered, other))
    assert link in page_of(ana)
    for query, is_listed in (("state=done", True), ("state=failed", False), ("task=dive", False), ("state=x", True)):
        assert (link in page_of(ana, f"?{query}")) == is_listed, query
    page = page_of(ana, f"?before={other.pk}")
    assert link in page
    assert other_link not in page


def test_suggestions_follow_the_thresholds() -> None:
    assert "L3" in level_suggestion(level=2, up=9, down=1)
    assert level_suggestion(level=2, up=8, down=2) == ""
    assert "L1" in level_suggestion(level=2, up=2, down=3)
    assert level_suggestion(level=4, up=50, down=0) == ""
    assert level_suggestion(level=1, up=0, down=50) == ""
    assert level_suggestion(level=2, up=4, down=0) == ""


def test_the_same_queries_for_one_run_and_three(ana: Member, answered: Run) -> None:
    assert answered.reply is not None
    give_feedback(message=answered.reply, by=access(ana), verdict="down", text="No")
    with CaptureQueriesContext(connection) as one:
        page_of(ana)
    for n in range(3):
        message = say(answered.thread, ana, f"@vibe and {n}?")
        reply = Message.objects.create(thread=answered.thread, author=answered.agent.participant, body="Yes.")
        Run.objects.filter(trigger=message).update(state="done", reply=reply)
        give_feedback(message=reply, by=access(ana), verdict="down", text=f"No {n}")
    with CaptureQueriesContext(connection) as three:
        page_of(ana)
    assert len(three) == len(one)


def test_a_guest_knows_only_agents_of_their_channels(ana: Member, ben: Member, vibe: Agent) -> None:
    address, browser = f"/w/{ana.workspace.slug}/agents/vibe/", signed_in(ben)
    for page in (address, f"{address}view/"):
        assert browser.get(page).status_code == 404
    ben.participant.channel_memberships.create(channel=vibe.participant.channels.get())
    assert browser.get(address).status_code == 200


def test_a_guest_meets_an_agents_face_and_does_not_look_inside(
    ana: Member, dora: Member, ben: Member, vibe: Agent
) -> None:
    """A guest sees name, role, description and what it may do; no block, no word of the SOUL, nowhere."""
    channel = vibe.participant.channels.get()
    channel.memberships.create(participant=ben.participant)
    ContextBlocks(vibe.participant).set("team", "We say zq7x.")
    thread = make_thread(channel, ana)
    run = ask(thread, ana, "@vibe hello")
    told(run, calling(("update_context_block", {"label": "team", "content": "We say zq7x twice."})), "Hello.")
    home = f"/w/{ana.workspace.slug}"
    pages = [
        f"{home}/agents/vibe/",
        f"{home}/agents/vibe/blocks/",
        f"{home}/agents/vibe/blocks/team/",
        *(f"{home}/runs/{run.pk}/context/{tab}" for tab in ("", "raw/", "tools/")),
        "/api/v1/blocks/?agent=vibe",
        "/api/v1/blocks/team/?agent=vibe",
        f"/api/v1/runs/{run.pk}/context/",
        f"/api/v1/runs/{run.pk}/",
    ]
    inside, principle = b"zq7x", b"Quote before you conclude"
    of_member, of_guest = ({page: signed_in(one).get(page) for page in pages} for one in (dora, ben))
    assert all(inside in of_member[page].content for page in pages)
    assert not any(inside in answer.content or principle in answer.content for answer in of_guest.values())
    assert {
        page: answer.status_code for page, answer in of_guest.items() if answer.status_code != 200
    } == dict.fromkeys([page for page in pages if "/blocks/" in page], 404)
    face = of_guest[pages[0]].content.decode()
    assert all(words in face for words in ("Vibe", "Helps the team find what was said", "What it may do"))
    assert "Context blocks" not in face
    assert signed_in(ben).post(f"{home}/agents/vibe/blocks/", {"label": "x", "content": "x"}).status_code == 404


def test_a_guest_is_not_told_of_an_inside_that_repeats_her_words(ana: Member, ben: Member, vibe: Agent) -> None:
    channel = vibe.participant.channels.get()
    channel.memberships.create(participant=ben.participant)
    words = "Water the roses of the lower bed before the sun is on them."
    message = say(make_thread(channel, ben), ben, words)
    ContextBlocks(vibe.participant).set("team", words)
    save_soul(
        agent=vibe, by=access(ana), text=SOUL.format(name="Vibe").replace("Invent facts", words), based_on=1, note="x"
    )
    assert {"block", "soul"} <= {view.quote.kind for view in access_quotes(access(ana), message.pk).quotes}
    assert not access_quotes(access(ben), message.pk).quotes
