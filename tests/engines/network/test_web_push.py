"""Web Push by its standards: the example of RFC 8291, and a signature that a push service can check."""

from datetime import UTC, datetime

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from openvibe.engines.network.web_push import (
    MAX_PAYLOAD_BYTES,
    BadBrowserKey,
    decode_base64url,
    encode_base64url,
    encrypt,
    load_private_key,
    new_private_key,
    public_point,
    read_browser_keys,
    signature_header,
)
from tests.chat.push_service import TestBrowser

POINT = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
READER_KEY = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
SENDER_KEY = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
WORDS = b"When I grow up, I want to be a watermelon"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_"
    "yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
"""RFC 8291, section 5 and appendix A."""


def test_the_example_of_the_standard_is_encrypted_to_the_byte() -> None:
    keys = read_browser_keys(POINT, AUTH)
    body = encrypt(WORDS, keys, private_key=load_private_key(SENDER_KEY), salt=decode_base64url(SALT))
    assert encode_base64url(body) == BODY


def test_the_browser_of_the_tests_reads_the_example() -> None:
    browser = TestBrowser(load_private_key(READER_KEY), decode_base64url(AUTH))
    assert browser.decrypt(decode_base64url(BODY)) == WORDS


def test_each_push_is_encrypted_anew_and_read_by_its_browser_alone() -> None:
    browser, other = TestBrowser.new(), TestBrowser.new()
    keys = read_browser_keys(browser.p256dh, browser.auth_text)
    first, second = encrypt(WORDS, keys), encrypt(WORDS, keys)
    assert first != second
    assert browser.decrypt(first) == browser.decrypt(second) == WORDS
    with pytest.raises(Exception, match=r"^$"):  # InvalidTag says nothing
        other.decrypt(first)


def test_what_fits_into_a_push_is_sent_and_nothing_longer() -> None:
    keys = read_browser_keys(POINT, AUTH)
    assert len(encrypt(b"x" * MAX_PAYLOAD_BYTES, keys)) == 4_096
    with pytest.raises(ValueError, match="3,993"):
        encrypt(b"x" * (MAX_PAYLOAD_BYTES + 1), keys)


@pytest.mark.parametrize(
    ("p256dh", "auth"),
    [
        ("", AUTH),
        ("ж", AUTH),
        (POINT[:-4], AUTH),
        (encode_base64url(b"\x04" + b"\x01" * 64), AUTH),  # on no curve
        (encode_base64url(b"\x00"), AUTH),
        (POINT, ""),
        (POINT, encode_base64url(b"x" * 15)),
        (POINT, "!"),
    ],
)
def test_keys_that_are_none_are_refused(p256dh: str, auth: str) -> None:
    with pytest.raises(BadBrowserKey):
        read_browser_keys(p256dh, auth)


def test_a_push_service_can_check_who_sends() -> None:
    private_key = load_private_key(new_private_key())
    now = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    header = signature_header(
        private_key, endpoint="https://push.example:8443/x/1", contact="mailto:a@b.example", now=now
    )
    scheme, _, rest = header.partition(" ")
    token, key = (part.partition("=")[2] for part in rest.split(", "))
    assert scheme == "vapid"
    assert decode_base64url(key) == public_point(private_key)
    shown = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decode_base64url(key))
    claims = jwt.decode(
        token, shown, algorithms=["ES256"], audience="https://push.example:8443", options={"verify_exp": False}
    )
    assert claims["sub"] == "mailto:a@b.example"
    assert 0 < claims["exp"] - now.timestamp() <= 24 * 3600


def test_a_key_is_the_same_after_it_was_stored() -> None:
    text = new_private_key()
    assert len(text) == 43
    assert public_point(load_private_key(text)) == public_point(load_private_key(text))
