"""Addresses of feedback and episodes, under /w/<slug>/."""

from django.urls import path

from memory.web import blocks, notes, review, views, work
from memory.web import map as memory_map

urlpatterns = [
    path("m/<int:message_id>/feedback/", views.feedback, name="feedback"),
    path("episodes/<int:episode_id>/applied/", views.episode_applied, name="episode-applied"),
    path("episodes/<int:episode_id>/reopen/", views.episode_reopen, name="episode-reopen"),
    path("episodes/<int:episode_id>/delete/", views.episode_delete, name="episode-delete"),
    path("t/<int:thread_id>/work/", work.thread_work, name="thread-work"),
    path("t/<int:thread_id>/work/progress/", work.progress, name="thread-progress"),
    path("t/<int:thread_id>/work/handoffs/<int:handoff_id>/", work.handoff, name="work-handoff"),
    path("work/<int:item_id>/", work.work_item, name="work-item"),
    path("approvals/<int:approval_id>/", work.approval, name="approval-decide"),
    path("t/<int:thread_id>/memory/", memory_map.thread_memory, name="thread-memory"),
    path("t/<int:thread_id>/memory/compact/", memory_map.compact, name="thread-memory-compact"),
    path("t/<int:thread_id>/memory/<int:summary_id>/", memory_map.summary, name="thread-memory-summary"),
    path("proposals/<int:proposal_id>/<slug:verb>/", review.decide, name="proposal-decide"),
    path("agents/<slug:handle>/blocks/", blocks.agent_blocks, name="agent-blocks"),
    path("agents/<slug:handle>/blocks/<slug:label>/", blocks.agent_block, name="agent-block"),
    path("agents/<slug:handle>/notes/", notes.all_notes, name="agent-all-notes"),
    path("agents/<slug:handle>/notes/<slug:person>/", notes.agent_notes, name="agent-notes"),
]
