"""Sessions in the database, as Django keeps them. What a request did not change it does not write: another one may
have, meanwhile."""

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.utils import timezone


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
        self._stored = super()._get_session_from_db()  # type: ignore[misc]  # the stubs lack it
        return self._stored
