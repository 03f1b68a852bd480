"""Which queue a job waits in."""

from openvibe.celery import app


def test_only_what_people_wait_for_is_in_the_queue_of_runs() -> None:
    app.loader.import_default_modules()
    ours = [name for name in app.tasks if not name.startswith("celery.")]
    queues = {name: app.amqp.router.route({}, name)["queue"].name for name in ours}
    assert "memory.compact" in queues
    assert {name for name, queue in queues.items() if queue == "runs"} == {"agents.carry_out_run"}
    assert set(queues.values()) == {"runs", "background"}


def test_a_job_of_one_queue_is_not_delivered_to_the_other() -> None:
    """Queues without a routing key of their own would both be bound to the default one."""
    keys = {queue.name: queue.routing_key for queue in app.amqp.queues.values()}
    assert keys == {"runs": "runs", "background": "background"}
