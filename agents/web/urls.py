"""Addresses of agents, runs and what they read, under /w/<slug>/."""

from django.urls import path

from agents.web import (
    agent_forms,
    agent_page,
    budgets,
    connect_model,
    context_viewer,
    endpoints,
    exports,
    feedback_rules,
    runs,
    schedules,
)

urlpatterns = [
    path("budgets/", budgets.budgets, name="budgets"),
    path("settings/agents/", endpoints.agents, name="settings-agents"),
    path("settings/models/", endpoints.endpoints, name="settings-models"),
    path("settings/models/new/", endpoints.endpoint_create, name="settings-model-new"),
    path("settings/models/offered/", endpoints.endpoint_models, name="settings-models-offered"),
    path("settings/models/<int:endpoint_id>/", endpoints.endpoint_change, name="settings-model"),
    path("settings/exports/", exports.exports, name="settings-exports"),
    path("settings/exports/<int:export_id>/", exports.export_download, name="settings-export"),
    path("connect-model/", connect_model.connect_model_page, name="connect-model"),
    path("connect-model/local/", connect_model.local_servers, name="connect-model-local"),
    path("new-agent/", agent_forms.agent_create, name="agent-new"),
    path("agents/<slug:handle>/settings/", agent_forms.agent_settings, name="agent-settings"),
    path("agents/<slug:handle>/soul/", agent_forms.agent_soul, name="agent-soul"),
    path("agents/<slug:handle>/feedback/<int:episode_id>/always/", feedback_rules.apply_always, name="feedback-always"),
    path("agents/<slug:handle>/level/", agent_forms.agent_level, name="agent-level"),
    path("agents/<slug:handle>/", agent_page.agent_detail, name="agent"),
    path("agents/<slug:handle>/view/", agent_page.view_as, name="agent-view"),
    path("agents/<slug:handle>/view/<int:thread_id>/", agent_page.view_thread_as, name="agent-view-thread"),
    path("agents/<slug:handle>/schedules/", schedules.agent_schedules, name="agent-schedules"),
    path("agents/<slug:handle>/schedules/stop/", schedules.schedules_stop, name="schedules-stop"),
    path("schedules/<int:schedule_id>/stop/", schedules.schedule_stop, name="schedule-stop"),
    path("schedules/<int:schedule_id>/delete/", schedules.schedule_delete, name="schedule-delete"),
    path("runs/<int:run_id>/", runs.run_detail, name="run"),
    path("runs/<int:run_id>/stop/", runs.stop, name="run-stop"),
    path("runs/<int:run_id>/retry/", runs.retry, name="run-retry"),
    path("runs/<int:run_id>/regenerate/", runs.regenerate, name="run-regenerate"),
    path("runs/<int:run_id>/context/", context_viewer.run_context, name="run-context"),
    path("runs/<int:run_id>/context/<slug:tab>/", context_viewer.run_context, name="run-context-tab"),
    path("dive/<int:dive_id>/budget/", context_viewer.dive_budget, name="dive-budget"),
    path("runs/<int:run_id>/wrong/<int:entry_id>/", context_viewer.flag_used_entry, name="run-knowledge-wrong"),
    path("t/<int:thread_id>/preview/", context_viewer.context_preview, name="context-preview"),
    path("t/<int:thread_id>/preview/<slug:handle>/", context_viewer.full_preview, name="context-preview-full"),
    path(
        "t/<int:thread_id>/preview/<slug:handle>/<slug:tab>/", context_viewer.full_preview, name="context-preview-tab"
    ),
]
