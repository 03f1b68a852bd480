"""Whether a delivery comes from OpenVibe: takes the secret, the header OpenVibe-Signature and the body as it came."""

import hashlib
import hmac
import time


def is_genuine(secret, header, body, tolerance=300):
    parts = [part.partition("=")[::2] for part in header.split(",")]
    sent_at = next((value for name, value in parts if name == "t"), "0")
    expected = hmac.new(secret.encode(), sent_at.encode() + b"." + body, hashlib.sha256).hexdigest()
    signatures = [value for name, value in parts if name == "v1"]  # two for a day after the secret was changed
    is_fresh = sent_at.isdigit() and abs(time.time() - int(sent_at)) <= tolerance
    return is_fresh and any(hmac.compare_digest(expected.encode(), signature.encode()) for signature in signatures)
