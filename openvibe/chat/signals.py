"""The two bells chat rings."""

from django.dispatch import Signal

# Sent inside the transaction that wrote the message, after its mentions:
#   message: Message
#   mentioned_agents: tuple[int, ...], participants, in order of appearance
#   following_agents: tuple[int, ...], participants that answer everything in the thread
# Only for messages people post; an agent's reply, an import and an edit ring nothing.
message_posted = Signal()

# Sent inside the transaction that edited or deleted the message, as the last thing in it:
#   message: Message, as it is now (`is_deleted` tells which of the two it was)
# Never sent for an edit that changed nothing, and once for each deletion.
message_revised = Signal()
