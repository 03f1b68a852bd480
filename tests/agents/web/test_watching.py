"""The channels that an agent watches, in the app: set by admins, stopped by members from its page and its messages."""

import pytest

from agents.models import Agent, Watch, WatchLook
from agents.watching.services import create_watch
from memory.episodes.services import give_feedback
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import told
from tests.agents.watching.watchers import FROST, SILENT, look_at_all, make_watcher, rested, speaks, watching
from tests.factories import access, make_agent, make_channel, make_member, say, signed_in


@pytest.fixture
def sage(ana: Member, thread: Thread) -> Agent:
    return make_watcher(ana, thread.channel)


def page_of(by: Member, path: str) -> str:
    return signed_in(by).get(f"/w/{by.workspace.slug}/{path}").content.decode()


def test_an_admin_sets_it_and_what_it_posts_says_why_and_can_be_stopped(
    ana: Member, dora: Member, sage: Agent, thread: Thread
) -> None:
    home, path = f"/w/{ana.workspace.slug}/", "agents/sage/watching/"
    assert FROST in page_of(ana, path)
    form = {"channel": thread.channel_id, "rest_minutes": "5"}
    assert signed_in(dora).post(home + path, form).status_code == 403
    assert signed_in(ana).post(home + path, form).status_code == 302
    watch = Watch.objects.get()
    say(thread, ana, "The roses are doing well.")
    look_at_all(SILENT)
    assert "run-because" not in page_of(dora, f"t/{thread.pk}/")
    say(thread, ana, "The tomatoes can go out on Thursday.")
    _, (run,) = look_at_all(speaks())
    told(run, "Frost on Friday.")
    shown = page_of(dora, f"t/{thread.pk}/")
    assert f"Spoke up because of: {FROST}" in shown
    assert f'action="{home}watches/{watch.pk}/stop/"' in shown
    assert f"It spoke up because of: <strong>{FROST}</strong>" in page_of(dora, f"runs/{run.pk}/context/")
    assert "stayed silent 1" in page_of(dora, "agents/sage/")
    look = WatchLook.objects.latest("pk")
    asked = page_of(dora, f"looks/{look.pk}/")
    assert "The tomatoes can go out on Thursday." in asked
    assert "80 %" in asked
    assert signed_in(dora).post(f"{home}watches/{watch.pk}/stop/").status_code == 302
    watch.refresh_from_db()
    assert (watch.is_active, watch.note) == (False, "Dora stopped it.")
    assert "watches/" not in page_of(dora, f"t/{thread.pk}/")
    assert "Dora stopped it." in page_of(ana, path)


def test_verdicts_are_told_in_plain_words_and_an_admin_forgets_them(
    ana: Member, dora: Member, sage: Agent, thread: Thread
) -> None:
    watch = watching(ana, sage, thread.channel)
    say(thread, ana, "The tomatoes can go out on Thursday.")
    _, (run,) = look_at_all(speaks())
    told(run, "Frost on Friday.")
    assert run.reply is not None
    give_feedback(message=run.reply, by=access(dora), verdict="down")
    page = page_of(ana, "agents/sage/watching/")
    assert "said nothing for 15 minutes, and speaks up when it is at least 60 % sure. At first these were 5" in page
    signed_in(ana).post(f"/w/{ana.workspace.slug}/watches/{watch.pk}/", {"do": "forget"})
    assert "said nothing for 5 minutes, and speaks up when it is at least 50 % sure." in page_of(
        ana, "agents/sage/watching/"
    )


@pytest.mark.parametrize("minutes", ["0", "241", "x", "99999999999999999999"])
def test_other_minutes_are_refused(ana: Member, sage: Agent, thread: Thread, minutes: str) -> None:
    home = f"/w/{ana.workspace.slug}/"
    form = {"channel": thread.channel_id, "rest_minutes": minutes}
    assert signed_in(ana).post(f"{home}agents/sage/watching/", form).status_code in (200, 400)
    watch = watching(ana, sage, thread.channel)
    said = signed_in(ana).post(f"{home}watches/{watch.pk}/", {"rest_minutes": minutes}, follow=True)
    assert "Nothing was changed." in said.content.decode()
    watch.refresh_from_db()
    assert watch.rest_minutes == 5


def test_what_keeps_it_from_watching_stands_where_the_form_would(ana: Member, thread: Thread) -> None:
    make_agent(ana, "moss", level=3, channel=thread.channel)
    assert "its SOUL names no proactive triggers" in page_of(ana, "agents/moss/watching/")
    make_agent(ana, "fern", level=2, channel=thread.channel)
    assert "at L2 it does not speak up by itself" in page_of(ana, "agents/fern/watching/")
    make_agent(ana, "reed", level=3, channel=thread.channel, answers_itself=True)
    assert "does not run here" in page_of(ana, "agents/reed/watching/")


def test_what_is_watched_elsewhere_is_not_shown(ana: Member, sage: Agent, thread: Thread, dora: Member) -> None:
    shed = make_channel(ana, "shed", private=True)
    add_to_channel(channel=shed, participant=sage.participant, by=access(ana))
    create_watch(agent=sage, by=access(ana), channel=shed)
    page = page_of(dora, "agents/sage/watching/")
    assert "shed" not in page
    assert "It watches 1 channel that you do not see." in page
    (watch,) = Watch.objects.all()
    assert signed_in(dora).post(f"/w/{ana.workspace.slug}/watches/{watch.pk}/stop/").status_code == 404


def test_guests_and_strangers_see_no_looks(ana: Member, cleo: Member, sage: Agent, thread: Thread) -> None:
    watching(ana, sage, thread.channel)
    say(thread, ana, "The roses are doing well.")
    look_at_all('{"speak": false, "why": "Nothing to add."}', now=rested())
    look = WatchLook.objects.get()
    guest = make_member("Gus", ana.workspace, role="guest")
    add_to_channel(channel=thread.channel, participant=guest.participant, by=access(ana))
    assert signed_in(guest).get(f"/w/{ana.workspace.slug}/looks/{look.pk}/").status_code == 404
    page = page_of(guest, "agents/sage/watching/")
    assert "Nothing to add." not in page
    assert FROST not in page
    assert signed_in(cleo).get(f"/w/{ana.workspace.slug}/looks/{look.pk}/").status_code == 404
