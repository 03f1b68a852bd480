"""Addresses of people and workspaces."""

from django.urls import include, path

from openvibe.workspaces import oidc
from openvibe.workspaces.web import audit, jobs, pictures, views
from openvibe.workspaces.web.email_change import new_address
from openvibe.workspaces.web.sessions import forget_pages, sessions
from openvibe.workspaces.web.signup import finish_signup

account_urlpatterns = [
    path("sessions/", sessions, name="sessions"),
    path("forget.css", forget_pages, name="forget-pages"),
    path("signup/finish/<str:key>/", finish_signup, name="finish_signup"),
    path("email/new/<str:key>/", new_address, name="new_address"),
    path("oidc/<str:provider_id>/login/", oidc.login, name="openid_connect_login"),
    path("oidc/<str:provider_id>/login/callback/", oidc.callback, name="openid_connect_callback"),
]
workspace_urlpatterns = [
    path("profile/", views.profile, name="profile"),
    path("settings/", views.workspace_settings, {"is_index": True}, name="workspace-settings"),
    path("settings/general/", views.workspace_settings, name="settings-general"),
    path("settings/jobs/", jobs.jobs, name="settings-jobs"),
    path("profile/picture/", pictures.picture_change, name="picture-change"),
    path("audit/", audit.audit_log, name="audit"),
    path("snippets/", views.snippets, name="snippets"),
    path("snippets/<int:snippet_id>/", views.snippet_change, name="snippet-change"),
    path("members/", views.members, name="members"),
    path("members/<int:member_id>/", views.member_change, name="member-change"),
    path("invitations/", views.invitation_create, name="invitation-create"),
    path("invitations/<int:invitation_id>/revoke/", views.invitation_revoke, name="invitation-revoke"),
]
urlpatterns = [
    path("", views.home, name="home"),
    path("workspaces/new/", views.workspace_create, name="workspace-create"),
    path("join/<str:token>/", views.join, name="join"),
    path("accounts/", include(account_urlpatterns)),
    path("pictures/<int:participant_id>/<slug:picture_version>.webp", pictures.picture, name="picture"),
    path("theme/", views.save_theme, name="theme"),
    path("w/<slug:slug>/", include(workspace_urlpatterns)),
]
