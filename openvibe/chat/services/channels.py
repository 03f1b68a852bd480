"""Services that create, update and archive channels, and add and remove their members and agents."""

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from openvibe.api.models import Token
from openvibe.api.services import revoke_token
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Channel, ChannelMembership
from openvibe.chat.models.channel import validate_channel_name
from openvibe.chat.services.permissions import check_creates_channels, check_manages_channel, may_manage_channel
from openvibe.chat.wiring import channel_renamed
from openvibe.engines.text.cleaning import TextRefused, clean_body, has_visible_character
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


def _clean_channel_name(name: str) -> str:
    cleaned = name.strip().lstrip("#").lower().replace(" ", "-")
    try:
        validate_channel_name(cleaned)
    except ValidationError as error:
        raise Problem(error.messages[0], code="bad_name", field="name") from None
    return cleaned


def _clean_description(description: str) -> str:
    try:
        return clean_body(description, max_characters=1000) if has_visible_character(description) else ""
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="description") from None


def _emit_changed(channel: Channel) -> None:
    emit("channel_changed", workspace_id=channel.workspace_id, channel_id=channel.pk)


@transaction.atomic
def create_channel(*, by: Access, name: str, description: str = "", is_private: bool = False) -> Channel:
    """A new channel with its maker in it. Guests and agents cannot make channels."""
    check_creates_channels(by)
    clean_name, clean_description = _clean_channel_name(name), _clean_description(description)
    try:
        with transaction.atomic():
            channel = Channel.objects.create(
                workspace_id=by.workspace_id,
                name=clean_name,
                description=clean_description,
                is_private=is_private,
                created_by_id=by.participant_id,
            )
    except IntegrityError:
        raise Conflict(f"There is a channel #{clean_name} already.", field="name") from None
    ChannelMembership.objects.create(channel=channel, participant_id=by.participant_id)
    _emit_changed(channel)
    return channel


@transaction.atomic
def update_channel(*, channel: Channel, by: Access, name: str, description: str) -> Channel:
    check_manages_channel(channel, by)
    previous_name = channel.name
    channel.name, channel.description = _clean_channel_name(name), _clean_description(description)
    try:
        with transaction.atomic():
            channel.save(update_fields=["name", "description", "updated_at"])
    except IntegrityError:
        raise Conflict(f"There is a channel #{channel.name} already.", field="name") from None
    if channel.name != previous_name:
        channel_renamed.send(
            sender=Channel, workspace_id=channel.workspace_id, name=channel.name, previous_name=previous_name
        )
    _emit_changed(channel)
    return channel


@transaction.atomic
def archive_channel(*, channel: Channel, by: Access, archived: bool = True) -> Channel:
    """Archived channels can be read, not written to."""
    check_manages_channel(channel, by)
    channel.archived_at = timezone.now() if archived else None
    channel.save(update_fields=["archived_at", "updated_at"])
    _emit_changed(channel)
    return channel


@transaction.atomic
def add_to_channel(*, channel: Channel, participant: Participant, by: Access) -> ChannelMembership:
    """Adds a member or an agent. Whoever is in a private channel may add to it; any member to a public one."""
    if by.is_agent or by.is_guest:
        raise Refused("Guests and agents cannot add anybody. Ask a member.")
    if not Channel.objects.visible_to(by).filter(pk=channel.pk).exists():
        raise Refused("You can add people only to channels you are in.")
    if participant.workspace_id != channel.workspace_id or not participant.is_active:
        raise Problem("There is nobody of that handle in this workspace.", code="unknown_participant", field="handle")
    if participant.is_agent and not by.administers and channel.created_by_id != by.participant_id:
        raise Refused("Only admins and the person who made the channel may add an agent.")
    membership, is_new = ChannelMembership.objects.get_or_create(channel=channel, participant=participant)
    if is_new:
        audit_membership(channel, participant, by, "added")
        revoke_outsiders_tokens(channel, by)
    _emit_changed(channel)
    emit("access_changed", workspace_id=channel.workspace_id, participant_id=participant.pk)
    return membership


@transaction.atomic
def remove_from_channel(*, channel: Channel, participant: Participant, by: Access) -> None:
    """Takes somebody out; anybody may take themselves out."""
    if by.participant_id != participant.pk and not may_manage_channel(channel, by):
        raise Refused("Only admins and the person who made the channel may remove others.")
    if ChannelMembership.objects.filter(channel=channel, participant=participant).delete()[0]:
        audit_membership(channel, participant, by, "taken out")
        revoke_outsiders_tokens(channel, by)
    _emit_changed(channel)
    emit("access_changed", workspace_id=channel.workspace_id, participant_id=participant.pk)


def revoke_outsiders_tokens(channel: Channel, by: Access | str) -> None:
    """Tokens of agents that read the private channel end when whoever made them is not in it: she may not read there by
    another's token what she does not see herself."""
    if not channel.is_private or channel.is_direct:
        return
    memberships = ChannelMembership.objects.filter(channel=channel).values("participant")
    tokens = Token.objects.filter(participant__kind=Participant.Kind.AGENT, participant__in=memberships)
    for token in tokens.filter(revoked_at=None, made_by__isnull=False).exclude(made_by__in=memberships):
        revoke_token(token=token, by=by)


def audit_membership(channel: Channel, participant: Participant, by: Access | str, change: str) -> None:
    """Records who was added or taken out. A private channel's name is for those in it."""
    place = "a private channel" if channel.is_private else f"#{channel.name}"
    record_audit(
        AuditAction.CHANNEL,
        workspace_id=channel.workspace_id,
        by=by,
        subject=f"@{participant.handle} in {place}",
        after=change,
    )
