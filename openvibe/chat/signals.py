"""The one bell chat rings."""

from django.dispatch import Signal

# Sent inside the transaction that wrote the message, after its mentions:
#   message: Message, mentioned: tuple[Participant, ...] (in order of appearance)
# Only for messages people post; an agent's reply, an import and an edit ring nothing.
message_posted = Signal()
