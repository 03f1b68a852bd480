"""The ways into the API, as in `tests/api`."""

from tests.api.conftest import by_session, by_token, nobody

__all__ = ["by_session", "by_token", "nobody"]
