"""Where the offline model sends people who ask it in direct messages about what was said elsewhere."""

from collections.abc import Sequence

from django.urls import reverse

from agents.access import visible_to
from agents.models import Run
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import best_messages
from openvibe.llm.offline import KnownPlace, OfflineModel
from openvibe.workspaces.queries import participant_access

MAX_PLACES = 2


def offline_model_for(run: Run) -> OfflineModel:
    """The offline model; in direct messages it is told the threads that both the agent and the asker read."""
    return OfflineModel(find_known_places(run, run.trigger.body) if run.thread.channel.is_direct else ())


def find_known_places(run: Run, question: str) -> Sequence[KnownPlace]:
    """The threads whose words bear on the question, best first; without any, those of the newest words. Nothing where
    the asker may see nothing any more."""
    access, asker = visible_to(run.agent), participant_access(run.requested_by)
    if asker is None:
        return ()
    shared = Thread.objects.visible_to(asker).filter(pk__in=Thread.objects.visible_to(access).values("pk"))
    threads = shared.filter(parent=None, channel__first_participant=None, archived_at=None, last_seq__gt=0)
    messages = Message.objects.visible_to(access).filter(thread__in=threads.values("pk"))
    ids = list(dict.fromkeys(hit.thread_id for hit in best_messages(access, question, messages, are_few=True)))
    hits = threads.in_bulk(ids[:MAX_PLACES])
    found = [hits[pk] for pk in ids[:MAX_PLACES] if pk in hits] or threads.order_by("-last_message_at")[:MAX_PLACES]
    slug = run.agent.workspace.slug
    return [KnownPlace(thread.title, reverse("thread", args=[slug, thread.pk]), bool(ids)) for thread in found]
