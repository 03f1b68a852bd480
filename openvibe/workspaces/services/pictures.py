"""Sets and removes somebody's picture."""

from django.db import transaction

from openvibe.base.events import emit
from openvibe.workspaces.models import Participant, Picture


@transaction.atomic
def save_picture(*, participant: Participant, content: bytes) -> None:
    """`content`: as `make_picture` gives it. Everybody's pages show it from their next load on."""
    Picture.objects.update_or_create(participant=participant, defaults={"content": content})
    emit("members_changed", workspace_id=participant.workspace_id)


@transaction.atomic
def remove_picture(*, participant: Participant) -> None:
    """Their initial is shown instead. Nothing happens without a picture."""
    if Picture.objects.filter(participant=participant).delete()[0]:
        emit("members_changed", workspace_id=participant.workspace_id)
