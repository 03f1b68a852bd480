"""What knowledge does when chat rings."""

from typing import Any

from django.dispatch import receiver

from knowledge.rot import review_what_lost_its_source
from openvibe.chat.models import Message
from openvibe.chat.signals import message_revised


@receiver(message_revised, dispatch_uid="knowledge.source_gone")
def source_gone(sender: type[Message], message: Message, **_: Any) -> None:
    if message.is_deleted:
        review_what_lost_its_source(message=message)
