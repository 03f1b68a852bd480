"""Conversations of chat clients: which thread a request belongs to, what of it is new, and the run that answers it.

A client that sends the whole history each time is recognised by it. Where histories diverge (a message was edited, an
answer is not the one that was given), a new thread begins with what went before, as the client has it, in one
message."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet

from agents.agent.models import Agent, ClientConversation, ClientTurn, Run
from agents.agent.permissions import reply_denied_reason
from agents.agent.trust import may_respond
from agents.openai_api.formats import WAITS
from agents.openai_api.options import invalid
from agents.openai_api.requests import ClientRequest, HistoryItem
from agents.runs.client_tools import client_calls, model_text, save_client_results
from agents.runs.lifecycle import regenerate_run, request_run, retry_run, stop_run
from agents.tasks import enqueue_run_on_commit
from agents.tools.toolbox import EXTRA_TOOLS, OFFERING_TOOLS, TOOLS
from openvibe.base.params import int_param
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import MAX_ATTACHMENTS, Channel, Message, Thread
from openvibe.chat.queries import participants_known_to
from openvibe.chat.services import (
    NewImage,
    add_to_channel,
    clean_speaker_name,
    create_channel,
    create_thread,
    get_or_create_speaker,
    make_image,
    post_message,
)
from openvibe.engines.text.absolute_links import absolute_links
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS, has_visible_character, pluralize, remove_invisible
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace

MAX_CANDIDATES = 20
MAX_OWN_CHANNELS = 99
TITLE_CHARACTERS = 80
INSTRUCTIONS_HEADING = "The client's instructions:"
HISTORY_HEADING = "What went before, as the client has it:"


@dataclass(frozen=True)
class Asker:
    """The asker: the token's participant, and `speaker`, by whose name it stands in the thread: a member's own, or, for
    the token of an agent, the user its program names."""

    participant: Participant
    access: Access
    speaker: Access


def asker_of(participant: Participant, access: Access, user: str) -> Asker:
    if not access.is_agent:
        return Asker(participant, access, access)
    workspace = Workspace.objects.get(pk=access.workspace_id)
    speaker_id = get_or_create_speaker(workspace, clean_speaker_name(user or "User"))
    return Asker(participant, access, Access(workspace_id=access.workspace_id, participant_id=speaker_id))


def access_agent(access: Access, handle: str) -> Agent:
    """The active agent of this handle, among those the asker knows. Raises Missing, and Refused for another agent."""
    participant_ids = participants_known_to(access).order_by().values("pk")
    agents = Agent.objects.filter(workspace=access.workspace_id, participant__in=participant_ids, deactivated_at=None)
    agent = agents.select_related("participant", "workspace", "soul").filter(participant__handle=handle).first()
    if agent is None:
        raise Missing(f"There is no agent @{handle[:40]} here. GET /v1/models lists those you may ask.")
    if access.is_agent and agent.participant_id != access.participant_id:
        raise Refused("Agents do not wake agents: with an agent's token you ask that agent alone.")
    return agent


@transaction.atomic
def begin_turn(asker: Asker, agent: Agent, request: ClientRequest, images: Sequence[NewImage] = ()) -> Run:
    """The run that answers the request: a new one, or the one of the same request sent before. `images`: those of its
    new messages, decoded. Raises Problem."""
    Participant.objects.select_for_update(no_key=True).get(pk=asker.participant.pk)  # one request of theirs at a time
    if agent.answers_itself:
        raise Conflict(f"@{agent.handle} answers by itself, through the API: no run can be started for it.")
    digest = request.digest(request.items)
    same = _own_turns(asker, agent, request).filter(digest=digest).order_by("-pk").first()
    if same is not None and _is_latest(same):
        return _answer_again(same, asker, request)
    turn = _previous_turn(asker, agent, request)
    if turn is not None and request.new_items[0].role == "tool" and _is_latest(turn):
        return _continue_calls(turn, asker, request, digest, images)
    conversation = _conversation(asker, agent, request, turn)
    trigger = _post_new(conversation, asker, request, digest, images)
    return _start(conversation, agent, trigger, request, digest)


def _check_tools(request: ClientRequest, agent: Agent, thread: Thread) -> None:
    if not request.tools:
        return
    further = (tool for source in EXTRA_TOOLS for tool in source(agent, thread))
    own_names = {*OFFERING_TOOLS, *(tool.name for tool in (*TOOLS, *further))}
    for tool in request.tools:
        if tool["name"] in own_names:
            raise invalid(f"The agent has a tool {tool['name']} of its own. Give yours another name.", "tools")


def _own_turns(asker: Asker, agent: Agent, request: ClientRequest) -> QuerySet[ClientTurn]:
    """Earlier turns that the request may go on from. One that names no conversation goes on in the channel that it
    names; without that, and without an answer that tells it from others, where a new one would stand."""
    threads = Thread.objects.visible_to(asker.access).filter(archived_at=None, channel__archived_at=None)
    if request.channel and not (request.conversation or request.continues):
        threads = threads.filter(channel__name=request.channel.lstrip("#"))
    elif not (request.conversation or request.continues or request.answered_items):
        threads = threads.filter(channel__in=_default_channels(asker, agent))
    rows = ClientTurn.objects.filter(conversation__caller=asker.participant, conversation__agent=agent)
    rows = rows.filter(conversation__thread__in=threads)
    return rows.select_related("conversation__thread__channel", "run__reply", "run__trigger", "run__agent__participant")


def _is_latest(turn: ClientTurn) -> bool:
    """Whether nothing was asked since in its conversation, other answers to the same request left aside."""
    return not turn.conversation.turns.filter(pk__gt=turn.pk).exclude(digest=turn.digest).exists()


def _answer_again(turn: ClientTurn, asker: Asker, request: ClientRequest) -> Run:
    """The same request once more: its run, as long as that goes on; tried again where it failed; another answer where
    a client asks for one, unless it only sent it again because it heard nothing."""
    own = ClientTurn.objects.filter(pk=turn.pk)
    own.update(awaited=F("awaited") + 1)  # and locks it, for whoever leaves now
    run = Run.objects.select_related("reply", "trigger", "agent__participant").get(pk=turn.run_id)
    if run.stop_requested_at is not None and not run.is_over:
        raise Conflict("This answer is being stopped. Send the request again in a moment.", code="being_stopped")
    if run.state in (Run.State.FAILED, Run.State.STOPPED):
        run = retry_run(run=run, by=asker.speaker)
        own.update(awaited=1, options=dict(request.options))
    elif run.state == Run.State.DONE and not request.is_resent:
        run = regenerate_run(run=run, by=asker.speaker)
        _create_turn(turn.conversation, run, request, turn.digest, turn.continues)
    else:
        return run
    enqueue_run_on_commit(run.pk)
    return run


@transaction.atomic
def leave_turn(*, run_id: int, by: Access) -> None:
    """Stops the run whose answer somebody no longer waits for, unless the same request, sent again, waits for it too.

    Raises Problem."""
    ClientTurn.objects.filter(run_id=run_id, awaited__gt=0).update(awaited=F("awaited") - 1)
    if ClientTurn.objects.filter(run_id=run_id, awaited=0).exists():
        stop_run(run=Run.objects.get(pk=run_id), by=by)


def _previous_turn(asker: Asker, agent: Agent, request: ClientRequest) -> ClientTurn | None:
    """The turn whose answer the request goes on from; None where there is none, or the client has it otherwise."""
    turns = _own_turns(asker, agent, request).order_by("-pk")
    if request.continues:
        run_id = int_param({"id": request.continues.removeprefix("resp_")}, "id")
        turn = turns.filter(run_id=run_id).first() if run_id else None
        if turn is None:
            raise Missing(f"There is no answer {request.continues} of yours to go on from.")
        return turn
    if not request.answered_items:
        return None
    *before, answer = request.answered_items
    candidates = turns.filter(digest=request.digest(before))[:MAX_CANDIDATES]
    return next((turn for turn in candidates if _is_answer(turn.run, answer)), None)


def _is_answer(run: Run, item: HistoryItem) -> bool:
    ids = [call.id for call in item.calls]
    if ids:
        return set(ids) == set(client_calls(run).values_list("call_id", flat=True))
    answer, answer_start = (
        " ".join(absolute_links(text, settings.PUBLIC_URL).split())
        for text in (model_text(run), item.text.removesuffix(WAITS))
    )
    # The client may have heard less.
    is_cut_short = run.state in (Run.State.STOPPED, Run.State.FAILED) or item.text.endswith(WAITS)
    return answer.startswith(answer_start) if is_cut_short else answer == answer_start


def _continue_calls(
    turn: ClientTurn, asker: Asker, request: ClientRequest, digest: str, images: Sequence[NewImage]
) -> Run:
    """A run that goes on from the results of the client's tools, for the same question, or for what it says besides."""
    results = {item.call_id: item.text for item in request.new_items if item.role == "tool"}
    missing_ids = set(client_calls(turn.run).values_list("call_id", flat=True)) - results.keys()
    if missing_ids or not results:
        raise invalid(f"The results of these calls are missing: {', '.join(sorted(missing_ids))}.", "messages")
    save_client_results(turn.run, results)
    conversation, agent = turn.conversation, turn.run.agent
    if any(item.role == "user" for item in request.new_items):
        trigger = _post_new(conversation, asker, request, digest, images)
        return _start(conversation, agent, trigger, request, digest, continues=turn)
    _check_may_answer(agent, conversation.thread, turn.run.task)
    run = Run.objects.create(
        workspace_id=agent.workspace_id,
        agent=agent,
        thread=conversation.thread,
        trigger=turn.run.trigger,
        requested_by_id=turn.run.requested_by_id,
        task=turn.run.task,
        regenerates=turn.run,
    )
    _create_turn(conversation, run, request, digest, turn)
    enqueue_run_on_commit(run.pk)
    return run


