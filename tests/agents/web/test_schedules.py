"""An agent's schedules in the app: set by admins, stopped by members, from its page and from what it posted."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from agents.models import Agent, Run, Schedule
from agents.schedules.services import start_due_schedules
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from tests import factories
from tests.agents.runs.scripted_runs import told
from tests.factories import make_agent

Enter = Callable[[Member], Client]


@pytest.fixture
def enter() -> Enter:
    return factories.signed_in


@pytest.fixture
def sage(ana: Member, thread: Thread) -> Agent:
    return make_agent(ana, "sage", level=3, channel=thread.channel)


def fields(thread: Thread, **changes: str) -> dict[str, str]:
    return {
        "name": "Monday",
        "cron": "30 9 * * mon",
        "time_zone": "Europe/Berlin",
        "prompt": "Say what is open.",
        "place": f"t{thread.pk}",
        "is_active": "1",
        **changes,
    }


def test_an_admin_sets_a_schedule_and_it_posts_with_a_mark_and_a_way_to_stop_it(
    ana: Member, dora: Member, sage: Agent, thread: Thread, enter: Enter
) -> None:
    home = f"/w/{ana.workspace.slug}/"
    page = f"{home}agents/sage/schedules/"
    shown = enter(ana).post(page, fields(thread, show="1")).content.decode()
    assert shown.count("09:30") == 3
    assert not Schedule.objects.exists()
    assert enter(ana).post(page, fields(thread)).status_code == 302
    schedule = Schedule.objects.get()
    assert enter(ana).get(page).content.decode().count("09:30") >= 3
    Schedule.objects.update(next_due_at="2026-01-05T08:30Z")
    (run_id,) = start_due_schedules()
    told(Run.objects.get(pk=run_id), "Two beds are open.")
    stop = f'action="{home}schedules/{schedule.pk}/stop/"'
    html = enter(dora).get(f"{home}t/{thread.pk}/").content.decode()
    assert 'class="badge">Scheduled</span>' in html
    assert stop in html
    assert enter(dora).post(f"{home}schedules/{schedule.pk}/stop/").status_code == 302
    schedule.refresh_from_db()
    assert (schedule.is_active, schedule.note) == (False, "Dora stopped it.")
    assert stop not in enter(dora).get(f"{home}t/{thread.pk}/").content.decode()
    assert "Dora stopped it." in enter(ana).get(page).content.decode()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cron": "61 * * * *"}, "cannot be read"),
        ({"cron": "daily"}, "five fields"),
        ({"cron": "0 9\x00", "show": "1"}, "Null characters"),
        ({"time_zone": "Mars"}, "no time zone"),
        ({"place": "t99999999"}, "Choose where it posts"),
        ({"place": "x\x00"}, "Choose where it posts"),
        ({"name": " "}, "empty"),
        ({"prompt": "x" * 4_001}, "4,000"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_is_kept(
    ana: Member, sage: Agent, thread: Thread, enter: Enter, changes: dict[str, str], said: str
) -> None:
    page = f"/w/{ana.workspace.slug}/agents/sage/schedules/"
    answer = enter(ana).post(page, fields(thread, **changes))
    assert answer.status_code == 400
    assert said in answer.content.decode()
    assert ("Say what is open." in answer.content.decode()) == ("prompt" not in changes)
    assert not Schedule.objects.exists()


def test_an_edit_changes_the_row_and_others_may_not(
    ana: Member, dora: Member, ben: Member, sage: Agent, thread: Thread, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = f"/w/{ana.workspace.slug}/agents/sage/schedules/"
    enter(ana).post(page, fields(thread))
    pk = Schedule.objects.get().pk
    assert 'value="30 9 * * mon"' in enter(ana).get(f"{page}?edit={pk}").content.decode()
    enter(ana).post(f"{page}?edit={pk}", fields(thread, cron="0 8 * * *", place=f"c{thread.channel_id}"))
    schedule = Schedule.objects.get()
    assert (schedule.cron, schedule.thread, schedule.channel) == ("0 8 * * *", None, thread.channel)
    schedule.thread = thread  # one that is no longer among the newest
    schedule.save()
    monkeypatch.setattr("agents.web.schedules.MAX_THREADS_OFFERED", 0)
    assert f'value="t{thread.pk}" selected' in enter(ana).get(f"{page}?edit={pk}").content.decode()
    assert enter(dora).post(page, fields(thread)).status_code == 403
    assert enter(dora).post(f"/w/{ana.workspace.slug}/schedules/{pk}/delete/").status_code == 403
    assert enter(ben).post(f"/w/{ana.workspace.slug}/schedules/{pk}/stop/").status_code == 404
    assert enter(dora).post(f"{page}stop/").status_code == 302
    assert not Schedule.objects.filter(is_active=True).exists()


def test_a_schedule_says_that_whoever_set_it_has_left(
    ana: Member, dora: Member, sage: Agent, thread: Thread, enter: Enter
) -> None:
    """A schedule goes on: it is the agent's, and reaches what the agent may."""
    page = f"/w/{ana.workspace.slug}/agents/sage/schedules/"
    Member.objects.filter(pk=dora.pk).update(role="admin")
    enter(dora).post(page, fields(thread))
    assert f"Set by <bdi>{dora.participant.name}</bdi>" in enter(ana).get(page).content.decode()
    Member.objects.filter(pk=dora.pk).update(role="member")
    shown = " ".join(enter(ana).get(page).content.decode().split())
    assert "who set it, is no owner or admin any more. It goes on" in shown
    Member.objects.filter(pk=dora.pk).update(removed_at=timezone.now())
    shown = " ".join(enter(ana).get(page).content.decode().split())
    assert "who set it, is not in this workspace any more. It goes on" in shown
    assert Schedule.objects.get().is_active


