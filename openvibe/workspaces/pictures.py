"""Pictures of people and agents: what was uploaded, decoded and encoded anew: nothing of the file itself is kept."""

from __future__ import annotations

import warnings
from io import BytesIO

from PIL import Image, ImageOps, UnidentifiedImageError

from openvibe.base.images import DECODING
from openvibe.base.problems import Problem
from openvibe.workspaces.models import PICTURE_PIXELS

MAX_UPLOAD_BYTES = 1024 * 1024
MAX_UPLOAD_PIXELS = 16_000_000
"""Width × height: decoded they take 64 MB at most, whatever the file says."""
FORMATS = ("PNG", "JPEG", "WEBP")
MAX_SCANS = 100
"""The most scans of a JPEG, each of which goes through all its pixels, however few bytes it has; encoders write about
ten."""
_SCAN_MARKER = b"\xff\xda"
_QUALITY = 82


def make_picture(data: bytes) -> bytes:
    """The middle square of an image as WebP of PICTURE_PIXELS, without anything else the file held (place, camera,
    comments, further frames). Raises Problem, with a sentence for whoever sent it."""
    if len(data) > MAX_UPLOAD_BYTES:
        raise _picture_problem("picture_too_large", "A picture may have 1 MB at most.")
    if data.count(_SCAN_MARKER) > MAX_SCANS:
        raise _picture_problem("not_a_picture", "The picture is damaged: it cannot be read.")
    try:
        with DECODING, warnings.catch_warnings(), Image.open(BytesIO(data), formats=FORMATS) as image:
            warnings.simplefilter("ignore")  # what is odd about a stranger's file is nothing for the log
            if image.width * image.height > MAX_UPLOAD_PIXELS:
                raise _picture_problem(
                    "picture_too_large", "The picture has more than 16 million pixels. Make it smaller."
                )
            image.draft("RGB", (2 * PICTURE_PIXELS, 2 * PICTURE_PIXELS))  # of a JPEG, only as much as is needed
            upright = ImageOps.exif_transpose(image).convert("RGBA")
            square = ImageOps.fit(upright, (PICTURE_PIXELS, PICTURE_PIXELS), Image.Resampling.LANCZOS)
            del upright
    except Problem:
        raise
    except UnidentifiedImageError:
        raise _picture_problem("not_a_picture", "That is no PNG, JPEG or WebP picture.") from None
    except Exception:  # decoders raise whatever a damaged file leads to: struct.error, TypeError, AttributeError, …
        raise _picture_problem("not_a_picture", "The picture is damaged: it cannot be read.") from None
    plain = Image.frombytes("RGBA", square.size, square.tobytes())  # no metadata comes along
    output = BytesIO()
    plain.save(output, "WEBP", quality=_QUALITY, method=4)
    return output.getvalue()


def _picture_problem(code: str, sentence: str) -> Problem:
    return Problem(f"{sentence} Nothing was changed.", code=code, field="picture")
