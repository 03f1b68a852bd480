"""Whether a delivery comes from OpenVibe: takes the secret, the delivery's headers and its body as it came.

Libraries of Standard Webhooks do the same."""

import base64
import hashlib
import hmac
import time


def is_genuine(secret, headers, body, tolerance=300):
    key = base64.b64decode(secret.removeprefix("whsec_"))
    sent_at = headers["webhook-timestamp"]
    payload = f"{headers['webhook-id']}.{sent_at}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.new(key, payload, hashlib.sha256).digest())
    signatures = headers["webhook-signature"].encode().split()  # two for a day after the secret was changed
    is_fresh = sent_at.isdigit() and abs(time.time() - int(sent_at)) <= tolerance
    return is_fresh and any(hmac.compare_digest(expected, signature) for signature in signatures)
