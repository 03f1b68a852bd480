"""The admin as a whole: one look, an order by what people come to do, and no dead ends."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from agents.models import McpServer
from knowledge.models import Entry
from knowledge.wiring import sidebar_counts
from openvibe.base.admin_site import LIST_GROUPS
from openvibe.chat.services import discard_dive, start_dive
from openvibe.workspaces.models import Member, Spending
from tests import factories
from tests.admin.conftest import as_superuser, superuser
from tests.knowledge.factories import ContradictionFactory

pytestmark = pytest.mark.django_db


def words_of(html: bytes) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.decode())))


def test_every_list_stands_in_the_order_once_with_a_line_on_it(ana: Member) -> None:
    listed = [page.model for pages in LIST_GROUPS.values() for page in pages]
    registered = {model._meta.label_lower for model in admin.site._registry}
    beside_jobs = {"django_celery_beat.intervalschedule", "django_celery_beat.crontabschedule"}
    assert sorted(listed) == sorted(registered - beside_jobs)
    index = words_of(superuser(ana).get(reverse("admin:index")).content)
    lines = [page.about for pages in LIST_GROUPS.values() for page in pages]
    assert sorted(lines, key=index.index) == lines


def test_a_list_is_named_once_and_says_what_it_is(ana: Member) -> None:
    page = as_superuser(ana).get(reverse("admin:agents_agent_changelist")).content
    heading = re.search(rb"<h1.*?</h1>", page, re.DOTALL)
    assert heading
    assert words_of(heading[0]).split() == ["Agents"]
    assert "Who answers: SOUL, trust level" in words_of(page)


def test_the_theme_is_the_readers_and_its_colours_stand_in_files(ana: Member) -> None:
    ana.user.theme = "dark"
    ana.user.save()
    page = as_superuser(ana).get(reverse("admin:index")).content.decode()
    assert 'class="dark"' in page
    assert "css/palette" in page
    assert "--color-" not in page


def test_numbers_have_separators_in_lists_and_on_pages(ana: Member) -> None:
    call = Spending.objects.create(workspace=ana.workspace, purpose="review", model="m", input_tokens=20_177)
    client = as_superuser(ana)
    assert "20,177" in words_of(client.get(reverse("admin:workspaces_spending_changelist")).content)
    assert "20,177" in words_of(client.get(reverse("admin:workspaces_spending_change", args=[call.pk])).content)


def test_the_review_tiles_say_together_the_number_of_the_sidebar(ana: Member) -> None:
    first, second = (factories.make_entry(ana, f"Prices {n}", f"{n}0 a month.") for n in (1, 2))
    ContradictionFactory.create(
        workspace=ana.workspace, first=first, second=second, first_version=1, second_version=1, why="Sums differ."
    )
    overdue = factories.make_entry(ana, "Old", "It was so.")
    Entry.objects.filter(pk=overdue.pk).update(expires_at=timezone.now())
    page = words_of(as_superuser(ana).get(reverse("admin:index")).content)
    assert sidebar_counts(factories.access(ana))["to_review"] == 2
    assert "Knowledge to review 1 Contradictions 1 " in page


def test_a_superuser_elsewhere_is_told_who_reads_a_dive(ana: Member) -> None:
    thread = factories.make_thread(factories.make_channel(ana), ana)
    agent = factories.make_agent(ana, "vibe", channel=thread.channel)
    by, message = factories.access(ana), factories.say(thread, ana, "Why?")
    dive = start_dive(source=message, by=by, agent=agent.participant)
    discard_dive(dive=dive, by=by)
    address, page = (
        reverse("admin:chat_dive_change", args=[dive.pk]),
        reverse("dive", args=[ana.workspace.slug, dive.pk]),
    )
    elsewhere = superuser(factories.make_member("Cleo")).get(address).content.decode()
    assert page not in elsewhere
    assert f"by members of {ana.workspace}" in words_of(elsewhere.encode()).replace("&#x27;", "'")
    assert page in as_superuser(ana).get(address).content.decode()


def test_nobody_reads_titles_of_private_channels_among_dives(ana: Member) -> None:
    """Titles are said in the channel, as all else: superusers see that there is a dive, and whose."""
    thread = factories.make_thread(factories.make_channel(ana, "board", private=True), ana, title="Selling the garden")
    agent = factories.make_agent(ana, "vibe", channel=thread.channel)
    by, message = factories.access(ana), factories.say(thread, ana, "Why?")
    dive = start_dive(source=message, by=by, agent=agent.participant)
    discard_dive(dive=dive, by=by)
    root, rows = superuser(factories.make_member("Cleo")), reverse("admin:chat_dive_changelist")
    pages = [rows, reverse("admin:chat_dive_change", args=[dive.pk]), reverse("admin:index")]
    assert all("Selling" not in root.get(page).content.decode() for page in pages)
    assert f">{thread.pk}<" in root.get(rows, {"q": str(thread.pk)}).content.decode()
    assert root.get(rows, {"q": "Selling"}).context["cl"].result_count == 0


def test_limits_of_an_mcp_server_have_names_for_people(ana: Member) -> None:
    server = McpServer.objects.create(workspace=ana.workspace, name="tools", url="https://tools.example/mcp")
    client: Client = as_superuser(ana)
    page = words_of(client.get(reverse("admin:agents_mcpserver_change", args=[server.pk])).content)
    assert "Time limit of a call, in seconds" in page
    assert "Timeout seconds" not in page
    assert "Max bytes" not in page


def test_jobs_say_when_they_run_next(ana: Member) -> None:
    daily = IntervalSchedule.objects.create(every=1, period="days")
    now = timezone.now().replace(second=30)  # the scheduler reckons a moment later, in the same minute
    rows = (("water", now, True), ("late", now - timedelta(days=3), True), ("idle", now, False), ("new", None, True))
    for name, last, enabled in rows:
        PeriodicTask.objects.create(name=name, task=name, interval=daily, last_run_at=last, enabled=enabled)
    page = superuser(ana).get(reverse("admin:django_celery_beat_periodictask_changelist"))
    assert page.context["title"] == "Jobs"
    assert "every day" in page.content.decode()
    view = admin.site._registry[PeriodicTask]
    said = {job.name: view.next_run(job) for job in page.context["cl"].result_list}  # type: ignore[attr-defined]
    assert said["late"] == "Now"
    assert said["idle"] == "Switched off"
    assert said["new"][0].isdigit()
    assert said["water"] == date_format(now + timedelta(days=1), "DATETIME_FORMAT")


@pytest.mark.parametrize("query", ["state=%00", "state__exact=%00", "created_at__year=0"])
def test_a_filter_that_nothing_can_be_compared_with_leaves_the_whole_list(ana: Member, query: str) -> None:
    root, address = superuser(ana), reverse("admin:webhooks_webhook_changelist")

    answer = root.get(f"{address}?{query}")

    assert (answer.status_code, answer["Location"]) == (302, f"{address}?e=1")
    assert root.get(answer["Location"]).status_code == 200


def test_a_search_for_what_no_text_holds_finds_what_is_left_of_it(ana: Member) -> None:
    names = {"app_label": "workspaces", "model_name": "member", "field_name": "participant", "term": "an\x00a"}
    rows = superuser(ana).get(reverse("admin:autocomplete"), names).json()["results"]
    assert [row["id"] for row in rows] == [str(ana.participant_id)]
