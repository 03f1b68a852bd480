"""The audit log: who changed what, before and after, in words. Rows are only ever added, in the transaction of the
change, by the service that makes it."""

from typing import Protocol

from openvibe.base.models import AuditRecord

AuditAction = AuditRecord.Action


class Actor(Protocol):
    """A participant of a workspace who changes something: every `Access` is one."""

    @property
    def participant_id(self) -> int: ...


def record_audit(
    action: AuditRecord.Action,
    *,
    workspace_id: int | None,
    by: Actor | str | None,
    subject: str,
    before: str = "",
    after: str = "",
    note: str = "",
) -> None:
    """Adds a row; call it inside the transaction of the change.

    `by` is an access, the name of somebody who is no participant (a superuser), or None for the command line. `subject`
    names what was changed, `before` and `after` say how it stood, in words. No secrets, and no names of private rooms.
    """
    AuditRecord.objects.create(
        action=action,
        workspace_id=workspace_id,
        actor_id=None if by is None or isinstance(by, str) else by.participant_id,
        actor=by[:120] if isinstance(by, str) else "the command line",
        subject=subject[:200],
        before=before[:1000],
        after=after[:1000],
        note=note[:300],
    )
