"""What was sent to workers: the tests' broker keeps it in memory."""

from typing import NamedTuple

from celery import current_app


class Sent(NamedTuple):
    task: str
    arguments: tuple[int, ...]
    later: bool


def take_sent() -> list[Sent]:
    """All that was sent since it was taken last, of memory's own tasks."""
    tasks = []
    with current_app.connection_for_read() as broker:
        queue = broker.SimpleQueue("background")
        while True:
            try:
                message = queue.get_nowait()
            except queue.Empty:
                break
            message.ack()
            headers = message.headers
            tasks.append(Sent(headers["task"], tuple(message.payload[0]), headers["eta"] is not None))
        queue.close()
    return [sent for sent in tasks if sent.task.startswith("memory.")]