def _conversation(asker: Asker, agent: Agent, request: ClientRequest, turn: ClientTurn | None) -> ClientConversation:
    """The one the request goes on with, or a new one."""
    if turn is not None and _is_latest(turn):
        return turn.conversation
    threads = Thread.objects.visible_to(asker.access).filter(archived_at=None, channel__archived_at=None)
    own = ClientConversation.objects.filter(caller=asker.participant, agent=agent).select_related("thread__channel")
    if request.conversation and (named_conversation := own.filter(key=request.conversation).first()):
        if named_conversation.thread in threads:
            return named_conversation
        raise Conflict(f"The thread of the conversation {request.conversation} is closed. Begin another one.")
    channel = _channel(asker, agent, request.channel)
    first = next((item.text for item in request.items if item.role == "user" and has_visible_character(item.text)), "")
    title = remove_invisible(first)[:TITLE_CHARACTERS] or "Conversation"
    thread = create_thread(channel=channel, by=asker.access, title=title)
    _check_may_answer(agent, thread, _task(agent))
    new_conversation = ClientConversation.objects.create(
        agent=agent, caller=asker.participant, thread=thread, key=request.conversation
    )
    history = _history_so_far(request, turn)
    if history:
        post_message(thread=thread, by=asker.speaker, body=_history_text(history, agent), is_answered=False)
    return new_conversation


