"""Celery's transports to Redis, of which a connection that was given up is a lost connection and no fault of ours.

kombu forgets the address of a connection that it gives up, while jobs that were taken from it are still under way. Who
acknowledges one of them then, or gives it back, met an AttributeError, which ended the worker for good."""

from typing import Any

from kombu.transport import redis


class _Channel:
    """The mended part of both kinds of channels."""

    connection: Any

    def _get_pool(self, asynchronous: bool = False) -> Any:
        if self.connection is None or self.connection.client is None:
            raise ConnectionError("This connection to the broker was given up.")
        inherited: Any = super()
        return inherited._get_pool(asynchronous=asynchronous)


class RedisChannel(_Channel, redis.Channel):
    """`redis://` and `rediss://`."""


class RedisTransport(redis.Transport):
    Channel = RedisChannel


class SentinelChannel(_Channel, redis.SentinelChannel):
    """`sentinel://`."""


class SentinelTransport(redis.SentinelTransport):
    Channel = SentinelChannel
