"""What makes a browser take OpenVibe for an app: its manifest, and the worker that shows notifications. Both are the
same for everybody and need no sign-in."""

from functools import cache

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_safe

LIGHT_GROUND, DARK_GROUND = "#fbfaf7", "#1b1a18"
"""`--ground` of `static/css/palette.css`: what the window's frame is coloured with."""
ICONS = (
    ("icon-192.png", "192x192", "any"),
    ("icon-512.png", "512x512", "any"),
    ("icon-maskable.png", "512x512", "maskable"),
)
KEPT_SECONDS = 3_600


@require_safe
def manifest(request: HttpRequest) -> HttpResponse:
    """The web app manifest (W3C)."""
    home = reverse("home")
    icons = [
        {"src": static(f"img/{name}"), "sizes": size, "type": "image/png", "purpose": purpose}
        for name, size, purpose in ICONS
    ]
    icons.append({"src": static("img/mark.svg"), "sizes": "any", "type": "image/svg+xml", "purpose": "any"})
    body = {
        "name": "OpenVibe",
        "short_name": "OpenVibe",
        "description": "Where a team and its AI agents talk in threads.",
        "id": home,
        "start_url": home,
        "scope": home,
        "display": "standalone",
        "background_color": LIGHT_GROUND,
        "theme_color": LIGHT_GROUND,
        "icons": icons,
    }
    headers = {"Cache-Control": f"public, max-age={KEPT_SECONDS}"}
    return JsonResponse(body, content_type="application/manifest+json", headers=headers)


@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """The service worker, at the root: it may show notifications of all workspaces. Browsers ask for it anew each time,
    to find a newer one."""
    return HttpResponse(_worker_script(), content_type="text/javascript", headers={"Cache-Control": "no-cache"})


@cache
def _worker_script() -> str:
    return (settings.BASE_DIR / "static/js/service_worker.js").read_text(encoding="utf-8")
