"""Sessions in the database, as Django keeps them; every request reads one, so the statement is made once. What a
request did not change it does not write: another one may have, meanwhile."""

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from openvibe.engines.database.compiled_queries import CompiledQuery


@CompiledQuery
def _session_by_key(key: int) -> QuerySet[Session]:
    return Session.objects.filter(session_key=key, expire_date__gt=timezone.now())


class SessionStore(db.SessionStore):
    _stored: Session | None = None
    """The row as it was read; None once it was written."""

    @property
    def seconds_since_renewal(self) -> float:
        """How long ago its expiry was set; 0 for one that is new."""
        self.keys()  # reads it, where nothing has yet
        if self._stored is None:
            return 0.0
        return float(self.get_expiry_age()) - (self._stored.expire_date - timezone.now()).total_seconds()

    def save(self, must_create: bool = False) -> None:
        """Saves the session; of data that are as they were read only the expiry is written."""
        stored, self._stored = self._stored, None
        is_same_row = stored is not None and not must_create and stored.session_key == self.session_key
        if stored is None or not is_same_row or dict(self.items()) != self.decode(stored.session_data):
            super().save(must_create)
        elif not Session.objects.filter(pk=stored.pk).update(expire_date=self.get_expiry_date()):
            raise UpdateError  # it was ended meanwhile

    def _get_session_from_db(self) -> Session | None:
        sessions: list[Session] = _session_by_key.objects(self.session_key or "")
        if sessions:
            self._stored = sessions[0]
            return self._stored
        self._session_key = None
        return None
