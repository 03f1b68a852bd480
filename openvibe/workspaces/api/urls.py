from django.urls import path

from openvibe.workspaces.api.views import Me, OneToken, Tokens

urlpatterns = [
    path("me/", Me.as_view(), name="api-me"),
    path("tokens/", Tokens.as_view(), name="api-tokens"),
    path("tokens/<int:pk>/", OneToken.as_view(), name="api-token"),
]
