"""Memory's endpoints, under /api/v1/."""

from django.urls import path

from memory.blocks import api as blocks_api
from memory.blocks.api import Profile
from memory.episodes.api import (
    AcceptProposal,
    Episodes,
    FeedbackList,
    MarkApplied,
    Proposals,
    RejectProposal,
    SuggestAlways,
    UndoProposal,
)
from memory.plugins import api as plugins_api
from memory.plugins.session_api import OneSession, SessionMessages, Sessions
from memory.work.api import Approvals, Decide, DecideConstraint, OneWork, Progress, Work

urlpatterns = [
    path("feedback/", FeedbackList.as_view(), name="api-feedback"),
    path("episodes/", Episodes.as_view(), name="api-episodes"),
    path("episodes/<int:pk>/applied/", MarkApplied.as_view(), name="api-episode-applied"),
    path("episodes/<int:pk>/suggest/", SuggestAlways.as_view(), name="api-episode-suggest"),
    path("work/", Work.as_view(), name="api-work"),
    path("work/<int:pk>/", OneWork.as_view(), name="api-one-work"),
    path("work/<int:pk>/decide/", DecideConstraint.as_view(), name="api-work-decide"),
    path("progress/", Progress.as_view(), name="api-progress"),
    path("approvals/", Approvals.as_view(), name="api-approvals"),
    path("approvals/<int:pk>/decide/", Decide.as_view(), name="api-approval-decide"),
    path("memory/tool/", plugins_api.MemoryTool.as_view(), name="api-memory-tool"),
    path("memory/stats/", plugins_api.Stats.as_view(), name="api-memory-stats"),
    path("memory/compact/", plugins_api.Compact.as_view(), name="api-memory-compact"),
    path("memory/resume/", plugins_api.ResumeCompaction.as_view(), name="api-memory-resume"),
    path("memory/summaries/<int:pk>/", plugins_api.OneSummary.as_view(), name="api-memory-summary"),
    path("memory/compactions/", plugins_api.Compactions.as_view(), name="api-compactions"),
    path("memory/compactions/<int:pk>/", plugins_api.OneCompaction.as_view(), name="api-compaction"),
    path("proposals/", Proposals.as_view(), name="api-proposals"),
    path("proposals/<int:pk>/accept/", AcceptProposal.as_view(), name="api-proposal-accept"),
    path("proposals/<int:pk>/reject/", RejectProposal.as_view(), name="api-proposal-reject"),
    path("proposals/<int:pk>/undo/", UndoProposal.as_view(), name="api-proposal-undo"),
    path("blocks/", blocks_api.Blocks.as_view(), name="api-blocks"),
    path("blocks/tools/", blocks_api.Tools.as_view(), name="api-blocks-tools"),
    path("blocks/text/", blocks_api.Text.as_view(), name="api-blocks-text"),
    path("blocks/<slug:label>/", blocks_api.OneBlock.as_view(), name="api-block"),
    path("blocks/<slug:label>/append/", blocks_api.AppendToBlock.as_view(), name="api-block-append"),
    path("sessions/", Sessions.as_view(), name="api-sessions"),
    path("sessions/<int:pk>/", OneSession.as_view(), name="api-session"),
    path("sessions/<int:pk>/messages/", SessionMessages.as_view(), name="api-session-messages"),
    path("profile/", Profile.as_view(), name="api-profile"),
]
