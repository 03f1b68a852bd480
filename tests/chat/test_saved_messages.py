"""Messages that people save: theirs alone, as long as they see them."""

from openvibe.base.models import Event
from openvibe.chat.models import SavedMessage, Thread
from openvibe.chat.queries import saved_messages
from openvibe.chat.services import add_to_channel, delete_message, remove_from_channel, save_message, unsave_message
from openvibe.workspaces.models import Member
from tests.factories import access, make_channel, make_thread, say


def test_what_one_may_no_longer_see_is_not_shown(ana: Member, dora: Member, thread: Thread) -> None:
    private = make_channel(ana, "salaries", private=True)
    add_to_channel(channel=private, participant=dora.participant, by=access(ana))
    first, secret, deleted_message = (
        say(thread, ana, "One"),
        say(make_thread(private, ana), ana, "Two"),
        say(thread, ana, "Three"),
    )
    for message in (first, secret, deleted_message, first):
        save_message(message=message, by=access(dora))

    def shown(member: Member) -> list[str]:
        return [message.body for message in saved_messages(access(member))]

    assert (shown(dora), shown(ana)) == (["Three", "Two", "One"], [])
    delete_message(message=deleted_message, by=access(ana))
    remove_from_channel(channel=private, participant=dora.participant, by=access(ana))
    assert shown(dora) == ["One"]
    assert SavedMessage.objects.count() == 2
    for _ in range(2):
        unsave_message(message=first, by=access(dora))
    assert shown(dora) == []
    saved_events = Event.objects.filter(kind="saved_changed")
    assert set(saved_events.values_list("participant_id", flat=True)) == {dora.participant_id}
    assert saved_events.count() == 4
