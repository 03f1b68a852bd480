"""Addresses of agents, runs and what they read, under /w/<slug>/."""

from django.urls import path

from agents.web import agent_page, knowledge_used, preview, runs, viewer

urlpatterns = [
    path("agents/<slug:handle>/", agent_page.agent, name="agent"),
    path("agents/<slug:handle>/view/", agent_page.view_as, name="agent-view"),
    path("agents/<slug:handle>/view/<int:thread_id>/", agent_page.view_thread_as, name="agent-view-thread"),
    path("runs/<int:run_id>/stop/", runs.stop, name="run-stop"),
    path("runs/<int:run_id>/retry/", runs.retry, name="run-retry"),
    path("runs/<int:run_id>/regenerate/", runs.regenerate, name="run-regenerate"),
    path("runs/<int:run_id>/context/", viewer.context, name="run-context"),
    path("runs/<int:run_id>/context/<slug:tab>/", viewer.context, name="run-context-tab"),
    path("dive/<int:dive_id>/budget/", preview.dive_budget, name="dive-budget"),
    path("runs/<int:run_id>/wrong/<int:entry_id>/", knowledge_used.wrong, name="run-knowledge-wrong"),
    path("t/<int:thread_id>/preview/", preview.context_preview, name="context-preview"),
    path("t/<int:thread_id>/preview/<slug:handle>/", preview.full_preview, name="context-preview-full"),
    path("t/<int:thread_id>/preview/<slug:handle>/<slug:tab>/", preview.full_preview, name="context-preview-tab"),
]
