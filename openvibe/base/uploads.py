"""The most that one request may bring, files included."""

from collections.abc import Mapping
from typing import IO, Any

from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler

MAX_UPLOAD_BYTES = 26 * 1024 * 1024
"""Of a request with files: five of the largest, and what is written beside them."""


class BoundedUploadHandler(FileUploadHandler):
    """Refuses a request that says it is larger, before any of it is read; else the handlers after it keep the files."""

    def handle_raw_input(
        self,
        input_data: IO[bytes],
        meta: Mapping[str, Any],
        content_length: int,
        boundary: str,
        encoding: str | None = None,
    ) -> None:
        if content_length > MAX_UPLOAD_BYTES:
            raise RequestDataTooBig(f"A request with files has at most {MAX_UPLOAD_BYTES:,} bytes.")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None
