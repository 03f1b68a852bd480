"""The bells chat rings."""

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

# Sent inside the transaction that did it, the dive's row locked:
#   dive: Dive
# `dive_started` before the first message is posted; `dive_ended` once it is published (`dive.result` is the message)
# or discarded. Whoever works in the dive stops; a listener may raise a Problem, and then the dive goes on.
dive_started = Signal()
dive_ended = Signal()

# Sent inside the transaction that asked for the draft of a result:
#   message: Message, of kind system, in the dive's thread: the reply to it is the draft
#   dive: Dive
# A listener raises Conflict when the agent is not free yet.
draft_wanted = Signal()
