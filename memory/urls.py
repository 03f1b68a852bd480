"""Memory's pages, under /w/<slug>/."""

from django.urls import path

from memory.blocks import web as blocks_web
from memory.episodes import web as episodes_web
from memory.plugins import settings_page
from memory.plugins import web as memory_map
from memory.work import web as work_web

urlpatterns = [
    path("settings/memory/", settings_page.memory_settings, name="settings-memory"),
    path("m/<int:message_id>/feedback/", episodes_web.feedback, name="feedback"),
    path(
        "episodes/<int:episode_id>/applied/", episodes_web.change_episode, {"verb": "applied"}, name="episode-applied"
    ),
    path(
        "episodes/<int:episode_id>/suggest/", episodes_web.change_episode, {"verb": "suggest"}, name="episode-suggest"
    ),
    path("episodes/<int:episode_id>/reopen/", episodes_web.change_episode, {"verb": "reopen"}, name="episode-reopen"),
    path("episodes/<int:episode_id>/delete/", episodes_web.change_episode, {"verb": "delete"}, name="episode-delete"),
    path("t/<int:thread_id>/work/", work_web.thread_work, name="thread-work"),
    path("t/<int:thread_id>/work/progress/", work_web.progress, name="thread-progress"),
    path("t/<int:thread_id>/work/handoffs/<int:handoff_id>/", work_web.handoff, name="work-handoff"),
    path("work/<int:item_id>/", work_web.work_item, name="work-item"),
    path("approvals/<int:approval_id>/", work_web.approval, name="approval-decide"),
    path("t/<int:thread_id>/memory/", memory_map.thread_memory, name="thread-memory"),
    path("t/<int:thread_id>/memory/prompts/<int:run_id>/", memory_map.thread_memory, name="thread-memory-prompt"),
    path(
        "t/<int:thread_id>/memory/compactions/<int:compaction_id>/",
        memory_map.thread_memory,
        name="thread-memory-compaction",
    ),
    path("t/<int:thread_id>/memory/compact/", memory_map.compact, name="thread-memory-compact"),
    path("t/<int:thread_id>/memory/resume/", memory_map.resume, name="thread-memory-resume"),
    path(
        "t/<int:thread_id>/memory/<int:summary_id>/correct/", memory_map.correct, name="thread-memory-summary-correct"
    ),
    path("t/<int:thread_id>/memory/<int:summary_id>/", memory_map.summary, name="thread-memory-summary"),
    path("proposals/<int:proposal_id>/<slug:verb>/", episodes_web.decide_proposal, name="proposal-decide"),
    path("agents/<slug:handle>/blocks/", blocks_web.agent_blocks, name="agent-blocks"),
    path("agents/<slug:handle>/blocks/<slug:label>/", blocks_web.agent_block, name="agent-block"),
    path("agents/<slug:handle>/notes/", blocks_web.all_notes, name="agent-all-notes"),
    path("agents/<slug:handle>/notes/<slug:person>/", blocks_web.agent_notes, name="agent-notes"),
]
