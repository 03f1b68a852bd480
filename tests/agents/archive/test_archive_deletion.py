"""A workspace is deleted while somebody writes in it: no message is lost to a deadlock, and nothing is left over."""

from collections.abc import Callable
from threading import Thread as Caller

import pytest
from django.db import connection, transaction

from agents.archive.delete import delete_workspace
from openvibe.base.problems import Conflict
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import post_message
from openvibe.workspaces.models import Member, Participant, Workspace
from tests.factories import access, say
from tests.locks import wait_until_blocked


class Deletion(Caller):
    """Deletes the workspace in a session of its own; `outcome` is what came of it."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        self.outcome: object = None

    def run(self) -> None:
        try:
            self.outcome = delete_workspace(workspace=self.workspace) > 0
        except Conflict as problem:
            self.outcome = problem.code
        finally:
            connection.close()


HELD: dict[str, Callable[[Thread], object]] = {
    "a thread": lambda thread: Thread.objects.select_for_update(no_key=True).get(pk=thread.pk),
    "a message": lambda thread: Message.objects.select_for_update(no_key=True).get(thread=thread),
    "a channel": lambda thread: Channel.objects.select_for_update(no_key=True).get(pk=thread.channel_id),
    "a person": lambda thread: Participant.objects.select_for_update(no_key=True).get(pk=thread.created_by_id or 0),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("held", HELD)
def test_who_writes_meanwhile_is_no_victim_of_a_deadlock(held: str, ana: Member, thread: Thread) -> None:
    """The deletion waits for the writer's row, and the writer for the workspace: the writer goes on."""
    say(thread, ana, "First")
    deletion = Deletion(ana.workspace)
    with transaction.atomic():
        HELD[held](thread)
        deletion.start()
        wait_until_blocked(deletion)
        posted = post_message(thread=thread, by=access(ana), body="Second")
        assert Message.objects.filter(pk=posted.pk).exists()
    deletion.join(60)
    assert deletion.outcome is True
    assert not Workspace.objects.filter(pk=ana.workspace_id).exists()
    assert not Message.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_who_writes_on_and_on_is_told_and_nothing_is_deleted(ana: Member, thread: Thread) -> None:
    say(thread, ana, "First")
    deletion = Deletion(ana.workspace)
    with transaction.atomic():
        HELD["a thread"](thread)
        deletion.start()
        deletion.join(60)
    assert deletion.outcome == "conflict"
    assert Message.objects.filter(thread=thread).exists()
