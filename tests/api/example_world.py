"""A workspace in which every example of the API's description can be carried out, and whom its names stand for."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from agents.agent.access import visible_to
from agents.agent.call_rules import create_call_rule
from agents.connect.join_codes import create_join_code
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.runs.external.lifecycle import begin_external_run
from agents.runs.permissions.requests import PermissionRequest, request_permission
from agents.schedules.services import ScheduleDraft, create_schedule
from agents.watching.services import create_watch
from knowledge.services import archive_entry
from memory.episodes.models import Proposal
from memory.plugins.lcm.models import EndpointFailures
from memory.work.services import create_work_item
from openvibe.chat.models import ConversationImport, Message
from openvibe.chat.services import add_to_channel, open_direct_messages, request_import
from openvibe.webhooks.services import create_webhook, send_test
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import create_snippet
from tests import factories
from tests.agents.watching.watchers import make_watcher
from tests.api.access_matrix import make_place, write_block, write_dive, write_knowledge, write_work
from tests.memory.plugins.lcm.factories import leaf, taken_in, told

HOOK_URL = "https://93.184.216.34/garden"  # whose name nobody has to look up


@dataclass
class ExampleWorld:
    """`names` are values of fields and parameters by name; `ids` those of `{id}` by what the address holds before it,
    or by the operation where the example needs a row in another state."""

    owner: Member
    agent: Agent
    external: Agent
    names: dict[str, Any]
    ids: dict[str, int]

    def parameter(self, operation_id: str, path: str, name: str, example: Any) -> Any:
        """What the example's value stands for here."""
        if name == "id":
            place = path.partition("/{id}")[0].removeprefix("/api/v1/")
            return self.ids.get(operation_id, self.ids[place])
        return self.names.get(f"{operation_id} {name}", self.names.get(name, example))

    def body(self, operation_id: str, example: dict[str, Any]) -> dict[str, Any]:
        """The example with the rows of this world."""
        stand_ins = ("thread", "channel", "message")
        return {
            name: self.names.get(f"{operation_id} {name}", self.names[name] if name in stand_ins else value)
            for name, value in example.items()
        }


EXTERNAL_OPERATIONS = (
    *("runs_read", "runs_write", "runs_report_step", "runs_finish", "runs_ask_permission", "runs_set_plan"),
    *("runs_hear", "runs_resume"),
)
"""Operations in a run that its agent began itself."""


def _answered(question: Message) -> Run:
    run = Run.objects.get(trigger=question)
    execute_run(run.pk)
    run.refresh_from_db()
    assert run.state == "done", (run.state, run.error)
    return run


