"""The access by which each webhook is told things, as it is now. Those that may be told nothing any more rest."""

from collections.abc import Iterable

from django.utils import timezone

from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.webhooks.models import Webhook, may_direct

NO_ACCESS = "Whoever it belongs to has no access any more, so it says nothing more."
NO_ADMIN = "Whoever made it does not run the workspace any more. Delete it, or make one of your own."
MAKER_MAY_NOT_READ = (
    "Whoever said where it sends may not read all that it tells. Who may saves its address, then lets it try again."
)


def access_viewers(webhooks: Iterable[Webhook]) -> dict[int, Viewer]:
    """Returns viewers by webhook. Left out are those without access, and those that whoever said where they send could
    not make now: they rest from here on. As many queries for many as for one, but where others' agents tell."""
    webhooks = list(webhooks)
    pairs = {(webhook.workspace_id, webhook.participant_id) for webhook in webhooks}
    pairs |= {(webhook.workspace_id, webhook.made_by_id) for webhook in webhooks if webhook.made_by_id}
    viewers = {pair: Viewer(*pair) for pair in pairs}
    refresh_viewers(viewers.values())
    is_directed: dict[tuple[int, int], bool] = {}
    by_webhook = {}
    for webhook in webhooks:
        viewer, maker = (
            viewers.get((webhook.workspace_id, pk or 0)) for pk in (webhook.participant_id, webhook.made_by_id)
        )
        key = (webhook.made_by_id or 0, webhook.participant_id)
        if key not in is_directed:
            is_directed[key] = bool(maker and maker.access and may_direct(maker.access, webhook.participant_id))
        if viewer is None or viewer.access is None:
            start_rest(webhook, NO_ACCESS)
        elif not (viewer.access.is_agent or viewer.access.administers):
            start_rest(webhook, NO_ADMIN)
        elif not is_directed[key]:
            start_rest(webhook, MAKER_MAY_NOT_READ)
        else:
            by_webhook[webhook.pk] = viewer
    return by_webhook


def start_rest(webhook: Webhook, reason: str) -> None:
    rows = Webhook.objects.filter(pk=webhook.pk, state=Webhook.State.ACTIVE)
    rows.update(state=Webhook.State.RESTING, reason=reason, updated_at=timezone.now())
