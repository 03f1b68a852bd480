"""Every address but the health checks (`openvibe.base.health`). Upper floors are named as strings only."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, re_path

from openvibe.api.views import NotHere, Schema, docs
from openvibe.base.admin.tables import tables_page
from openvibe.chat.web.installed_app import manifest, service_worker
from openvibe.chat.web.unsubscribe import unsubscribe

admin.autodiscover()
api_urlpatterns: list[URLPattern | URLResolver] = [
    path("schema/", Schema.as_view(), name="api-schema"),
    path("docs/", docs, name="api-docs"),
    path("", include("openvibe.workspaces.api.urls")),
    path("", include("openvibe.chat.api.urls")),
    path("", include("openvibe.webhooks.api.urls")),
    path("", include("memory.api_urls")),
    path("", include("knowledge.api.urls")),
    path("", include("agents.api.urls")),
    re_path(r"", NotHere.as_view(), name="api-not-here"),
]
urlpatterns = [
    path("admin/tables/", admin.site.admin_view(tables_page), name="admin-tables"),
    path("admin/", admin.site.urls),
    path("accounts/", include("allauth.account.urls")),
    path("accounts/2fa/", include("allauth.mfa.urls")),
    path("accounts/social/", include("allauth.socialaccount.urls")),
    path("api/v1/", include(api_urlpatterns)),
    path("", include("agents.mcp.urls")),
    path("v1/", include("agents.openai_api.urls")),
    path("", include("openvibe.workspaces.web.urls")),
    path("help/", include("openvibe.help.urls")),
    path("manifest.webmanifest", manifest, name="manifest"),
    path("service-worker.js", service_worker, name="service-worker"),
    path("unsubscribe/<str:token>/", unsubscribe, name="unsubscribe"),
    path("connect-model/", include("agents.web.home_urls")),
    path("", include("agents.web.client_wheel")),
    path("w/<slug:slug>/", include("openvibe.chat.web.urls")),
    path("w/<slug:slug>/", include("openvibe.webhooks.web.urls")),
    path("w/<slug:slug>/", include("memory.urls")),
    path("w/<slug:slug>/", include("knowledge.web.urls")),
    path("w/<slug:slug>/", include("agents.web.urls")),
]

handler400 = "openvibe.workspaces.web.errors.bad_request"
handler500 = "openvibe.workspaces.web.errors.server_error"
