"""Tools over what an agent keeps: the memory plugin's own, context blocks, work, progress, approvals and skills."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from agents.agent.audience import CallSource, check_nothing_restricted
from agents.agent.models import LoadedSkill, ToolSource
from agents.agent.skills import MAX_LOADED_SKILLS, loaded_skills, skill_index, skill_text
from agents.prompts.assembler.sections.history import memory_session
from agents.tools.values import (
    STRING_SCHEMA,
    Decision,
    Tool,
    ToolContext,
    ToolOutcome,
    thread_source,
    tool_factory,
    tool_spec,
)
from memory.models import Approval, Block, ProfileNote, WorkItem
from memory.queries import ContextBlocks, MemoryMode, build_tool, is_public_thread, provider_for
from memory.services import check_profile_update, check_thread_is_public, close_work_item, create_work_item
from memory.services import log_progress as add_to_log
from memory.services import request_approval as ask_for_approval
from memory.wiring import answer_from_memory, ask_compaction, read_tool_result
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.engines.llm.transcripts import clean_name, one_line
from openvibe.workspaces.models import Participant


def memory(context: ToolContext) -> Tool | None:
    """The memory plugin's own tool, for this thread as the agent sees it; none in a thread that memory ignores."""
    mode = context.memory_mode
    if mode is MemoryMode.IGNORED:
        return None
    plugin_tool = build_tool(
        provider_for(context.agent.workspace_id),
        ask_compaction=ask_compaction,
        answer_question=answer_from_memory,
        read_result=read_tool_result,
    )

    trigger = context.run.trigger if context.run else None
    member = trigger.author if trigger and trigger.author.kind == Participant.Kind.MEMBER else None

    def run(arguments: dict[str, Any]) -> ToolOutcome:
        """Runs the tool on the thread up to what the run answers; profile notes are those about whoever asks."""
        session = memory_session(context.thread.pk, context.access, before=trigger, asker=member)
        check_profile_update(session, arguments)
        if arguments.get("action") == "profile_update" and mode is not MemoryMode.FULL:
            raise Refused(
                "This conversation is read-only for memory: nothing of it goes into your notes.", code="read_only"
            )
        if arguments.get("action") == "profile_update" and str(arguments.get("text") or "").strip():
            check_nothing_restricted(context.access, context.thread.pk, "your notes")
        answer = plugin_tool.answer(session, arguments)
        other_threads = (CallSource(ToolSource.Kind.THREAD, pk) for pk in answer.thread_ids)
        return ToolOutcome(answer.text, sources=tuple(other_threads))

    def sources(arguments: Mapping[str, Any] | None) -> tuple[CallSource, ...]:
        """The thread, and the notes about whoever asks unless the call names another action."""
        in_thread = thread_source(context.thread)(arguments)
        action = (arguments or {}).get("action")
        if member is None or (isinstance(action, str) and not action.startswith("profile")):
            return in_thread
        notes = ProfileNote.objects.filter(agent=context.access.participant_id, person=member)
        version = notes.values_list("version", flat=True).first()
        return (*in_thread, CallSource(ToolSource.Kind.NOTES, member.pk, version or 0))

    return Tool(plugin_tool.spec, run, validates_arguments=True, sources=sources)


def update_context_block(context: ToolContext) -> Tool | None:
    """The tool, while there is a block that the agent may write, in threads that are open to everybody.

    Its blocks stand in its prompts everywhere.
    """
    if not is_public_thread(context.thread.pk) or context.memory_mode is not MemoryMode.FULL:
        return None
    blocks = ContextBlocks(context.agent.participant)
    stored = blocks.list()
    spec = blocks.tool(stored)
    if spec is None:
        return None
    if context.run is not None:
        for block in stored:
            context.block_stamps.setdefault(block.label, block.stamp)

    def sources(arguments: Mapping[str, Any] | None) -> tuple[CallSource, ...]:
        """The thread, and the block as it stands after the call."""
        rows = Block.objects.filter(agent=context.access.participant_id, label=str((arguments or {}).get("label")))
        block_sources = (
            CallSource(ToolSource.Kind.BLOCK, pk, version) for pk, version in rows.values_list("pk", "version")
        )
        return (*thread_source(context.thread)(arguments), *block_sources)

    return Tool(spec, partial(_write_block, context, blocks), sources=sources)


def _write_block(context: ToolContext, blocks: ContextBlocks, arguments: dict[str, Any]) -> str:
    """What somebody wrote since the agent read it is not lost: the agent is told, and may write once more."""
    check_thread_is_public(context.thread.pk, "your blocks")
    check_nothing_restricted(context.access, context.thread.pk, "your blocks")
    label, content = arguments["label"], arguments["content"]
    try:
        if arguments.get("action", "replace") == "append":
            block = blocks.append(label, content)
        else:
            block = blocks.set(label, content, based_on=context.block_stamps.get(label))
    except Conflict as conflict:
        current = blocks.get(label)
        context.block_stamps.pop(label, None)
        if current is None:
            raise
        context.block_stamps[label] = current.stamp
        raise Conflict(f"{conflict.message} It says now:\n{current.content}") from None
    context.block_stamps[label] = block.stamp
    return f"{block.label} has {block.tokens:,} of {block.max_tokens:,} tokens now."


def _update_work(context: ToolContext, arguments: dict[str, Any]) -> str:
    action = arguments["action"]
    if action == "add":
        return _add_work_item(context, arguments)
    if "id" not in arguments:
        raise Problem(f"Say which row is {action}, by its id: the number in its ref, work:<id>.")
    number = arguments["id"] if 0 < arguments["id"] <= MAX_ID else 0
    row = WorkItem.objects.filter(thread=context.thread, pk=number).first()
    if row is None:
        raise Problem(f"There is no row {arguments['id']} in this thread.")
    state = WorkItem.State.DONE if action == "done" else WorkItem.State.DROPPED
    closed = close_work_item(item=row, by=context.access, state=state)
    return f"work:{closed.pk} is {closed.state}."


