"""The bells memory rings. Upper floors and receivers listen; both ring inside the transaction that wrote the row."""

from django.dispatch import Signal

# A person decided an approval:
#   approval: Approval, decided: its state is granted or denied
#   by: Access of whoever decided
# What waits for it (a run) goes on, or learns that it may not.
approval_decided = Signal()

# The work of a thread reached a point at which its context is worth compacting:
#   thread: Thread
#   trigger: Compaction.Trigger: milestone (plan approved, plan → execution), approval (the work pauses for one),
#     resume (it was decided, or something closed was taken up again)
#   by: Access of whoever brought it there
milestone_reached = Signal()
