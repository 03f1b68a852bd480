"""Saves and deletes model endpoints, and writes it to the audit log."""

from collections.abc import Iterable

from django.db import transaction

from openvibe.base.audit import Actor, AuditAction, record_audit
from openvibe.base.forms import FieldChange
from openvibe.engines.llm.models import Endpoint


@transaction.atomic
def save_endpoint(*, endpoint: Endpoint, by: Actor, changes: Iterable[FieldChange]) -> Endpoint:
    """Saves what an `EndpointForm` checked. The caller has checked that `by` administers the workspace."""
    is_new = endpoint.pk is None
    endpoint.save()
    if is_new:
        _audit(endpoint, by, after="made")
        return endpoint
    for change in changes:
        _audit(endpoint, by, what=f"{change.label} of ", before=change.before, after=change.after)
    return endpoint


@transaction.atomic
def delete_endpoint(*, endpoint: Endpoint, by: Actor) -> None:
    """Deletes the endpoint: its agents answer with the workspace's default from their next run on; whom it stood in for
    has no fallback, or the workspace's."""
    _audit(endpoint, by, after="deleted")
    endpoint.delete()


@transaction.atomic
def forget_adaptations(*, endpoint: Endpoint, by: Actor | str, adaptation_id: int | None = None) -> int:
    """How many things were forgotten that the endpoint wanted of requests: one, or all. It is asked without them again.
    The caller has checked that `by` administers the workspace."""
    Endpoint.objects.select_for_update(no_key=True).get(pk=endpoint.pk)
    rows = endpoint.adaptations.all()
    forgotten = list(rows if adaptation_id is None else rows.filter(pk=adaptation_id))
    for row in forgotten:
        _audit(endpoint, by, what="What was learned of ", before=f"{row.model}: {row.effect}", after="forgotten")
    rows.filter(pk__in=[row.pk for row in forgotten]).delete()
    return len(forgotten)


@transaction.atomic
def forget_learned(*, endpoint: Endpoint, by: Actor) -> None:
    """Forgets what was learned, so that what is set is believed again. The caller has checked that `by` administers the
    workspace."""
    before = f"{endpoint.learned_window:,} tokens" if endpoint.learned_window else ""
    Endpoint.objects.filter(pk=endpoint.pk).update(
        learned_window=None,
        learned_window_at=None,
        learned_window_by="",
        unread_sent=None,
        unread_read=None,
        unread_at=None,
    )
    _audit(endpoint, by, what="learned window of ", before=before, after="forgotten")


def _audit(endpoint: Endpoint, by: Actor | str, *, after: str, before: str = "", what: str = "") -> None:
    record_audit(
        AuditAction.ENDPOINT,
        workspace_id=endpoint.workspace_id,
        by=by,
        subject=f"{what}{endpoint}",
        before=before,
        after=after,
    )
