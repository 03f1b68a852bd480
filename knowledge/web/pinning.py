"""Pinning what a dive brought, or what somebody said: a form that is already filled in."""

from __future__ import annotations

import re

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from knowledge.models import LIVING, TOPIC, Entry
from knowledge.services import AlreadyPinned, pin_result, visibility_from
from knowledge.services.revising import check_may_manage
from knowledge.web.forms import Typed, typed_in
from knowledge.web.listing import topics_known
from knowledge.web.shown import entries_shown
from knowledge.web.writing import Form, form_page, fresh, saved, superseded_by
from openvibe.base.problems import Missing, Problem
from openvibe.chat.markdown import plain_text
from openvibe.chat.models import DiveResult, Message, Thread
from openvibe.chat.web.finding import message_of
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

GUESSED_TOPIC = 60
_FIRST_PART = re.compile(r"[.:;,?!–—(]\s")
_WORD = re.compile(r"\w+")


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def pin(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The form, filled in from the message; POST pins it. A result that is pinned already says where."""
    message = message_of(request, message_id)
    if message.is_deleted:
        raise Missing("This message was deleted.")
    check_may_manage(request.access)
    if request.method != "POST":
        return _begun(request, message)
    typed = typed_in(request)
    try:
        entry = pin_result(
            message=message, by=request.access, supersedes=superseded_by(request, typed),
            client_id=typed.client_id, note=typed.note, **typed.everything(request),
        )  # fmt: skip
    except AlreadyPinned as problem:
        return _standing(request, message, typed, problem)
    except Missing:
        raise
    except Problem as problem:
        return _form(request, message, typed, problem)
    return saved(request, entry)


def _begun(request: WorkspaceRequest, message: Message) -> HttpResponse:
    if message.kind == Message.Kind.DIVE_RESULT and _pinned(request, message):
        return _standing(request, message)
    return _form(request, message, fresh(begun_from(request, message), request))


def begun_from(request: WorkspaceRequest, message: Message) -> Typed:
    """What the form says before anybody typed: a result's headline and bullets, or the message's own text."""
    result = DiveResult.objects.filter(message=message).first()
    if result is None:
        return Typed(
            topic=guessed_topic(message.body, topics_known(request)),
            content=message.body,
            visibility=visibility_from(message.thread),
        )
    bullets = "\n".join(f"- {bullet}" for bullet in result.bullets)
    return Typed(
        topic=guessed_topic(f"{result.headline}\n{bullets}", topics_known(request)),
        content=f"{result.headline}\n\n{bullets}",
        kind=Entry.Kind.DECISION,
        visibility=visibility_from(message.thread),
    )


def guessed_topic(text: str, known: list[str]) -> str:
    """A known topic whose every word is in the first line, the longest first; else how that line begins."""
    headline = plain_text(text.strip().split("\n", 1)[0])
    said = _words(headline)
    held = [topic for topic in known if (words := _words(topic)) and words <= said]
    if held:
        return max(held, key=len)
    first = _FIRST_PART.split(headline, maxsplit=1)[0].rstrip(".:;,?! ")
    if len(first) <= GUESSED_TOPIC:
        return first
    return first[:GUESSED_TOPIC].rsplit(" ", 1)[0][:TOPIC]


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _pinned(request: WorkspaceRequest, message: Message) -> list[Entry]:
    entries = Entry.objects.visible_to(request.access).with_people()
    return list(entries.filter(source_message=message, status__in=LIVING))


def _form(request: WorkspaceRequest, message: Message, typed: Typed, problem: Problem | None = None) -> HttpResponse:
    is_result = message.kind == Message.Kind.DIVE_RESULT
    form = Form("Pin to knowledge", "Save", message=message, hint=_who_reads(message.thread))
    before = [] if is_result else entries_shown(_pinned(request, message))
    return form_page(request, form, typed, problem, thread=message.thread, pinned_before=before)


def _who_reads(thread: Thread) -> str:
    """Why the form begins restricted, where it does."""
    if thread.access == Thread.Access.HUMAN_ONLY:
        return "This was said where no agent reads along: no agent will see this entry, whatever you choose."
    if thread.access == Thread.Access.AGENT_RESTRICTED:
        return "Only the listed agents read this thread: no other agent will see this entry, whatever you choose."
    if thread.channel.is_private:
        return (
            "This was said in a private channel. Restricted, only admins, its owner and agents at L4 read it; "
            "shared, everybody in the workspace does, and agents from L3."
        )
    return ""


def _standing(
    request: WorkspaceRequest, message: Message, typed: Typed | None = None, problem: Problem | None = None
) -> HttpResponse:
    """The result is pinned: where, and what was typed meanwhile, kept."""
    page = {"message": message, "rows": entries_shown(_pinned(request, message)), "typed": typed, "problem": problem}
    name = "knowledge/_pinned.html" if request.htmx else "knowledge/pinned.html"
    return render(request, name, page, status=problem.status if problem else 200)