def _add_work_item(context: ToolContext, arguments: dict[str, Any]) -> str:
    kind, text = arguments.get("kind"), arguments.get("text")
    if kind is None or text is None:
        raise Problem("To add a row, give its kind and its text.")
    data = {key: arguments[key] for key in ("done_condition", "ref") if arguments.get(key)}
    source = context.run.trigger if context.run and not context.run.trigger.is_deleted else None
    row = create_work_item(thread=context.thread, by=context.access, kind=kind, text=text, data=data, message=source)
    if row.is_proposal:
        return f"work:{row.pk} (constraint) is proposed. It binds nobody until a member confirms it."
    return f"work:{row.pk} ({row.kind}) stands."


work_update = tool_factory(
    tool_spec(
        "work_update",
        "Keep this thread's work rows: add one (kind, text; a goal's done_condition, "
        "an artifact's ref), or close row id as done or drop it.",
        required={"action": {"type": "string", "enum": ["add", "done", "drop"]}},
        optional={
            "kind": {"type": "string", "enum": list(WorkItem.Kind.values)},
            "text": STRING_SCHEMA,
            "done_condition": STRING_SCHEMA,
            "ref": STRING_SCHEMA,
            "id": {"type": "integer"},
        },
    ),
    _update_work,
)


def _log_checkpoint(context: ToolContext, arguments: dict[str, Any]) -> str:
    entry = add_to_log(thread=context.thread, by=context.access, **arguments)
    return f"Logged as progress:{entry.pk}."


log_progress = tool_factory(
    tool_spec(
        "log_progress",
        "Add a checkpoint to this thread's progress log.",
        required={"checkpoint": STRING_SCHEMA},
        optional=dict.fromkeys(("changed", "evidence", "open_issues", "next_action"), STRING_SCHEMA),
    ),
    _log_checkpoint,
)


def _ask_approval(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    what = " ".join(str(arguments["what"]).split())
    decision = _earlier_decision(context, what)
    if decision:
        return ToolOutcome(decision)
    approval = ask_for_approval(thread=context.thread, by=context.access, what=what, reason=arguments.get("reason", ""))
    why = f"Waits for an approval: {approval.what}"[:300]
    return ToolOutcome("Waiting for a decision.", Decision.WAITS, why, approval)


def _earlier_decision(context: ToolContext, what: str) -> str:
    """What people decided about the same question since the agent was asked, in a line; empty when they did not.

    It is not asked twice in one run.
    """
    if context.run is None:
        return ""
    approvals = Approval.objects.filter(
        thread=context.thread,
        requested_by=context.access.participant_id,
        what=what,
        created_at__gte=context.run.trigger.created_at,
    ).exclude(state=Approval.State.REQUESTED)
    approval = approvals.select_related("decided_by").order_by("-id").first()
    if approval is None:
        return ""
    who = clean_name(approval.decided_by.label) if approval.decided_by else "nobody yet"
    note = f" Note: {one_line(approval.note)}" if approval.note else ""
    return f"approval:{approval.pk} state: {approval.state}, decided by: {who}.{note}"


request_approval = tool_factory(
    tool_spec(
        "request_approval",
        "Ask people whether you may do something (what: one line). You pause until they decide.",
        required={"what": STRING_SCHEMA},
        optional={"reason": STRING_SCHEMA},
    ),
    _ask_approval,
)


LOAD_SPEC = tool_spec(
    "load_skill",
    f"Take up a skill of your index, at most {MAX_LOADED_SKILLS}. Its text is the result.",
    required={"name": STRING_SCHEMA},
)
UNLOAD_SPEC = tool_spec("unload_skill", "Put down a skill you no longer need.", required={"name": STRING_SCHEMA})


def load_skill(context: ToolContext) -> Tool | None:
    """The tool, for agents that have skills."""
    if not skill_index(context.agent):
        return None
    return Tool(LOAD_SPEC, partial(_load_named, context), sources=thread_source(context.thread))


def unload_skill(context: ToolContext) -> Tool | None:
    """The tool, for agents that have `load_skill`."""
    if not skill_index(context.agent):
        return None
    return Tool(UNLOAD_SPEC, partial(_unload_named, context), sources=thread_source(context.thread))


def _load_named(context: ToolContext, arguments: dict[str, Any]) -> str:
    name = str(arguments["name"])
    text = skill_text(context.agent, name)
    if text is None:
        skill_names = ", ".join(skill.name for skill in skill_index(context.agent))
        raise Problem(f"There is no skill {name[:80]!r}. Available: {skill_names}.")
    loaded_names = [skill_name for skill_name, _ in loaded_skills(context.agent, context.thread.pk)]
    if name not in loaded_names and len(loaded_names) >= MAX_LOADED_SKILLS:
        raise Problem(f"You have taken up {', '.join(loaded_names)} already. Put one down with unload_skill first.")
    LoadedSkill.objects.get_or_create(agent=context.agent, thread=context.thread, name=name)
    return text


def _unload_named(context: ToolContext, arguments: dict[str, Any]) -> str:
    name = str(arguments["name"])
    deleted_count, _ = LoadedSkill.objects.filter(agent=context.agent, thread=context.thread, name=name).delete()
    if not deleted_count:
        loaded_names = (
            ", ".join(skill_name for skill_name, _ in loaded_skills(context.agent, context.thread.pk)) or "none"
        )
        raise Problem(f"You have not taken up {name[:80]!r} here. Taken up: {loaded_names}.")
    return f"{name} is put down."
