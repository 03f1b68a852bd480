from django.urls import path

from openvibe.workspaces.api.views import Audit, Me, OneSnippet, OneToken, Snippets, Tokens, WorkspaceSettings

urlpatterns = [
    path("me/", Me.as_view(), name="api-me"),
    path("workspace/", WorkspaceSettings.as_view(), name="api-workspace"),
    path("audit/", Audit.as_view(), name="api-audit"),
    path("snippets/", Snippets.as_view(), name="api-snippets"),
    path("snippets/<int:pk>/", OneSnippet.as_view(), name="api-snippet"),
    path("tokens/", Tokens.as_view(), name="api-tokens"),
    path("tokens/<int:pk>/", OneToken.as_view(), name="api-token"),
]
