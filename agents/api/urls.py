from django.urls import path

from agents.api import joining, schedules, views

urlpatterns = [
    path("knowledge/<int:pk>/uses/", views.EntryUses.as_view(), name="api-entry-uses"),
    path("runs/", views.Runs.as_view(), name="api-runs"),
    path("runs/<int:pk>/", views.OneRun.as_view(), name="api-run"),
    path("runs/<int:pk>/context/", views.RunContext.as_view(), name="api-run-context"),
    path("runs/<int:pk>/reply/", views.Reply.as_view(), name="api-run-reply"),
    path("runs/<int:pk>/steps/", views.RunSteps.as_view(), name="api-run-steps"),
    path("runs/<int:pk>/finish/", views.FinishRun.as_view(), name="api-run-finish"),
    path("runs/<int:pk>/stop/", views.StopRun.as_view(), name="api-run-stop"),
    path("runs/<int:pk>/retry/", views.RetryRun.as_view(), name="api-run-retry"),
    path("runs/<int:pk>/regenerate/", views.RegenerateRun.as_view(), name="api-run-regenerate"),
    path("schedules/", schedules.Schedules.as_view(), name="api-schedules"),
    path("schedules/<int:pk>/", schedules.OneSchedule.as_view(), name="api-schedule"),
    path("schedules/<int:pk>/stop/", schedules.StopSchedule.as_view(), name="api-schedule-stop"),
    path("context/assemble/", views.Assemble.as_view(), name="api-assemble"),
    path("agents/", views.Agents.as_view(), name="api-agents"),
    path("agents/<slug:handle>/", views.OneAgent.as_view(), name="api-agent"),
    path("agents/<slug:handle>/join-codes/", joining.JoinCodes.as_view(), name="api-join-codes"),
    path("join/", joining.Join.as_view(), name="api-join"),
    path("agents/<slug:handle>/cache/", views.AgentCacheHistory.as_view(), name="api-agent-cache"),
    path("agents/<slug:handle>/soul/", views.OneSoul.as_view(), name="api-soul"),
    path("agents/<slug:handle>/soul/rules/", views.SoulRules.as_view(), name="api-soul-rules"),
]
