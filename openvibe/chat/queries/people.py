"""Reads of one person, agent or imported speaker, for the card that a click on a name opens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from openvibe.base.problems import Missing
from openvibe.chat.models import Message, participants_known_to
from openvibe.engines.database.time_zones import time_zone_or_utc
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import is_here


@dataclass(frozen=True)
class PersonCard:
    """What a card says of somebody. `local_time` is a person's who chose a time zone, else None; `is_known`: active,
    and known to the asker, who may write to them unless they are her own."""

    who: Participant
    is_here: bool
    local_time: datetime | None
    is_known: bool
    can_be_written_to: bool

    @property
    def is_imported(self) -> bool:
        return self.who.kind in (Participant.Kind.IMPORTED, Participant.Kind.ASSISTANT)


def access_person(access: Access, handle: str) -> PersonCard:
    """Somebody of the asker's workspace, also one who left or came with an import; for guests those whom they know and
    those whose messages they see. Raises Missing. One query."""
    people = Participant.objects.filter(workspace_id=access.workspace_id, handle=handle)
    known = participants_known_to(access).order_by().values("pk")
    people = people.annotate(is_here=is_here("pk"), is_known=Q(pk__in=known))
    if access.is_guest:
        seen = Message.objects.visible_to(access).filter(author=OuterRef("pk")).order_by()
        people = people.filter(Q(is_known=True) | Exists(seen))
    who = people.select_related("agent", "member__user").first()
    if who is None:
        raise Missing
    member = getattr(who, "member", None)
    zone = member.user.time_zone if member is not None and who.is_active else ""
    facts = vars(who)
    return PersonCard(
        who,
        is_here=facts["is_here"],
        local_time=timezone.now().astimezone(time_zone_or_utc(zone)) if zone else None,
        is_known=facts["is_known"],
        can_be_written_to=facts["is_known"] and who.pk != access.participant_id,
    )
