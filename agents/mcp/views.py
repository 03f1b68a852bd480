"""Metadata that tells clients how to sign in (RFC 9728)."""

from django.http import HttpRequest, JsonResponse

from openvibe.api.models import SCOPES


def protected_resource_metadata(request: HttpRequest) -> JsonResponse:
    """What `/mcp` takes: bearer tokens that are made in OpenVibe. It names no authorization server: there is none."""
    metadata = {
        "resource": request.build_absolute_uri("/mcp"),
        "resource_name": "OpenVibe",
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(SCOPES),
        "resource_documentation": request.build_absolute_uri("/api/v1/docs/"),
    }
    return JsonResponse(metadata, headers={"Access-Control-Allow-Origin": "*", "Cache-Control": "max-age=3600"})
