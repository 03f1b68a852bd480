"""Sessions in the database, as Django keeps them; every request reads one, so the statement is made once."""

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from openvibe.base.query_cache import CompiledQuery


@CompiledQuery
def _session_by_key(key: int) -> QuerySet[Session]:
    return Session.objects.filter(session_key=key, expire_date__gt=timezone.now())


class SessionStore(db.SessionStore):
    def _get_session_from_db(self) -> Session | None:
        sessions: list[Session] = _session_by_key.objects(self.session_key or "")
        if sessions:
            return sessions[0]
        self._session_key = None
        return None
