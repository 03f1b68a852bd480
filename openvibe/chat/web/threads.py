"""The thread page and its pages of messages; one message: its fragment, history, edit and delete."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from django.db import transaction
from django.http import HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import reswap, retarget

from openvibe.base.params import int_param
from openvibe.base.problems import Conflict, Missing, Problem
from openvibe.chat import services
from openvibe.chat.attachments import read_uploads
from openvibe.chat.live.typing import note_typing
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import (
    EXPORT_TYPES,
    NamedAgent,
    ScopedInstructions,
    SidebarParticipant,
    ThreadSurroundings,
    access_attachment,
    access_message,
    access_original,
    access_thread,
    agents_with_access,
    export_filename,
    export_thread,
    members_with_access,
    participants_nameable_by,
    read_surroundings,
    scoped_instructions,
)
from openvibe.chat.services.permissions import departure, may_manage_thread
from openvibe.chat.web.notifications import NotifyMenu, thread_notify_menu
from openvibe.chat.web.presenters import list_page_messages, message_page_context, message_row
from openvibe.chat.web.shell import shell_of
from openvibe.chat.wiring import PENDING_DECISIONS, QUESTION_IDEAS
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS, text_version
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, wants_json, workspace_view
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import name_begins_with


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def thread(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """The page; `?at=`, `?before_seq=`, `?after_seq=` choose the messages, which htmx gets alone. POST speaks."""
    thread = access_thread(request.access, thread_id)
    if thread.parent_id is not None:  # a dive has a page of its own: what was posted here is posted there
        to = redirect("dive", request.workspace.slug, thread.dive.pk, preserve_request=True)
        to["Location"] += f"?{request.GET.urlencode()}" if request.GET else ""
        return to
    if request.method == "POST":
        return post_from_composer(
            request, thread, "m", lambda problem, text: _render_thread_page(request, thread, problem=problem, text=text)
        )
    if request.htmx:
        return render(request, "chat/_messages.html", {"thread": thread, **message_page_context(request, thread)})
    return _render_thread_page(request, thread)


ARCHIVED_NOTE = "This conversation is archived: it can be read, not written to."


def _render_thread_page(
    request: WorkspaceRequest, thread: Thread, *, problem: Problem | None = None, text: str | None = None
) -> HttpResponse:
    surroundings, channel = read_surroundings(thread, request.access), thread.channel
    is_closed = thread.archived_at is not None or channel.archived_at is not None
    other = other_participant(thread, request.access)
    closed_reason = ARCHIVED_NOTE if is_closed else departure(channel)
    answering = (NamedAgent(other.pk, other.handle),) if other and other.is_agent else surroundings.followers
    me = request.member.participant
    context = {
        "thread": thread,
        "channel": thread.channel,
        **message_page_context(request, thread),
        "at": int_param(request.GET, "at"),
        "question_ideas": () if is_closed else [q for ideas in QUESTION_IDEAS for q in ideas(thread, request.member)],
        "head": _thread_head(request, thread, surroundings, is_closed),
        "composer": Composer(
            thread_id=thread.pk,
            title=other.label if other else thread.title,
            closed_reason=closed_reason,
            text=text if text is not None else surroundings.draft,
            draft_version=request.POST.get("draft_version", text_version(surroundings.draft)),
            problem=problem.message if problem else "",
            followers=answering,
            enter_sends=request.member.enter_sends,
            author=SidebarParticipant(me.pk, me.handle, me.name, level=None, label=me.label),
            has_focus=other is not None and not request.GET,
        ),
    }
    return render(request, "chat/thread.html", context, status=problem.status if problem else 200)


@dataclass(frozen=True)
class Composer:
    """What `chat/_composer.html` shows to `author`.

    `closed_reason`: why nothing can be written here, empty where it can; `problem`: why the text could
    not be posted, if it was; `followers` answer every message; `has_focus`: the keyboard begins there."""

    thread_id: int
    title: str
    closed_reason: str
    text: str
    draft_version: str
    problem: str
    followers: tuple[NamedAgent, ...]
    enter_sends: bool
    author: SidebarParticipant
    has_focus: bool = False
    max_characters: int = MAX_BODY_CHARACTERS


@dataclass(frozen=True)
class ThreadHead:
    """What `chat/_thread_head.html` shows of a thread to somebody. `agents`: those the asker knows; `readers`: handle
    and level of those that may read it; `other`: with whom these direct messages are, if they are such."""

    thread_id: int
    title: str
    access: str
    is_archived: bool
    is_closed: bool
    is_pinned: bool
    creator: str
    channel_id: int
    channel_name: str
    is_private: bool
    administers: bool
    may_change: bool
    own_instructions: str
    instructions_version: str
    instructions: tuple[ScopedInstructions, ...]
    surroundings: ThreadSurroundings
    agents: tuple[SidebarParticipant, ...]
    readers: tuple[SidebarParticipant, ...]
    pending_decisions: int
    notify: NotifyMenu
    other: str = ""
    other_handle: str = ""
    is_other_agent: bool = False
    accesses: tuple[tuple[str, str], ...] = tuple(Thread.Access.choices)

    @property
    def allowed_ids(self) -> set[int]:
        return {agent.pk for agent in self.surroundings.allowed_agents}

    @property
    def follower_ids(self) -> set[int]:
        return {agent.pk for agent in self.surroundings.followers}


def _thread_head(
    request: WorkspaceRequest, thread: Thread, surroundings: ThreadSurroundings, is_closed: bool
) -> ThreadHead:
    channel, readers = thread.channel, agents_with_access(thread)
    other = other_participant(thread, request.access)
    return ThreadHead(
        thread_id=thread.pk,
        title=other.label if other else thread.title,
        access=thread.access,
        is_archived=thread.archived_at is not None,
        is_closed=is_closed,
        is_pinned=thread.pin_slot is not None,
        creator=thread.created_by.label if thread.created_by else "",
        channel_id=channel.pk,
        channel_name=channel.name,
        is_private=channel.is_private,
        administers=other is None and request.access.administers,
        may_change=other is None and may_manage_thread(thread, request.access),
        own_instructions=thread.instructions,
        instructions_version=text_version(thread.instructions),
        instructions=tuple(scoped_instructions(request.access, request.workspace, channel, thread)),
        surroundings=replace(surroundings, draft=""),
        agents=shell_of(request).agents,
        readers=tuple(map(_reader, readers)),
        pending_decisions=0 if request.access.is_guest else sum(count(thread) for count in PENDING_DECISIONS),
        notify=thread_notify_menu(request, thread, surroundings.notify_level, surroundings.channel_notify_level),
        other=other.label if other else "",
        other_handle=other.handle if other else "",
        is_other_agent=other is not None and other.is_agent,
    )


def _reader(agent: Participant) -> SidebarParticipant:
    return SidebarParticipant(agent.pk, agent.handle, agent.name, agent.agent.level, label=agent.label)


def other_participant(thread: Thread, access: Access) -> Participant | None:
    """The participant with whom the reader has these direct messages; None in a channel."""
    two = (thread.channel.first_participant, thread.channel.second_participant)
    return next((one for one in two if one is not None and one.pk != access.participant_id), None)


def post_from_composer(
    request: WorkspaceRequest, thread: Thread, anchor: str, render_refused: Callable[[Problem, str], HttpResponse]
) -> HttpResponse:
    """Posts what the composer sent; `#anchor-seq` is its place on this page. `render_refused` gets the text, too.

    The whole request was read before this, and its files are counted before anything is locked.
    """
    body = request.POST.get("body", "").replace("\r\n", "\n")
    try:
        client_id, draft_version = (request.POST.get(name, "") for name in ("client_id", "draft_version"))
        files = read_uploads(request.FILES.getlist("files"), request.POST.getlist("descriptions"))
        message = services.post_message(
            thread=thread, by=request.access, body=body, client_id=client_id, files=files, draft_version=draft_version
        )
    except Problem as problem:
        if wants_json(request):
            raise
        if request.FILES:  # no page can put them back into a form
            problem.message += " Choose your files once more."
        return render_refused(problem, body.replace("\x00", ""))
    if wants_json(request):
        return JsonResponse({"id": message.pk, "seq": message.seq}, status=201)
    return redirect(f"{request.path}#{anchor}-{message.seq}")


@workspace_view
@require_safe
def thread_export(request: WorkspaceRequest, thread_id: int) -> HttpResponseBase:
    """The thread as a file, as `?format=` md (or anything else) or jsonl."""
    thread = access_thread(request.access, thread_id)
    form = "jsonl" if request.GET.get("format") == "jsonl" else "md"
    return export_response(request.access, thread, form)


def export_response(access: Access, thread: Thread, form: str) -> HttpResponseBase:
    services.audit_thread_export(thread, access, form)
    response = StreamingHttpResponse(export_thread(access, thread, form), content_type=EXPORT_TYPES[form])
    response.headers["Content-Disposition"] = content_disposition_header(True, export_filename(thread, form)) or ""
    return response


@workspace_view
@require_POST
def thread_edit(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """The page that renames (`title`), archives and brings back (`archived` 1 or 0), pins and unpins (`pinned` 1 or 0),
    or says what agents are told (`instructions`)."""
    thread = access_thread(request.access, thread_id)
    if "instructions" in request.POST:
        text, version = request.POST["instructions"], request.POST.get("version")
        services.set_instructions(scope=thread, by=request.access, text=text, version=version)
        return redirect("thread", request.workspace.slug, thread.pk)
    archived, pinned = ({"1": True, "0": False}.get(request.POST.get(name, "")) for name in ("archived", "pinned"))
    if pinned is not None:
        services.pin_thread(thread=thread, by=request.access, pinned=pinned)
        return redirect("thread", request.workspace.slug, thread.pk)
    services.update_thread(thread=thread, by=request.access, title=request.POST.get("title"), archived=archived)
    return redirect("thread", request.workspace.slug, thread.pk)


@workspace_view
@require_POST
def thread_agents(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """The page that sets the agents that may know of the thread (`access`, `allowed`), and which answer every message
    (`following`)."""
    thread = access_thread(request.access, thread_id)
    allowed_agents = _posted_agents(request, thread, "allowed")
    following = _posted_agents(request, thread, "following")
    with transaction.atomic():
        services.set_thread_access(
            thread=thread, by=request.access, access=request.POST.get("access", ""), allowed_agents=allowed_agents
        )
        services.set_thread_followers(thread=thread, by=request.access, agents=following)
    return redirect("thread", request.workspace.slug, thread.pk)


def _posted_agents(request: WorkspaceRequest, thread: Thread, name: str) -> list[Participant]:
    """The posted agents, of those that the asker may name there: of others not even the handle shows."""
    ids = [int(one) for one in request.POST.getlist(name) if one.isascii() and one.isdigit() and len(one) < 19]
    agents = participants_nameable_by(request.access, thread).filter(kind=Participant.Kind.AGENT)
    return list(agents.filter(pk__in=ids))


@workspace_view
@require_POST
def thread_read(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Marks the thread read up to `seq`; with `unread`, that message and all after it count as unread again."""
    thread = access_thread(request.access, thread_id)
    seq = int_param(request.POST, "seq") or 0
    if "unread" not in request.POST:
        return JsonResponse({"read": services.mark_read(thread=thread, by=request.access, seq=seq)})
    services.mark_unread_from(thread=thread, by=request.access, seq=seq)
    if wants_json(request):
        return JsonResponse({"read": seq - 1})
    return redirect("inbox", request.workspace.slug)


