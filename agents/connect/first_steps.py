"""The first steps of a newcomer, each ticked by what the database says was done."""

from collections.abc import Sequence

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists
from django.urls import reverse

from agents.agent.models import Agent
from openvibe.chat.models import Message, Thread
from openvibe.chat.wiring import FirstStep
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member

SAMPLE_THREAD = "demo:spring-planting"
"""The place that the thread of the sample workspace says that it came from."""

SAMPLE_AGENT = "vibe"

SAMPLE_QUESTIONS = (
    f"@{SAMPLE_AGENT} when do we prune the roses, and why not earlier?",
    f"@{SAMPLE_AGENT} who brings the mulch, and how many bags?",
    f"@{SAMPLE_AGENT} what was decided about the leaking valve?",
)


def sample_questions(thread: Thread, member: Member) -> Sequence[str]:
    """What a newcomer may ask in the sample thread with one click, as long as the first steps are shown: what they have
    not asked yet, while the agent that the questions name answers. One query, in that thread alone."""
    if member.first_steps_since is None or thread.external_id != SAMPLE_THREAD:
        return ()
    own = Message.objects.filter(thread=thread, author=member.participant_id, deleted_at=None)
    answering = Agent.objects.filter(
        workspace=member.workspace_id, participant__handle=SAMPLE_AGENT, deactivated_at=None
    )
    facts = Member.objects.filter(pk=member.pk).values_list(
        Exists(answering), ArraySubquery(own.filter(body__in=SAMPLE_QUESTIONS).values("body"))
    )
    has_agent, asked = facts.get()
    return [question for question in SAMPLE_QUESTIONS if question not in asked] if has_agent else ()


# What was done since the steps began; the last answer to the member, and the agent who is asked first.
_SELECT_FACTS = """
SELECT
    EXISTS (SELECT FROM agents_run r WHERE r.requested_by_id = %(me)s AND r.queued_at > %(since)s),
    EXISTS (
        SELECT FROM memory_feedback f JOIN chat_message m ON m.id = f.message_id
        JOIN agents_agent a ON a.participant_id = m.author_id JOIN agents_run r ON r.agent_id = a.id
        WHERE f.participant_id = %(me)s AND f.verdict = 'down' AND f.created_at > %(since)s
        AND r.queued_at > f.updated_at
    ),
    EXISTS (
        SELECT FROM chat_dive d WHERE d.started_by_id = %(me)s AND d.state = 'published' AND d.ended_at > %(since)s
    ),
    EXISTS (
        SELECT FROM knowledge_revision v WHERE v.by_id = %(me)s AND v.action IN ('created', 'pinned', 'accepted')
        AND v.created_at > %(since)s
    ),
    EXISTS (SELECT FROM llm_endpoint e WHERE e.workspace_id = %(workspace)s AND e.kind <> 'offline'),
    EXISTS (SELECT FROM workspaces_invitation i WHERE i.workspace_id = %(workspace)s)
        OR (SELECT count(*) FROM workspaces_member b WHERE b.workspace_id = %(workspace)s AND b.removed_at IS NULL) > 1,
    (
        SELECT json_build_array(r.id, r.reply_id) FROM agents_run r
        WHERE r.requested_by_id = %(me)s AND r.queued_at > %(since)s AND r.reply_id IS NOT NULL
        ORDER BY r.id DESC LIMIT 1
    ),
    (
        SELECT json_build_array(p.id, p.name)
        FROM agents_agent a JOIN workspaces_participant p ON p.id = a.participant_id
        WHERE a.workspace_id = %(workspace)s AND a.deactivated_at IS NULL AND (NOT %(is_guest)s OR EXISTS (
            SELECT FROM chat_channelmembership own JOIN chat_channelmembership b ON b.channel_id = own.channel_id
            WHERE own.participant_id = %(me)s AND b.participant_id = p.id
        ))
        ORDER BY a.id LIMIT 1
    ), (
        SELECT t.id FROM chat_thread t JOIN chat_channel c ON c.id = t.channel_id
        WHERE t.workspace_id = %(workspace)s AND t.external_id = %(sample)s AND NOT %(is_guest)s AND NOT c.is_private
        AND t.archived_at IS NULL AND c.archived_at IS NULL ORDER BY t.id LIMIT 1
    )
"""


def list_first_steps(member: Member, access: Access) -> list[FirstStep]:
    """What the member may try, ticked where it was done. Links lead to where it is done: to their last answer, once
    there is one. One query."""
    values = {
        "me": member.participant_id,
        "workspace": member.workspace_id,
        "since": member.first_steps_since,
        "is_guest": access.is_guest,
        "sample": SAMPLE_THREAD,
    }
    (row,) = fetch_prepared(_SELECT_FACTS, values)
    has_question, has_feedback, has_result, has_entry, has_endpoint, has_invitation, answer, agent, sample = row
    slug = member.workspace.slug
    if agent and sample:
        words = f"Ask {agent[1]} something: three questions wait in a thread"
        ask = reverse("thread", args=[slug, sample])
    elif agent:
        words, ask = f"Ask {agent[1]} something", f"{reverse('direct-message', args=[slug])}?to={agent[0]}"
    elif access.administers:
        words, ask = "Make an agent and ask it something", reverse("agent-new", args=[slug])
    else:
        words, ask = "Ask an agent something, once one is where you are", reverse("inbox", args=[slug])
    context = reverse("run-context", args=[slug, answer[0]]) if answer else ask
    reply = reverse("message", args=[slug, answer[1]]) if answer else ask
    steps = [
        FirstStep(words, ask, has_question),
        FirstStep(
            "See what it read: press “Why this answer?” under its words", context, member.opened_context_at is not None
        ),
        FirstStep("Press thumbs down on an answer, say why, and ask again: it reads your words", reply, has_feedback),
    ]
    if not access.is_guest:
        steps += [
            FirstStep("Dive into a question and publish the result", reply, has_result),
            FirstStep("Pin an answer or a result as knowledge", reply, has_entry),
        ]
    if access.administers:
        steps += [
            FirstStep("Connect a model", reverse("connect-model", args=[slug]), has_endpoint),
            FirstStep("Invite somebody", reverse("members", args=[slug]) + "#invite", has_invitation),
        ]
    return steps