def test_stopping_says_what_was_stopped_and_what_goes_on_unseen(
    ana: Member, dora: Member, ben: Member, sage: Agent, thread: Thread, enter: Enter
) -> None:
    """A member is told of schedules that post where the member does not read: how many, and no more."""
    den = factories.make_channel(ana, "den", private=True)
    add_to_channel(channel=den, participant=sage.participant, by=factories.access(ana))
    home = f"/w/{ana.workspace.slug}/"
    page = f"{home}agents/sage/schedules/"
    for name, place in (("Monday", f"t{thread.pk}"), ("Friday", f"t{thread.pk}"), ("Secret", f"c{den.pk}")):
        assert enter(ana).post(page, fields(thread, name=name, place=place)).status_code == 302
    monday, _, secret = Schedule.objects.order_by("pk")
    unseen = "1 schedule in places that you do not see goes on. Members who read there can stop it"
    of_dora = enter(dora).get(page).content.decode()
    assert unseen in of_dora
    assert "Secret" not in of_dora

    one = enter(dora).post(f"{home}schedules/{monday.pk}/stop/", follow=True).content.decode()
    assert "“Monday” is stopped. An admin can start it again. 1 other schedule of Sage that you see goes on." in one
    assert unseen in one
    every = enter(dora).post(f"{page}stop/", follow=True).content.decode()
    assert "“Friday” is stopped. An admin can start it again. 1 schedule in places" in every
    assert "nothing unasked" not in every
    again = enter(dora).post(f"{page}stop/", follow=True).content.decode()
    assert "Nothing was stopped. 1 schedule in places" in again
    assert "nothing unasked" not in again
    secret.refresh_from_db()
    assert secret.is_active

    assert "on schedule any more" in enter(ana).post(f"{page}stop/", follow=True).content.decode()
    assert unseen not in enter(dora).get(page).content.decode()


def test_a_page_without_schedules_to_see_does_not_say_that_there_are_none(
    ana: Member, dora: Member, ben: Member, sage: Agent, thread: Thread, enter: Enter
) -> None:
    den = factories.make_channel(ana, "den", private=True)
    add_to_channel(channel=den, participant=sage.participant, by=factories.access(ana))
    page = f"/w/{ana.workspace.slug}/agents/sage/schedules/"
    add_to_channel(channel=thread.channel, participant=ben.participant, by=factories.access(ana))
    assert "only when it is asked" in enter(dora).get(page).content.decode()
    enter(ana).post(page, fields(thread, place=f"c{den.pk}"))
    of_dora, of_guest = (enter(one).get(page).content.decode() for one in (dora, ben))
    assert "only when it is asked" not in of_dora + of_guest
    assert "1 schedule in places that you do not see goes on." in of_dora
    assert "in places that you do not see" not in of_guest
