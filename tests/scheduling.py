"""Kinds of tests by where they stand, and which of them share a process when several run at once."""

from typing import Any

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # it has no types

KINDS = {
    "journeys": "people in real browsers, and programs beside them, at a served installation",
    "processes": "start other processes and wait for what they do",
    "nightly": "a real small model, which `make nightly` alone starts",
    "bench": "what `manage.py bench` runs, on tiny numbers",
    "unit": "this process and its database",
}
KIND_OF = {
    "tests/journeys/": "journeys",
    "tests/operations/test_bootstrap_venv.py": "processes",
    "tests/operations/test_serve.py": "processes",
    "tests/operations/test_supervisor.py": "processes",
    "tests/operations/test_local_model.py": "processes",
    "tests/operations/test_external_database.py": "processes",
    "tests/operations/test_documents.py": "processes",
    "tests/operations/test_file_storage.py": "processes",
    "tests/chat/test_documents.py": "processes",
    "tests/agents/test_documents.py": "processes",
    "tests/api/test_documents.py": "processes",
    "tests/operations/test_embedded.py": "processes",
    "tests/operations/test_backup.py": "processes",
    "tests/operations/test_backup_versions.py": "processes",
    "tests/operations/test_migration_history.py": "processes",
    "tests/upgrades/": "processes",
    "tests/operations/test_scale_out.py": "processes",
    "tests/operations/test_proxy_example.py": "processes",
    "tests/operations/test_two_databases.py": "processes",
    "tests/engines/jobs/test_workers.py": "processes",
    "tests/memory/plugins/test_conformance.py::test_an_author_runs_it_by_the_name_of_the_package": "processes",
    "tests/engines/llm/test_tokens.py::test_vocabularies_are_loaded_when_needed_and_without_the_network": "processes",
    "tests/agents/connect/test_client_wheel.py::test_pip_installs_it_without_a_network": "processes",
    "tests/client/test_command.py": "processes",
    "tests/client/test_join.py": "processes",
    "tests/test_every_page.py": "journeys",
    "tests/test_site.py": "processes",
    "tests/nightly/": "nightly",
    "tests/bench/test_benches.py": "bench",
    "tests/bench/test_plans.py": "bench",
}
LONG = (
    *("tests/api/test_access.py", "tests/memory/plugins/lcm/", "tests/api/test_schema.py", "tests/admin/"),
    *(
        "tests/workspaces/test_database_gone.py",
        "tests/engines/llm/",
        "tests/client/",
        "tests/agents/mcp/",
    ),  # they wait
)
SHARED_BY_WORKERS = ("tests/api/test_access.py", "tests/api/test_schema.py")


def kind_of(nodeid: str) -> str:
    return next((kind for start, kind in KIND_OF.items() if nodeid.startswith(start)), "unit")


def scope_of(nodeid: str) -> str:
    """What one worker runs in one go: a file; of the longest files, whose tests share little, a single test."""
    return nodeid if nodeid.startswith(SHARED_BY_WORKERS) else nodeid.partition("::")[0]


def rank_of(nodeid: str) -> int:
    """What takes longest is handed out first, so that no worker ends long after the other."""
    order = (*KIND_OF, *LONG)
    return next((rank for rank, start in enumerate(order) if nodeid.startswith(start)), len(order))


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Hands files to workers: what starts processes to the first of several, as long as there is any. It waits half of
    its time, and workers that all do so leave the processors idle.

    pytest-xdist's own groups go by a mark that it writes into the test's id; pytest 9.2 does not let it any more,
    silently.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        is_first = len(self.nodes) == 1 or node is self.nodes[0]
        preferred = (scope for scope in self.workqueue if (kind_of(scope) == "processes") == is_first)
        if scope := next(preferred, None):
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)
