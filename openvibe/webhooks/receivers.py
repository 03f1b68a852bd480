"""Receivers: what a receiver of deliveries answered may repeat the message, and goes with it."""

from typing import Any

from django.dispatch import receiver

from openvibe.chat.models import Message
from openvibe.chat.wiring import message_revised
from openvibe.webhooks.models import Delivery


@receiver(message_revised, dispatch_uid="webhooks.forget_answers")
def erase_answers(sender: type[Message], message: Message, **_: Any) -> None:
    Delivery.objects.filter(message_id=message.pk).exclude(response="").update(response="")
