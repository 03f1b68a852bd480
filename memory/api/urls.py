from django.urls import path

from memory.api import blocks, memory
from memory.api.approvals import Approvals, Decide
from memory.api.profile import Profile
from memory.api.progress import Progress
from memory.api.proposals import Accepted, Proposals, Rejected, Undone
from memory.api.sessions import OneSession, SessionMessages, Sessions
from memory.api.views import Applied, Episodes, FeedbackGiven
from memory.api.work import OneWork, Work

urlpatterns = [
    path("feedback/", FeedbackGiven.as_view(), name="api-feedback"),
    path("episodes/", Episodes.as_view(), name="api-episodes"),
    path("episodes/<int:pk>/applied/", Applied.as_view(), name="api-episode-applied"),
    path("work/", Work.as_view(), name="api-work"),
    path("work/<int:pk>/", OneWork.as_view(), name="api-one-work"),
    path("progress/", Progress.as_view(), name="api-progress"),
    path("approvals/", Approvals.as_view(), name="api-approvals"),
    path("approvals/<int:pk>/decide/", Decide.as_view(), name="api-approval-decide"),
    path("memory/tool/", memory.MemoryTool.as_view(), name="api-memory-tool"),
    path("memory/stats/", memory.Stats.as_view(), name="api-memory-stats"),
    path("memory/compact/", memory.Compact.as_view(), name="api-memory-compact"),
    path("memory/compactions/", memory.Compactions.as_view(), name="api-compactions"),
    path("memory/compactions/<int:pk>/", memory.OneCompaction.as_view(), name="api-compaction"),
    path("proposals/", Proposals.as_view(), name="api-proposals"),
    path("proposals/<int:pk>/accept/", Accepted.as_view(), name="api-proposal-accept"),
    path("proposals/<int:pk>/reject/", Rejected.as_view(), name="api-proposal-reject"),
    path("proposals/<int:pk>/undo/", Undone.as_view(), name="api-proposal-undo"),
    path("blocks/", blocks.Blocks.as_view(), name="api-blocks"),
    path("blocks/tools/", blocks.Tools.as_view(), name="api-blocks-tools"),
    path("blocks/text/", blocks.Text.as_view(), name="api-blocks-text"),
    path("blocks/<slug:label>/", blocks.OneBlock.as_view(), name="api-block"),
    path("blocks/<slug:label>/append/", blocks.Appended.as_view(), name="api-block-append"),
    path("sessions/", Sessions.as_view(), name="api-sessions"),
    path("sessions/<int:pk>/", OneSession.as_view(), name="api-session"),
    path("sessions/<int:pk>/messages/", SessionMessages.as_view(), name="api-session-messages"),
    path("profile/", Profile.as_view(), name="api-profile"),
]
