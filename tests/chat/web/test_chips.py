"""Channels, threads, messages and entries that a message names are links with their names, to whom may see them."""

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import read_place_titles
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from tests.factories import access, make_channel, make_entry, make_thread, say, signed_in


def page(reader: Member, thread: Thread) -> str:
    return signed_in(reader).get(f"/w/{reader.workspace.slug}/t/{thread.pk}/").content.decode()


@pytest.fixture
def secret(ana: Member) -> Thread:
    return make_thread(make_channel(ana, "secret", private=True), ana, "Surprise")


def test_places_are_called_by_their_names(ana: Member, dora: Member, thread: Thread, home: str) -> None:
    other = make_thread(make_channel(ana, "roses"), ana, "R&D <of> roses")
    message, entry = say(other, dora, "Cut here."), make_entry(ana, "Mulch")
    origin = settings.PUBLIC_URL
    say(
        thread,
        ana,
        f"#roses: {origin}{home}t/{other.pk}/, {origin}{home}t/{other.pk}/#m-1 and {origin}{home}m/{message.pk}/",
    )
    say(thread, ana, f"{origin}{home}knowledge/{entry.pk}/ and [mine]({home}t/{other.pk}/)")
    html = page(dora, thread)
    assert f'<a href="{home}c/{other.channel_id}/" class="place-chip">#roses</a>' in html
    assert f'<a href="{home}t/{other.pk}/" class="place-chip" dir="auto">R&amp;D &lt;of&gt; roses</a>' in html
    assert (
        html.count(
            f'<a href="{home}m/{message.pk}/" class="place-chip" dir="auto">Dora in “R&amp;D &lt;of&gt; roses”</a>'
        )
        == 2
    )
    assert f'<a href="{home}knowledge/{entry.pk}/" class="place-chip" dir="auto">Mulch</a>' in html
    assert f'<a href="{home}t/{other.pk}/" class="place-chip" dir="auto">mine</a>' in html


def test_what_one_may_not_see_stays_as_it_was_written(
    ana: Member, ben: Member, dora: Member, thread: Thread, secret: Thread, home: str
) -> None:
    hidden = say(secret, ana, "A party!")
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    address = f"{settings.PUBLIC_URL}{home}"
    place = f"{address}t/{secret.pk}/"
    say(thread, ana, f"#secret #nowhere {place} {place}#m-1 {address}m/{hidden.pk}/ {address}t/999999/")
    assert page(ana, thread).count('class="place-chip"') == 4  # her HTML is kept
    for reader in (dora, ben):
        html = page(reader, thread)
        assert 'class="place-chip"' not in html
        assert "Surprise" not in html
        assert f">{address}t/{secret.pk}/</a>" in html


@pytest.mark.parametrize(
    "body",
    [
        "`#general` [#general](https://a.b/) https://a.b/#general ##general a#general #General #general-x &#general",
        "```\n#general\n```",
        "https://elsewhere.example/w/{slug}/t/{thread}/ {origin}/w/other-place/t/{thread}/",
        "{origin}/w/{slug}/t/{thread}/edit/",
        "{origin}/w/{slug}/t/99999999999999999999/ {origin}/w/{slug}/t/999999999999999999/ {origin}/w/{slug}/m/0/",
        "#" * 5000,
        "\\#general",
    ],
)
def test_what_names_no_place_is_no_chip(ana: Member, thread: Thread, body: str) -> None:
    text = body.replace("{slug}", ana.workspace.slug).replace("{thread}", str(thread.pk))
    say(thread, ana, text.replace("{origin}", settings.PUBLIC_URL))
    assert 'class="place-chip"' not in page(ana, thread)


def test_a_page_of_names_costs_one_query(ana: Member, thread: Thread, home: str) -> None:
    for number in range(6):
        say(thread, ana, f"#general #roses {settings.PUBLIC_URL}{home}t/{thread.pk}/#m-{number} {home}t/{thread.pk}/")
    messages = list(Message.objects.all())
    reader = access(ana)
    with CaptureQueriesContext(connection) as statements:
        assert len(read_place_titles(messages, reader)) == 6
    assert len(statements) == 2  # what she reaches, what is named
    with CaptureQueriesContext(connection) as statements:
        assert not read_place_titles([Message(body="Nothing #️⃣ here # x")], reader)
    assert not statements