def make_example_world() -> ExampleWorld:
    ana = factories.make_member("Ana")
    access, channel = factories.access(ana), factories.make_channel(ana)
    vibe = factories.make_agent(ana, "vibe", channel=channel)
    place = make_place(ana, channel, vibe, "Pruning")
    for write in (write_work, write_block, write_dive, write_knowledge):
        write(place, ana)
    thread = place.thread
    quote = factories.say(thread, ana, f"Again: {place.message.body}")
    Run.objects.filter(pk=place.run.pk).update(state="failed", error="It fell over.")
    read = _answered(factories.say(thread, ana, "@vibe when do I prune?"))
    long = factories.make_thread(channel, ana, "Long ago")
    told(long, ana.participant, *(f"Roses of bed {n} are pruned in May." for n in range(1, 31)))
    summary = leaf(taken_in(long), 1, 10, "Ana said to prune the roses in March.")
    constraint = create_work_item(thread=thread, by=visible_to(vibe), kind="constraint", text="Never prune in frost")
    archived = factories.make_entry(ana, "The old bed")
    archive_entry(entry=archived, by=access, how="api")
    pending = Proposal.objects.create(
        agent=vibe.participant, thread=thread, kind="episode", text="Likes roses", since_seq=0, upto_seq=1
    )
    soon = timezone.now() + timedelta(minutes=20)
    EndpointFailures.objects.create(workspace=ana.workspace, failures=5, paused_until=soon, last_error="Away.")
    scout = factories.make_agent(ana, "scout", level=3, channel=channel, answers_itself=True)
    asked = [factories.say(factories.make_thread(channel, ana), ana, "@scout when?") for _ in range(11)]
    begun = [begin_external_run(agent=scout, message=message).pk for message in asked[1:]]
    working = begun.pop(0)
    factories.say(Run.objects.get(pk=working).thread, ana, "And the hedge?")
    call = PermissionRequest(key="call-1", kind="execute", title="Run the tests", command="pytest -q")
    waiting, _ = request_permission(run=Run.objects.get(pk=begun[-1]), request=call)
    rule = create_call_rule(agent=vibe, by=access, kind="edit", effect="ask")
    dusk = factories.make_agent(ana, "dusk", channel=channel, answers_itself=True)
    join_code = create_join_code(agent=dusk, by=access)
    dawn = make_watcher(ana, channel, "dawn")
    draft = ScheduleDraft(name="Dawn", cron="0 6 * * *", time_zone="UTC", prompt="What is due?", channel=channel)
    schedules = [create_schedule(agent=dawn, by=access, draft=draft).pk for _ in range(2)]
    watched = factories.make_channel(ana, "watched")
    add_to_channel(channel=watched, participant=dawn.participant, by=factories.access(ana))
    watch = create_watch(agent=dawn, by=factories.access(ana), channel=watched, is_active=False)
    webhooks = [
        create_webhook(by=access, participant=ana.participant, url=HOOK_URL, kinds=["mention"])[0] for _ in range(2)
    ]
    names = {
        **{"thread": thread.pk, "channel": channel.pk, "message": place.message.pk, "ref": quote.pk},
        **{"feedback_create message": place.reply.pk, "profile_update If-Match": '"0"'},
        "agents_apply_feedback feedback": [place.episode.pk],
        **{"agents_create channels": [channel.pk], "agents_create_join_code handle": "scout"},
        "join_create code": join_code.code,
        **{"blocks_update If-Match": place.block, "runs_begin message": asked[0].pk},
        **{
            "schedules_create agent": "dawn",
            "watches_create agent": "dawn",
            "webhooks_create url": HOOK_URL,
            "direct_messages_open to": "vibe",
        },
        "number": send_test(webhook=webhooks[0], by=access).pk,
        **dict.fromkeys(("memory_get_summary thread", "memory_correct_summary thread"), long.pk),
    }
    letters, _ = open_direct_messages(by=factories.access(ana), recipient=vibe.participant)
    ids = {
        **{"approvals": place.approval, "attachments": place.attachment, "channels": channel.pk, "dives": place.dive},
        "images": place.image,
        **{"episodes": place.episode.pk, "knowledge": place.entry, "knowledge/contradictions": place.contradiction},
        **{"memory/compactions": place.compaction, "memory/summaries": summary.pk, "messages": place.message.pk},
        **{"proposals": place.proposal, "runs": read.pk, "sessions": thread.pk, "threads": thread.pk},
        **{"tokens": place.token, "work": place.work, "work_decide": constraint.pk, "runs_retry": place.run.pk},
        **dict.fromkeys(("knowledge_accept", "knowledge_reject"), place.suggestion),
        **dict.fromkeys(("proposals_accept", "proposals_reject"), pending.pk),
        "watches": watch.pk,
        **{"schedules": schedules[0], "schedules_delete": schedules[1]},
        **{"webhooks": webhooks[0].pk, "webhooks_delete": webhooks[1].pk},
        **dict(zip((*EXTERNAL_OPERATIONS, "runs_get_permission"), begun, strict=True)),
        "runs_interrupt": working,
        **{"agents/{handle}/rules": rule.pk, "approvals_allow_always": waiting.approval_id},
        **dict.fromkeys(("knowledge_restore", "knowledge_undo"), archived.pk),
        **dict.fromkeys(("direct_favourites_add", "direct_favourites_remove"), letters.pk),
        "snippets": create_snippet(workspace=ana.workspace, by=access, name="style", text="Be brief.").pk,
    }
    asked_import = request_import(by=access, chunks=iter([b"{}"]), file_name="a.jsonl", form="", channel=None)
    ConversationImport.objects.filter(pk=asked_import.pk).update(state="done", finished_at=timezone.now())
    ids["imports"] = asked_import.pk
    return ExampleWorld(ana, vibe, scout, names, ids)
