"""`Idempotency-Key`: the same POST sent again gives the first answer again, and creates nothing.

The key is claimed in the very transaction that creates: a call that dies half-way leaves neither the thing nor the
key, and the same call sent twice at once waits for the first one's commit, then gets its answer.
"""

import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.db import OperationalError, connection, transaction
from django.http import QueryDict
from drf_spectacular.utils import OpenApiParameter, extend_schema
from psycopg.errors import LockNotAvailable
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.auth import caller_of
from openvibe.api.models import IdempotencyKey
from openvibe.api.problems import MEDIA_TYPE, error_to_problem, exception_handler
from openvibe.base.problems import Conflict, Problem
from openvibe.engines.database.fields import CannotDecrypt, decrypt, encrypt

RETENTION_HOURS = 24
MAX_KEY_LENGTH = 200
LOCK_TIMEOUT = "10s"  # for the same call under way elsewhere

CLAIM_KEY = """
INSERT INTO api_idempotencykey AS kept (participant_id, key, fingerprint, created_at) VALUES (%s, %s, %s, now())
ON CONFLICT (participant_id, key) DO UPDATE
    SET fingerprint = EXCLUDED.fingerprint, status = NULL, body = NULL, created_at = now()
    WHERE kept.created_at < now() - make_interval(hours => %s)
RETURNING id
"""

IDEMPOTENCY_PARAMETER = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="Any text of 1 to 200 printable characters. The same key with the same body, within 24 hours, gets "
    "the first answer again (`Idempotency-Replayed: true`); with another body 409 `idempotency_mismatch`. A 404 is not "
    "kept.",
)

Handler = Callable[..., Response]


def idempotent(handler: Handler) -> Handler:
    """Marks the `post` of a view that creates something: it honours `Idempotency-Key`."""

    @wraps(handler)
    def respond(view: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        key = request.headers.get("Idempotency-Key")
        if key is None:
            return handler(view, request, *args, **kwargs)
        if not (0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
            message = f"An Idempotency-Key is 1 to {MAX_KEY_LENGTH} printable ASCII characters."
            raise Problem(message, code="bad_idempotency_key", field="Idempotency-Key")
        return _respond_once(view, request, key, lambda: handler(view, request, *args, **kwargs))

    documented_handler: Handler = extend_schema(parameters=[IDEMPOTENCY_PARAMETER])(respond)
    return documented_handler


def _respond_once(view: Any, request: Request, key: str, handle: Callable[[], Response]) -> Response:
    participant_id = caller_of(request).access.participant_id
    data = dict(request.data.lists()) if isinstance(request.data, QueryDict) else request.data
    body = json.dumps(data, sort_keys=True, separators=(",", ":"), default=_file_digest)  # what it says, not how
    request_hash = hashlib.sha256(f"{request.method} {request.get_full_path()}\n{body}".encode()).hexdigest()
    with transaction.atomic():
        claimed_id = _claim_key(participant_id, key, request_hash)
        if claimed_id is None:
            return _replay_response(participant_id, key, request_hash)
        try:
            with transaction.atomic():
                response = handle()
        except Exception as error:
            problem = error_to_problem(error)
            if problem is None or problem["status"] >= 500:  # nothing is kept, so the same call may be tried again
                raise
            response = exception_handler(error, view.get_exception_handler_context())
            if response.status_code == 404:  # what was named is gone, or is not there yet: nothing was done
                IdempotencyKey.objects.filter(pk=claimed_id).delete()
                return response
        text = JSONRenderer().render(response.data).decode() if response.data is not None else ""
        IdempotencyKey.objects.filter(pk=claimed_id).update(status=response.status_code, body=encrypt(text))
    return response


def _file_digest(file: Any) -> list[str]:
    """What stands for a file of the request in its fingerprint; the file can be read again."""
    if not isinstance(file, UploadedFile):
        raise TypeError(f"{type(file).__name__} cannot stand in a request.")
    file.seek(0)
    digest = hashlib.sha256(b"".join(file.chunks())).hexdigest()
    file.seek(0)
    return [file.name or "", digest]


def _claim_key(participant_id: int, key: str, request_hash: str) -> int | None:
    """The new row's id; None when the key was used before. Waits while the same key is being used elsewhere."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
            cursor.execute(CLAIM_KEY, [participant_id, key, request_hash, RETENTION_HOURS])
            row = cursor.fetchone()
            cursor.execute("SELECT set_config('lock_timeout', '0', true)")
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        raise Conflict("The same call is still under way. Ask again in a moment.", code="in_progress") from None
    return row[0] if row else None


def _replay_response(participant_id: int, key: str, request_hash: str) -> Response:
    stored = IdempotencyKey.objects.get(participant_id=participant_id, key=key)
    if stored.fingerprint != request_hash:
        raise Conflict(
            "This Idempotency-Key was used for another request. Use a new key for each new request.",
            code="idempotency_mismatch",
            field="Idempotency-Key",
        )
    try:
        text = decrypt(stored.body or "")
    except CannotDecrypt:
        raise Conflict("This was done already; its answer cannot be read any more.", code="answer_lost") from None
    status = stored.status or 200
    return Response(
        json.loads(text) if text else None,
        status=status,
        headers={"Idempotency-Replayed": "true"},
        content_type=MEDIA_TYPE if status >= 400 else None,
    )


CALL_TIME = timedelta(minutes=1)
"""A call's answer counts from its beginning, which is before what it made."""


def rewrite_answers(*, workspace_id: int, since: datetime, rewrite: Callable[[Any], Any]) -> int:
    """Rewrites the kept answers of a workspace's participants that may tell of what was made at `since` or later;
    returns how many said something else.

    `rewrite` takes an answer's data and returns it without what may not be kept.
    An answer that cannot be decrypted cannot be given again either.
    """
    keys = IdempotencyKey.objects.select_for_update().filter(
        participant__workspace_id=workspace_id, created_at__gte=since - CALL_TIME, status__isnull=False
    )
    changed_count = 0
    for key in keys.exclude(body="").order_by("pk"):
        try:
            data = json.loads(decrypt(key.body or "") or "null")
        except CannotDecrypt:
            continue
        rewritten = rewrite(data)
        if rewritten != data:
            key.body = encrypt(JSONRenderer().render(rewritten).decode())
            key.save(update_fields=["body"])
            changed_count += 1
    return changed_count
