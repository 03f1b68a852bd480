"""The link at the foot of an e-mail, which works without a sign-in."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from openvibe.chat.digests import member_to_unsubscribe, stop_digests
from openvibe.workspaces.models import DigestFrequency


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Asks once, since mail programs follow links unasked; POST ends the digests, also that of a mail program (RFC
    8058), which has neither session nor form key: the token alone is the right to."""
    member = member_to_unsubscribe(token)
    if member is None:
        return render(request, "chat/unsubscribe.html", status=404)
    if request.method == "POST":
        stop_digests(member)
    is_off = member.digest == DigestFrequency.OFF
    return render(request, "chat/unsubscribe.html", {"workspace": member.workspace, "is_off": is_off})