def _history_so_far(request: ClientRequest, turn: ClientTurn | None) -> Sequence[HistoryItem]:
    """What a new thread begins with: the history as the client sent it, or what it names by an earlier answer's id."""
    if not request.continues or turn is None or turn.run.reply is None:
        return request.answered_items
    rows = Message.objects.filter(thread=turn.conversation.thread, seq__lte=turn.run.reply.seq, deleted_at=None)
    agent_id = turn.run.agent.participant_id
    return [
        HistoryItem("assistant" if author == agent_id else "user", body)
        for author, body in rows.order_by("seq").values_list("author_id", "body")
    ]


def _history_text(items: Sequence[HistoryItem], agent: Agent) -> str:
    """One message of the person who asks: what an agent said is quoted, never put into its mouth."""
    names = {"user": "User", "assistant": f"{agent.participant.name} answered", "tool": "A tool answered"}
    parts = []
    for item in items:
        calls = ", ".join(f"`{call.name}`" for call in item.calls)
        text = item.text + (f"\n(called {calls})" if calls else "")
        text += f"\n({pluralize(len(item.images), 'image')}, not kept here)" if item.images else ""
        quoted = "\n".join(f"> {line}" for line in text.replace("@", "@\u200b").splitlines() or [""])
        parts.append(f"{names[item.role]}:\n{quoted}")
    whole = "\n\n".join(parts)
    room = MAX_BODY_CHARACTERS - 200
    excerpt = "\n\n[The beginning is left out.]\n\n" + whole[-room:] if len(whole) > room else "\n\n" + whole
    return HISTORY_HEADING + excerpt


def _channel(asker: Asker, agent: Agent, name: str) -> Channel:
    """The channel that a new conversation stands in: the one that the client names; else a private one of the asker's
    and the agent's, or, for those who make no channels, the first where both are. Where the name of one's own is taken,
    by one that was archived or left or by somebody else's, it gets a number."""
    visible = Channel.objects.visible_to(asker.access).open()
    if name:
        channel = visible.filter(name=name.lstrip("#")).first()
        if channel is None:
            raise invalid(f"There is no channel #{name} that you may write in.", "metadata")
        return channel
    default = _default_channels(asker, agent).first()
    if default is not None:
        return default
    if asker.access.is_agent or asker.access.is_guest:
        raise invalid("You share no channel with this agent. Name one in metadata.channel.", "metadata")
    names = _own_channel_names(asker, agent)
    about = f"What {asker.participant.label} asks {agent.participant.label} from chat clients."
    rows = Channel.objects.filter(workspace=agent.workspace_id, name__in=names)
    taken_names = set(rows.values_list("name", flat=True))
    free_name = next((each for each in names if each not in taken_names), names[0])
    own = create_channel(by=asker.access, name=free_name, description=about, is_private=True)
    by = replace(asker.access)  # a copy: what it reaches is looked up again
    add_to_channel(channel=own, participant=agent.participant, by=by)
    return own


