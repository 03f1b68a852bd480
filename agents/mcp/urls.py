from django.urls import path

from agents.mcp.views import protected_resource_metadata

urlpatterns = [
    path(".well-known/oauth-protected-resource", protected_resource_metadata, name="mcp-metadata"),
    path(".well-known/oauth-protected-resource/mcp", protected_resource_metadata, name="mcp-metadata-of-path"),
]
