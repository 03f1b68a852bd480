"""A worker that dies in the middle of a compaction: another takes it up, and nothing is lost or doubled."""

from typing import Any

from tests.journeys.installation import Installation
from tests.journeys.test_run_recovery import API_PAUSE
from tests.operations.processes import wait_until

LONG_THREAD = """
from openvibe.chat.models import Channel
from openvibe.chat.services import create_thread, post_message
from openvibe.workspaces.models import Member, Workspace
from openvibe.workspaces.queries import member_access
Workspace.objects.filter(slug="willow").update(budgets={"thread": {"ceiling": 3000}})
ana = member_access(Member.objects.get(workspace__slug="willow", participant__handle="ana"))
thread = create_thread(channel=Channel.objects.get(workspace__slug="willow", name="general"), by=ana, title="Roses")
for number in range(60):
    post_message(thread=thread, by=ana, body=f"Bed {number}: " + "the roses have come on since last week. " * 8)
print(thread.pk)
"""
BUDGETS_AS_BEFORE = """
from openvibe.workspaces.models import Workspace
Workspace.objects.filter(slug="willow").update(budgets={})
"""


def test_a_killed_worker_leaves_a_whole_memory_and_another_finishes(installation: Installation) -> None:
    token = installation.token("ana", "read,write,memory")
    go_on = installation.model.holds_back("They looked at the roses.")
    asked_before = len(installation.model.asked)
    thread = int(installation.shell(LONG_THREAD).split()[-1])  # so long that it may be compacted before anybody asks

    def of(path: str) -> Any:
        return installation.api("GET", path, token)

    try:
        row = installation.api("POST", "memory/compact/", token, {"thread": thread, "full": True})
        wait_until(lambda: len(installation.model.asked) > asked_before, "the worker asks the model")
        its_row = f"memory/compactions/{row['id']}/"
        assert of(its_row)["state"] == "running"
        installation.model.says("They looked at the roses.")
        installation.kill("jobs")
        go_on.set()
        wait_until(lambda: of(its_row)["state"] == "done", "another worker finishes", pause=API_PAUSE)
        done, stats = of(its_row), of(f"memory/stats/?thread={thread}")
        assert done["tokens_after"] < done["tokens_before"]
        assert stats["messages"] == 60
        assert stats["summaries"] >= 1  # the killed worker may just have written it
        assert (
            "They looked at the roses."
            in installation.api(
                "POST", "memory/tool/", token, {"thread": thread, "action": "search", "query": "They looked"}
            )["result"]
        )
    finally:
        installation.shell(BUDGETS_AS_BEFORE)
