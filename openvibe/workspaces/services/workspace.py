"""Creates and changes workspaces, their members and their invitations; meters what models are asked in the background.

Runs count what they ask themselves; `meter_client` is for what nobody waits for: summaries, reviews, judging
contradictions. It waits when the day's budget is used up."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.text import slugify

from openvibe.api.models import Token
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.base.registers import Register
from openvibe.base.text import MAX_HANDLE_CHARACTERS
from openvibe.base.time_zones import is_time_zone
from openvibe.llm.errors import BudgetExceeded
from openvibe.llm.protocol import ModelClient, ModelStream
from openvibe.llm.tokens import count_prompt_tokens, counter_for
from openvibe.llm.values import ChatMessage, Completion, StreamEnd, ToolSpec, Usage
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Invitation, Member, Participant, Spending, User, Workspace, handle_validator
from openvibe.workspaces.services.instructions import WORKSPACE_CHECK, clean_instructions
from openvibe.workspaces.services.presence import forget_presence


@transaction.atomic
def create_workspace(*, name: str, owner: User, slug: str = "", handle: str = "") -> Member:
    """A new workspace with its owner as the first member."""
    name = name.strip()
    if not name or "\x00" in name or len(name) > 80:
        raise Problem("Give the workspace a name of 1 to 80 characters.", code="bad_name", field="name")
    base = slugify(slug or name)[:34] or "workspace"
    free_slug, number = base, 1
    while Workspace.objects.filter(slug=free_slug).exists():
        number += 1
        free_slug = f"{base}-{number}"
    workspace = Workspace.objects.create(name=name, slug=free_slug)
    member = _create_member(workspace, owner, Member.Role.OWNER, handle or _free_handle(_display_name(owner), set()))
    subject = f"@{member.participant.handle}"
    record_audit(AuditAction.MEMBER, workspace_id=workspace.pk, by=member, subject=subject, after="made it, as owner")
    emit("members_changed", workspace_id=workspace.pk)
    return member


@transaction.atomic
def update_workspace(*, workspace: Workspace, by: Access, name: str, description: str, instructions: str) -> Workspace:
    """Change what the workspace is called and what its agents are told about it."""
    if not by.administers or by.workspace_id != workspace.pk:
        raise Refused("Only owners and admins may change the workspace.")
    name = name.strip()
    if not name or len(name) > 80 or "\x00" in name + description + instructions:
        raise Problem("Give the workspace a name of 1 to 80 plain characters.", code="bad_name", field="name")
    if len(description) > 1000:
        raise Problem("A description has at most 1,000 characters.", code="too_long", field="description")
    if instructions.strip() != workspace.instructions.strip():
        instructions = clean_instructions(instructions, workspace_id=workspace.pk)
        _check_prompts(workspace, instructions)
    values = {"name": name, "description": description.strip(), "instructions": instructions.strip()}
    for field, after in values.items():
        if (before := getattr(workspace, field)) != after:
            changed = {"subject": field, "before": before, "after": after}
            record_audit(AuditAction.SETTINGS, workspace_id=workspace.pk, by=by, **changed)
            setattr(workspace, field, after)
    workspace.save(update_fields=["name", "description", "instructions", "updated_at"])
    emit("workspace_changed", workspace_id=workspace.pk)
    return workspace


def _check_prompts(workspace: Workspace, instructions: str) -> None:
    """Raise Problem that names the field when agents could not be given a prompt with these instructions."""
    changed = copy(workspace)
    changed.instructions = instructions
    try:
        WORKSPACE_CHECK.only()(changed)
    except Problem as problem:
        raise Problem(problem.message, code=problem.code, field="instructions") from None


RESERVED_HANDLES = frozenset({"all", "channel", "everyone", "here", "system", "openvibe"})


def generate_handle(workspace: Workspace, text: str) -> str:
    """`text` made a valid handle, with a number when it is taken."""
    base = _handle_base(text)
    similar = Participant.objects.filter(workspace=workspace, handle__startswith=base[: MAX_HANDLE_CHARACTERS - 4])
    return _free_handle(text, set(similar.values_list("handle", flat=True)))


def _handle_base(text: str) -> str:
    return slugify(text).strip("-_")[:MAX_HANDLE_CHARACTERS] or "person"


def _free_handle(text: str, taken: set[str]) -> str:
    base = _handle_base(text)
    handle, number = base, 1
    while handle in taken or handle in RESERVED_HANDLES:
        number += 1
        suffix = f"-{number}"
        handle = base[: MAX_HANDLE_CHARACTERS - len(suffix)] + suffix
    return handle


def check_handle(handle: str) -> str:
    try:
        handle_validator(handle)
    except ValidationError as error:
        raise Problem(error.messages[0], code="bad_handle", field="handle") from None
    if handle in RESERVED_HANDLES:
        raise Problem(f"@{handle} is reserved. Choose another handle.", code="bad_handle", field="handle")
    return handle


@transaction.atomic
def add_member(*, workspace: Workspace, user: User, role: str = Member.Role.MEMBER, handle: str = "") -> Member:
    """Make the user a member, or bring back a removed one with the new role. A standing member is a Conflict."""
    Workspace.objects.select_for_update().get(pk=workspace.pk)
    member = Member.objects.filter(workspace=workspace, user=user).select_related("participant").first()
    if member is None:
        member = _create_member(workspace, user, role, handle or generate_handle(workspace, _display_name(user)))
    elif member.removed_at is None:
        raise Conflict("You are a member of this workspace already.")
    else:
        member.removed_at, member.role = None, role
        member.save(update_fields=["removed_at", "role"])
        Participant.objects.filter(pk=member.participant_id).update(is_active=True)
        rooms = member.participant.channel_memberships.filter(channel__first_participant=None)
        rooms.delete()  # those of before are not given by coming back; what she and another said stays theirs
    subject, after = f"@{member.participant.handle}", f"joined, as {member.role}"
    record_audit(AuditAction.MEMBER, workspace_id=workspace.pk, by=member, subject=subject, after=after)
    emit("members_changed", workspace_id=workspace.pk)
    return member


def _display_name(user: User) -> str:
    return user.name or user.email.split("@")[0]


def _create_member(workspace: Workspace, user: User, role: str, handle: str) -> Member:
    """Raises Problem for a handle that cannot be one, Conflict for one that is taken."""
    check_handle(handle)
    try:
        with transaction.atomic():
            participant = Participant.objects.create(
                workspace=workspace, kind=Participant.Kind.MEMBER, handle=handle, name=user.name or handle
            )
    except IntegrityError:
        raise Conflict(f"@{handle} is taken in this workspace. Choose another handle.", field="handle") from None
    return Member.objects.create(participant=participant, workspace=workspace, user=user, role=role)


def _check_not_last_owner(member: Member) -> None:
    others = Member.objects.select_for_update().filter(
        workspace_id=member.workspace_id, role=Member.Role.OWNER, removed_at=None
    )
    if member.role == Member.Role.OWNER and not others.exclude(pk=member.pk).exists():
        raise Refused("A workspace keeps at least one owner. Make somebody else an owner first.", code="last_owner")


def _check_may_change(by: Access, member: Member) -> None:
    if not by.administers or by.workspace_id != member.workspace_id:
        raise Refused("Only owners and admins may change members.")
    if member.role == Member.Role.OWNER and by.role != "owner":
        raise Refused("Only an owner may change an owner.")


@transaction.atomic
def remove_member(*, member: Member, by: Access) -> Member:
    """End somebody's access at once, and what they could come back with: tokens and open invitations they made.

    What they said stays, under their name.
    """
    if by.participant_id != member.participant_id:
        _check_may_change(by, member)
    _check_not_last_owner(member)
    record_audit(
        AuditAction.MEMBER,
        workspace_id=member.workspace_id,
        by=by,
        subject=f"@{member.participant.handle}",
        before=member.role,
        after="left" if by.participant_id == member.participant_id else "removed",
    )
    member.removed_at = timezone.now()
    member.save(update_fields=["removed_at"])
    Participant.objects.filter(pk=member.participant_id).update(is_active=False)
    Token.objects.filter(participant=member.participant_id, revoked_at=None).update(revoked_at=member.removed_at)
    _revoke_invitations_of(member)
    emit("members_changed", workspace_id=member.workspace_id)
    emit("access_changed", workspace_id=member.workspace_id, participant_id=member.participant_id)
    return member


def _revoke_invitations_of(member: Member) -> None:
    invitations = Invitation.objects.filter(created_by=member.participant_id, revoked_at=None)
    invitations.update(revoked_at=timezone.now())


@transaction.atomic
def update_member_role(*, member: Member, role: str, by: Access) -> Member:
    """Give a member another role. Owners are made by owners only."""
    if role not in Member.Role.values:
        raise Problem("Choose owner, admin, member or guest.", code="bad_role", field="role")
    _check_may_change(by, member)
    if role == Member.Role.OWNER and by.role != "owner":
        raise Refused("Only an owner may make an owner.")
    if role != Member.Role.OWNER:
        _check_not_last_owner(member)
    if member.role != role:
        subject, before = f"@{member.participant.handle}", member.role
        record_audit(
            AuditAction.ROLE, workspace_id=member.workspace_id, by=by, subject=subject, before=before, after=role
        )
    member.role = role
    member.save(update_fields=["role"])
    if role not in (Member.Role.OWNER, Member.Role.ADMIN):
        _revoke_invitations_of(member)
    emit("members_changed", workspace_id=member.workspace_id)
    emit("access_changed", workspace_id=member.workspace_id, participant_id=member.participant_id)
    return member


@transaction.atomic
def update_profile(
    *,
    member: Member,
    name: str,
    theme: str,
    enter_sends: bool,
    shortcuts: bool,
    is_invisible: bool = False,
    time_zone: str = "",
) -> Member:
    """Change one's own name, theme, time zone (everywhere; empty: as the browser says), and habits in this workspace.

    Who is invisible is here for nobody.
    """
    name = " ".join(name.split())
    if not name or len(name) > 80 or "\x00" in name:
        raise Problem("Give a name of 1 to 80 characters.", code="bad_name", field="name")
    if theme not in ("system", "light", "dark"):
        raise Problem("Choose system, light or dark.", code="bad_theme", field="theme")
    if time_zone and not is_time_zone(time_zone):
        raise Problem("Choose a time zone of the list.", code="bad_zone", field="time_zone")
    member.user.name, member.user.theme, member.user.time_zone = name, theme, time_zone
    member.user.save(update_fields=["name", "theme", "time_zone"])
    Participant.objects.filter(member__user=member.user).update(name=name)
    member.enter_sends, member.shortcuts, member.is_invisible = enter_sends, shortcuts, is_invisible
    member.save(update_fields=["enter_sends", "shortcuts", "is_invisible"])
    if is_invisible:
        forget_presence(member)
    emit("members_changed", workspace_id=member.workspace_id)
    return member


def pause_notifications(*, user: User, until: datetime | None) -> None:
    """Do not disturb until then; None lets notifications come again. Daily hours stay as they are."""
    user.dnd_until = until
    user.save(update_fields=["dnd_until"])


def set_quiet_hours(*, user: User, start: time | None, end: time | None, zone: str) -> None:
    """Do not disturb daily from `start` to `end`; without both, never. Whoever chose no time zone keeps `zone`, which
    her browser says: hours mean nothing without one."""
    if (start is None) != (end is None):
        raise Problem("Give both times, or none.", code="bad_hours", field="dnd_start" if start is None else "dnd_end")
    if start is not None and start == end:
        raise Problem("Give two different times, or none.", code="bad_hours", field="dnd_end")
    user.dnd_start, user.dnd_end = start, end
    if start is not None and not user.time_zone and is_time_zone(zone):
        user.time_zone = zone
    user.save(update_fields=["dnd_start", "dnd_end", "time_zone"])


@transaction.atomic
def create_invitation(
    *, workspace: Workspace, by: Access, role: str, days: int = 7, uses: int = 1, channel_ids: Iterable[int] = ()
) -> tuple[Invitation, str]:
    """An invitation and the secret of its link, which is not kept. `days` 1 to 30, `uses` 1 to 100."""
    if not by.administers or by.workspace_id != workspace.pk:
        raise Refused("Only owners and admins may invite.")
    if role not in ("admin", "member", "guest"):
        raise Problem("Invite as admin, member or guest.", code="bad_role", field="role")
    if not 1 <= days <= 30:
        raise Problem("An invitation lasts 1 to 30 days.", code="bad_days", field="days")
    if not 1 <= uses <= 100:
        raise Problem("An invitation is good for 1 to 100 people.", code="bad_uses", field="uses")
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        workspace=workspace,
        token_hash=Token.digest(token),
        role=role,
        created_by_id=by.participant_id,
        expires_at=timezone.now() + timedelta(days=days),
        uses_left=uses,
    )
    channels = invitation.channels.model._default_manager.visible_to(by)
    invitation.channels.set(channels.filter(pk__in=list(channel_ids)))
    after = f"for {uses} as {role}, for {days} days"
    record_audit(AuditAction.INVITATION, workspace_id=workspace.pk, by=by, subject="a link", after=after)
    return invitation, token


def access_invitation(token: str) -> Invitation:
    """The invitation of a link. Raises Missing when it is unknown, expired, used up or taken back."""
    invitation = Invitation.objects.select_related("workspace").filter(token_hash=Token.digest(token)).first()
    if invitation is None or not invitation.is_open:
        raise Missing(f"{_closed_reason(invitation)} Ask the person who sent it for a new one.")
    return invitation


def _closed_reason(invitation: Invitation | None) -> str:
    """Told to holders of the link alone: nobody guesses one."""
    if invitation is None:
        return "This is no invitation; perhaps a part of the link is missing."
    if invitation.revoked_at is not None:
        return "This invitation was taken back."
    if invitation.uses_left <= 0:
        return "This invitation has been used up: as many people joined by it as it was made for."
    return f"This invitation expired on {date_format(invitation.expires_at, 'j F Y')}."


@transaction.atomic
def accept_invitation(*, token: str, user: User) -> Member:
    """Join by link. Two people racing for the last place: one joins, the other is told.

    A link made before somebody was removed does not bring them back.
    """
    invitation = access_invitation(token)
    member = Member.objects.filter(workspace=invitation.workspace, user=user).first()
    if member is not None:
        if member.removed_at is None:
            return member
        if invitation.created_at < member.removed_at:
            raise Missing("Your access was ended after this invitation was made. Ask for a new one.")
    claimed = Invitation.objects.filter(
        pk=invitation.pk, uses_left__gt=0, revoked_at=None, expires_at__gt=timezone.now()
    ).update(uses_left=F("uses_left") - 1)
    if not claimed:
        raise Missing("This invitation has just been used up. Ask the person who sent it for a new one.")
    member = add_member(workspace=invitation.workspace, user=user, role=invitation.role)
    for channel in invitation.channels.all():
        channel.memberships.get_or_create(participant=member.participant)
    return member


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, by: Access) -> None:
    """Its link lets nobody in any more. Taking it back twice changes nothing."""
    if not by.administers or by.workspace_id != invitation.workspace_id:
        raise Refused("Only owners and admins may take an invitation back.")
    if Invitation.objects.filter(pk=invitation.pk, revoked_at=None).update(revoked_at=timezone.now()):
        subject = f"a link as {invitation.role}"
        record_audit(
            AuditAction.INVITATION, workspace_id=invitation.workspace_id, by=by, subject=subject, after="taken back"
        )


TOKENS_LEFT: Register[Callable[[int, int | None], int]] = Register("openvibe.workspaces.services.workspace.TOKENS_LEFT")
"""Tokens that may still be used today, never below 0, of a workspace (its id) and, where one is named, of an agent (a
participant's id)."""

BUDGET_CHECK: Register[Callable[[object], None]] = Register("openvibe.workspaces.services.workspace.BUDGET_CHECK")
"""Raises ValueError, with a sentence for people, for token budgets of prompts that do not hold."""


def meter_client(
    client: ModelClient, *, workspace_id: int, purpose: Spending.Purpose, agent_id: int | None = None
) -> ModelClient:
    """The same client, each call of it recorded and held against the budgets of the workspace and, where one is named,
    of the agent (a participant's id). One that costs nothing stays as it is."""
    if client.is_free:
        return client
    return _MeteredClient(client, workspace_id, purpose, agent_id)


@dataclass(frozen=True)
class _MeteredClient:
    """Raises BudgetExceeded, before anything is sent, where the prompt alone would go over the budget."""

    client: ModelClient
    workspace_id: int
    purpose: Spending.Purpose
    agent_id: int | None
    is_free = False

    @property
    def model(self) -> str:
        return self.client.model

    def complete(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> Completion:
        spending = self._start_spending(messages, tools)
        completion = self.client.complete(messages, tools=tools, max_output_tokens=max_output_tokens)
        _record_usage(spending, completion.usage)
        return completion

    def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> ModelStream:
        spending = self._start_spending(messages, tools)
        for event in self.client.stream(messages, tools=tools, max_output_tokens=max_output_tokens):
            if isinstance(event, StreamEnd):
                _record_usage(spending, event.completion.usage)
            yield event

    def _start_spending(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Spending:
        """What is about to be sent counts however it ends; what the provider says takes its place."""
        estimated = count_prompt_tokens(messages, tools, counter_for(self.model))
        if estimated > TOKENS_LEFT.only()(self.workspace_id, self.agent_id):
            owner = "workspace's" if self.agent_id is None else "agent's or the workspace's"
            raise BudgetExceeded(f"The {owner} token budget for today is used up, so no model was asked.")
        return Spending.objects.create(
            workspace_id=self.workspace_id,
            agent_id=self.agent_id,
            purpose=self.purpose,
            model=self.model[:120],
            input_tokens=estimated,
        )


def _record_usage(spending: Spending, usage: Usage) -> None:
    spending.input_tokens = usage.input_tokens or spending.input_tokens
    spending.output_tokens, spending.cached_tokens = usage.output_tokens, usage.cached_tokens
    spending.save(update_fields=["input_tokens", "output_tokens", "cached_tokens"])
