"""Two web and two worker processes, an outside PostgreSQL and Redis serve one workspace, and any of them may die."""

import json
import threading
from http.client import HTTPException
from pathlib import Path

from tests.operations.cluster import READY, Cluster, cluster, missing_programs
from tests.operations.processes import wait_until

POSTS_BETWEEN = 6  # accepted by the others while one is dead, and again once it is back
SECONDS_BETWEEN_POSTS = 0.2
EVERY_MENTION = 4  # every fourth post asks the agent


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


def test_each_process_is_killed_in_turn_and_nothing_is_lost_doubled_or_left_waiting(
    var: Path, migrated_dump: Path
) -> None:
    missing = missing_programs()
    assert not missing, f"Install {' and '.join(missing)} (Debian: `sudo apt-get install redis-server nginx-light`)."
    with cluster(var, migrated_dump) as at:
        watching, posting = Watching(at), Posting(at)
        watching.start()
        wait_until(watching.is_open.is_set, "the event stream")
        posting.start()
        for name, words in READY.items():
            accepts_more(posting, name)
            at.parts[name].kill()
            accepts_more(posting, f"the others without {name}")
            at.parts[name].start()
            at.parts[name].wait_for(words)
        accepts_more(posting, "all")
        posting.stopped.set()
        posting.join()
        wait_until(lambda: not unfinished(at), "the last answers")
        posted = set(posting.accepted.values())
        wait_until(lambda: posted <= watching.messages, "the last events")
        watching.stopped.set()

        assert posting.statuses <= {0, 201, 409, 502, 504}  # 409: asked again while the first call is under way
        stored = dict(at.rows("SELECT body, count(*) FROM chat_message WHERE body LIKE '%note %' GROUP BY body"))
        assert {text: stored.get(text) for text in posting.accepted} == dict.fromkeys(posting.accepted, 1)
        asked = [message for text, message in posting.accepted.items() if text.startswith("@")]
        answers = at.rows(
            "SELECT run.trigger_id, run.state, reply.state FROM agents_run run"
            " LEFT JOIN chat_message reply ON reply.id = run.reply_id ORDER BY run.trigger_id"
        )
        assert len(asked) > 5
        assert answers == [(message, "done", "complete") for message in sorted(asked)]
        assert (
            at.rows("SELECT max(seq) - count(*) FROM chat_message GROUP BY thread_id HAVING max(seq) > count(*)") == []
        )
        assert watching.positions == sorted(set(watching.positions))


def accepts_more(posting: Posting, who: str) -> None:
    wanted = len(posting.accepted) + POSTS_BETWEEN
    wait_until(lambda: len(posting.accepted) >= wanted, f"{who} to accept posts")


def unfinished(at: Cluster) -> list[tuple[object, ...]]:
    return at.rows("SELECT id, state FROM agents_run WHERE state NOT IN ('done', 'failed', 'cancelled')")
