"""The agents' API, `/api/v1/`. Upper floors are named as strings only."""

from django.urls import include, path, re_path

from openvibe.api.views import NotHere, Schema, docs

urlpatterns = [
    path("schema/", Schema.as_view(), name="api-schema"),
    path("docs/", docs, name="api-docs"),
    path("", include("openvibe.workspaces.api.urls")),
    path("", include("openvibe.chat.api.urls")),
    path("", include("memory.api_urls")),
    path("", include("knowledge.api.urls")),
    path("", include("agents.api.urls")),
    re_path(r"", NotHere.as_view(), name="api-not-here"),
]
