"""Every address. Upper floors are named as strings only."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/", include("allauth.account.urls")),
    path("api/v1/", include("openvibe.api_urls")),
    path("", include("openvibe.base.health")),
    path("", include("openvibe.workspaces.web.urls")),
    path("w/<slug:slug>/", include("openvibe.chat.web.urls")),
    path("w/<slug:slug>/", include("memory.urls")),
    path("w/<slug:slug>/", include("knowledge.web.urls")),
    path("w/<slug:slug>/", include("agents.web.urls")),
]

handler400 = "openvibe.workspaces.web.views.bad_request"