def _default_channels(asker: Asker, agent: Agent) -> QuerySet[Channel]:
    """The channel that a new conversation stands in whose request names no channel, at most one; none yet before the
    first."""
    visible = Channel.objects.visible_to(asker.access).open().order_by("pk")
    if asker.access.is_agent or asker.access.is_guest:
        return visible.filter(memberships__participant=agent.participant_id)[:1]
    names = _own_channel_names(asker, agent)
    return visible.filter(name__in=names, is_private=True, created_by=asker.participant)[:1]


def _own_channel_names(asker: Asker, agent: Agent) -> list[str]:
    name = f"api-{agent.handle[:17]}-{asker.participant.handle[:17]}"
    return [name, *(f"{name[:37]}-{number}" for number in range(2, MAX_OWN_CHANNELS + 1))]


def _task(agent: Agent) -> str:
    """The task type: as for a message of a thread it follows, where the agent's level does that: the whole thread
    stands in the prompt."""
    task = Run.Task.THREAD if may_respond(agent.level, "thread") else Run.Task.MENTION
    return str(task)


def _check_may_answer(agent: Agent, thread: Thread, task: str) -> None:
    reason = reply_denied_reason(agent, thread, task)
    if reason is not None:
        is_budget = "token budget" in reason
        raise Refused(reason, code="insufficient_quota" if is_budget else "agent_silent")


def _post_new(
    conversation: ClientConversation, asker: Asker, request: ClientRequest, digest: str, images: Sequence[NewImage]
) -> Message:
    """The new messages of the request, with their images, in the thread; the last one is what is answered."""
    thread = conversation.thread
    instructions = hashlib.sha256(request.instructions.encode()).hexdigest()
    if request.instructions.strip() and instructions != conversation.instructions_digest:
        body = f"{INSTRUCTIONS_HEADING}\n\n{request.instructions}"
        post_message(thread=thread, by=asker.speaker, body=body, is_answered=False)
        conversation.instructions_digest = instructions
        conversation.save(update_fields=["instructions_digest"])
    user_items = [item for item in request.new_items if item.role == "user"]
    text = "\n\n".join(item.text for item in user_items)
    if not user_items:  # results of calls that nobody knows of here
        text = _history_text(request.new_items, conversation.agent)
    is_answered = not asker.access.is_agent  # whoever an agent's program names: agents do not wake agents
    repeats = conversation.turns.filter(digest=digest).count()  # the same words, said again later
    client_id = f"client:{digest}:{repeats}" if repeats else f"client:{digest}"
    return post_message(
        thread=thread, by=asker.speaker, body=text, client_id=client_id, files=images, is_answered=is_answered
    )


def _start(
    conversation: ClientConversation,
    agent: Agent,
    trigger: Message,
    request: ClientRequest,
    digest: str,
    continues: ClientTurn | None = None,
) -> Run:
    _check_may_answer(agent, conversation.thread, _task(agent))
    run = request_run(agent=agent, message=trigger, task=_task(agent))
    assert run is not None
    _create_turn(conversation, run, request, digest, continues)
    enqueue_run_on_commit(run.pk)
    return run


def _create_turn(
    conversation: ClientConversation, run: Run, request: ClientRequest, digest: str, continues: ClientTurn | None
) -> None:
    _check_tools(request, run.agent, conversation.thread)
    ClientTurn.objects.create(
        conversation=conversation,
        run=run,
        digest=digest,
        tools=list(request.tools),
        max_output_tokens=request.max_output_tokens,
        options=dict(request.options),
        continues=continues,
    )


def read_images(request: ClientRequest) -> list[NewImage]:
    """The images, decoded and scaled. Raises Problem for one that is none, and for more than a message may have."""
    files = [image for item in request.new_items for image in item.images]
    if len(files) > MAX_ATTACHMENTS:
        raise invalid(f"A turn has at most {MAX_ATTACHMENTS} new images; these are {len(files)}.", "messages")
    images = []
    for number, data in enumerate(files, start=1):
        try:
            images.append(make_image(f"image-{number}", data))
        except Problem as problem:
            raise invalid(problem.message, "messages", problem.code) from None
    return images
