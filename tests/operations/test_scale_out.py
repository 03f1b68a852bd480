"""Two web and two worker processes, an outside PostgreSQL and a broker serve one workspace, and any of them may die:
what ends is started again as the documented units do it, nobody else lends a hand."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path

import psycopg
import pytest

from tests.operations.cluster import READY, Broker, Cluster, cluster, rabbitmq, redis
from tests.operations.processes import wait_until

POSTS_BETWEEN = 6  # accepted by the others while one is dead, and again once it is back
SECONDS_BETWEEN_POSTS = 0.4
EVERY_MENTION = 4  # every fourth post asks the agent
RECOVERY_SECONDS = 60.0
"""The time of a recovery after a kill; beside it a machine may take as long as it took to start and to answer in the
beginning."""
ANSWERS = """
SELECT run.trigger_id, run.state, reply.state
FROM agents_run run
LEFT JOIN agents_heardmessage heard
    ON heard.message_id = run.trigger_id AND heard.run_id <> run.id AND run.reply_id IS NULL
LEFT JOIN agents_run answering ON answering.id = coalesce(heard.run_id, run.id) AND answering.state = 'done'
LEFT JOIN chat_message reply ON reply.id = answering.reply_id
ORDER BY run.trigger_id
"""
"""The state of the one reply that answers each mention: that of its run, or that of the run at work that heard it."""


class Posting(threading.Thread):
    """Somebody who posts steadily, and sends again, under the same key, what nobody answered."""

    def __init__(self, at: Cluster) -> None:
        super().__init__(daemon=True)
        self.cluster, self.accepted, self.stopped = at, dict[str, int](), threading.Event()
        self.statuses = set[int]()

    def run(self) -> None:
        number = 0
        while not self.stopped.wait(SECONDS_BETWEEN_POSTS):
            number += 1
            mention = f"@{self.cluster.agent} " if number % EVERY_MENTION == 0 else ""
            self.post(f"{mention}note {number:03}", key=f"note-{number}")

    def post(self, text: str, key: str) -> None:
        path = f"/api/v1/threads/{self.cluster.thread}/messages/"
        while not self.stopped.wait(0.05):
            status, body = self.cluster.call("POST", path, {"body": text}, Idempotency_Key=key)
            self.statuses.add(status)
            if status == 201:
                self.accepted[text] = json.loads(body)["id"]
                return


class Watching(threading.Thread):
    """Somebody who follows the event stream, from where she was when it breaks."""

    def __init__(self, at: Cluster) -> None:
        super().__init__(daemon=True)
        self.cluster, self.stopped, self.is_open = at, threading.Event(), threading.Event()
        self.frame, self.position, self.positions, self.messages = dict[str, str](), 0, list[int](), set[int]()

    def run(self) -> None:
        while not self.stopped.is_set():
            connection = self.cluster.connect(timeout=30)
            headers = {"Authorization": f"Bearer {self.cluster.token}"}
            if self.position:
                headers["Last-Event-ID"] = str(self.position)
            self.frame = {}
            try:
                connection.request("GET", "/api/v1/events/", headers=headers)
                response = connection.getresponse()
                while not self.stopped.is_set() and (line := response.readline()):
                    self.hear(line.decode().strip())
            except (OSError, HTTPException):
                pass
            finally:
                connection.close()
            self.stopped.wait(0.1)

    def hear(self, line: str) -> None:
        if line:
            name, _, self.frame[name] = line.partition(": ")
            return
        self.position = int(self.frame.get("id", self.position))
        if "data" in self.frame:
            self.positions.append(self.position)
            self.messages.add(json.loads(self.frame["data"]).get("message"))
        self.frame = {}
        self.is_open.set()


@pytest.mark.parametrize("make_broker", [redis, rabbitmq])
def test_each_process_is_killed_in_turn_and_all_comes_back_with_nothing_lost_or_doubled(
    var: Path, migrated_dump: Path, make_broker: Callable[[Path], Broker]
) -> None:
    begun_at = time.monotonic()
    with cluster(var, migrated_dump, make_broker) as at:
        watching, posting = Watching(at), Posting(at)
        watching.start()
        wait_until(watching.is_open.is_set, "the event stream")
        posting.start()
        wait_until(lambda: answers_after(at, 0), "the first answer")
        patience = RECOVERY_SECONDS + time.monotonic() - begun_at
        late = {}
        for name in ("broker", "database", *READY):
            accepts_more(posting, name)
            killed_at = time.monotonic()
            at.parts[name].kill()
            last = max(posting.accepted.values())
            wait_until(lambda: is_back(at, name, last), f"life without a hand after {name} was killed")  # noqa: B023
            late[name] = time.monotonic() - killed_at
        assert {name: seconds for name, seconds in late.items() if seconds > patience} == {}
        accepts_more(posting, "all")
        posting.stopped.set()
        posting.join()
        wait_until(lambda: not unfinished(at), "the last answers")
        posted = set(posting.accepted.values())
        wait_until(lambda: posted <= watching.messages, "the last events")
        watching.stopped.set()

        assert posting.statuses <= {0, 201, 409, 502, 503, 504}  # 409: again while the first call is under way
        stored = dict(at.rows("SELECT body, count(*) FROM chat_message WHERE body LIKE '%note %' GROUP BY body"))
        assert {text: stored.get(text) for text in posting.accepted} == dict.fromkeys(posting.accepted, 1)
        asked = [message for text, message in posting.accepted.items() if text.startswith("@")]
        answers = at.rows(ANSWERS)
        assert len(asked) > 5
        assert answers == [(message, "done", "complete") for message in sorted(asked)]
        assert (
            at.rows("SELECT max(seq) - count(*) FROM chat_message GROUP BY thread_id HAVING max(seq) > count(*)") == []
        )
        assert watching.positions == sorted(set(watching.positions))


def is_back(at: Cluster, name: str, last: int) -> bool:
    """What was killed runs again, pages are ready, and an agent has answered what was asked since; workers and the
    scheduler are heard."""
    if at.parts[name].starts < 2 or at.call("GET", "/readyz")[0] != 200:
        return False
    with suppress(psycopg.OperationalError):
        heard = at.rows(
            "SELECT kind, count(*) FROM base_heartbeat WHERE seen_at > now() - interval '1 minute' GROUP BY 1"
        )
        return bool(answers_after(at, last)) and dict(heard).keys() == {"worker", "scheduler"}
    return False


def answers_after(at: Cluster, last: int) -> list[tuple[object, ...]]:
    return at.rows(f"SELECT id FROM agents_run WHERE state = 'done' AND trigger_id > {last}")


def accepts_more(posting: Posting, who: str) -> None:
    wanted = len(posting.accepted) + POSTS_BETWEEN
    wait_until(lambda: len(posting.accepted) >= wanted, f"{who} to accept posts")


def unfinished(at: Cluster) -> list[tuple[object, ...]]:
    return at.rows("SELECT id, state FROM agents_run WHERE state NOT IN ('done', 'failed', 'cancelled')")