@workspace_view
@require_POST
def thread_typing(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Tells the others who look at the thread that its reader is writing; not of whom nobody is shown when she is here.
    Nothing of it is kept."""
    thread, me = access_thread(request.access, thread_id), request.member.participant
    if not request.member.is_invisible:
        note_typing(thread=thread, by=request.access, handle=me.handle, name=me.label)
    return HttpResponse(status=204)


@workspace_view
@require_POST
def thread_draft(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Stores what stands in the composer. 409 with `text` and its `version` where another tab or device saved that."""
    thread = access_thread(request.access, thread_id)
    body, version, sent = (request.POST.get(name, "") for name in ("body", "version", "sent"))
    try:
        version = services.save_draft(
            thread=thread, by=request.access, body=body, version=version, sent=sent, leaves="leaves" in request.POST
        )
    except services.DraftChanged as problem:
        answer = {"message": problem.message, "code": problem.code, "text": problem.text}
        return JsonResponse({**answer, "version": text_version(problem.text)}, status=problem.status)
    return JsonResponse({"version": version})


@workspace_view
@require_safe
def thread_sent(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Whether the reader's message of this `client_id` is stored, for pages that heard no answer to it."""
    thread = access_thread(request.access, thread_id)
    client_id = request.GET.get("client_id", "").replace("\x00", "")
    own = thread.messages.exclude(client_id="").filter(author_id=request.access.participant_id)
    return JsonResponse({"is_stored": own.filter(client_id=client_id).exists()})


MAX_NAMES = 50
"""Offered for a mention at once, and kept by the page while what is typed goes on from there."""


@workspace_view
@require_safe
def thread_names(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """The names of who can be mentioned here: the agents that may see the thread, with their level, and readers of the
    channel.

    `q` is what was typed: how a handle or a word of a name begins. The first fifty; `is_complete` where these are all.
    Without `q`, the agents alone. In a dive no other agent than its own: it would not answer.
    """
    thread = access_thread(request.access, thread_id)
    agents = agents_with_access(thread)
    if thread.parent_id is not None:
        agents = [agent for agent in agents if agent.pk == thread.dive.agent_id]
    if "q" not in request.GET:
        return JsonResponse({"names": [_mention_candidate(agent) for agent in agents], "is_complete": True})
    query = request.GET["q"].replace("\x00", "").lower()
    matching = [agent for agent in agents if _is_called(agent, query)][: MAX_NAMES + 1]
    people = members_with_access(thread.channel).exclude(pk=request.access.participant_id)
    matching += people.filter(name_begins_with(query))[: MAX_NAMES + 1]
    names = [_mention_candidate(one) for one in matching[:MAX_NAMES]]
    return JsonResponse({"names": names, "is_complete": len(matching) <= MAX_NAMES})


def _is_called(agent: Participant, query: str) -> bool:
    """Whether the agent is called so, as `name_begins_with` has it."""
    return agent.handle.startswith(query) or f" {agent.name.lower()}".find(f" {query}") >= 0


def _mention_candidate(participant: Participant) -> dict[str, object]:
    level = participant.agent.level if participant.is_agent else None
    return {**{name: getattr(participant, name) for name in ("id", "handle", "name", "label", "kind")}, "level": level}


@workspace_view
@require_safe
def message(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The message alone for htmx; its place in the thread for everybody else."""
    message = access_message(request.access, message_id)
    return _render_fragment(request, message) if request.htmx else _redirect_to_message(request, message)


def _redirect_to_message(request: WorkspaceRequest, message: Message) -> HttpResponse:
    thread = message.thread
    view, pk = ("thread", thread.pk) if thread.parent_id is None else ("dive", thread.dive.pk)
    return redirect(f"{reverse(view, args=[request.workspace.slug, pk])}?at={message.seq}#m-{message.seq}")


def _render_fragment(request: WorkspaceRequest, message: Message) -> HttpResponse:
    ahead = Message.objects.filter(thread_id=message.thread_id, seq=message.seq - 1)
    before = ahead.select_related("author").first()
    listed = list_page_messages([message], request.access, before=before)[0]
    row = message_row(listed, request.access, request.workspace.slug)
    return render(request, "chat/_message.html", {"row": row, "thread": message.thread})


@workspace_view
@require_safe
def attachment(request: WorkspaceRequest, attachment_id: int) -> HttpResponse:
    """A file, to be saved: plain text or mere bytes whatever its name says, so that no browser runs it."""
    file = access_attachment(request.access, attachment_id)
    original = access_original(request.access, attachment_id)
    content = file.content if original is None else services.read_original(original)
    headers = {
        "Content-Disposition": content_disposition_header(as_attachment=True, filename=file.name),
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-store",
    }
    content_type = "text/plain; charset=utf-8" if original is None else "application/octet-stream"
    return HttpResponse(content, content_type=content_type, headers=headers)


@workspace_view
@require_safe
def message_history(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """What an edited message says and said before, newest first, each with the time it was written."""
    message = access_message(request.access, message_id)
    if message.is_deleted:
        raise Missing("This message was deleted, and its history with it.")
    revisions = list(message.revisions.order_by("replaced_at", "pk"))
    written_at = [message.created_at, *(revision.replaced_at for revision in revisions)]
    bodies = [*(revision.body for revision in revisions), message.body]
    versions = [{"body": body, "at": at} for body, at in zip(bodies, written_at, strict=True)]
    context = {"message": message, "versions": versions[::-1], "thread": message.thread}
    return render(request, "chat/_history.html" if request.htmx else "chat/history.html", context)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def message_edit(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The form, and saving it. A text changed elsewhere meanwhile is shown beside the new one; nothing is lost."""
    message = access_message(request.access, message_id)
    if request.method != "POST":
        if message.author_id != request.access.participant_id or message.is_deleted:
            raise Missing
        return _render_edit_form(request, message, text=message.body)
    body, based_on = (request.POST.get(name, "").replace("\r\n", "\n") for name in ("body", "based_on"))
    try:
        services.update_message(message=message, by=request.access, body=body, based_on=based_on)
    except Missing:
        raise
    except Problem as problem:
        message.refresh_from_db(fields=["body"])
        return _render_edit_form(request, message, text=body.replace("\x00", ""), problem=problem)
    message = access_message(request.access, message_id)
    return _render_fragment(request, message) if request.htmx else _redirect_to_message(request, message)


def _render_edit_form(
    request: WorkspaceRequest, message: Message, *, text: str, problem: Problem | None = None
) -> HttpResponse:
    context = {
        "message": message,
        "thread": message.thread,
        "text": text,
        "problem": problem,
        "theirs": message.body if isinstance(problem, Conflict) else None,
    }
    name = "chat/_edit.html" if request.htmx else "chat/edit.html"
    response = render(request, name, context, status=problem.status if problem else 200)
    return reswap(retarget(response, f"#edit-{message.pk}"), "outerHTML") if problem and request.htmx else response


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def message_delete(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """Asks once, then leaves a tombstone."""
    message = access_message(request.access, message_id)
    if request.method != "POST":
        return render(request, "chat/delete.html", {"message": message, "thread": message.thread})
    services.delete_message(message=message, by=request.access)
    message = access_message(request.access, message_id)
    return _render_fragment(request, message) if request.htmx else _redirect_to_message(request, message)
