"""A passkey as a device keeps it: a key of its own, which signs what allauth's pages ask (WebAuthn, level 2)."""

import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.test import Client
from fido2.cose import ES256
from fido2.utils import sha256, websafe_decode, websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

from tests.factories import PASSWORD

FACTORS = "/accounts/2fa/"
_PRESENT, _VERIFIED, _HAS_KEY = 1, 4, 64


@dataclass
class Passkey:
    """A passkey that is not bound to anybody until `add`."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    pk: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    owner: str = ""

    def add(self, browser: Client, password: str = PASSWORD) -> int:
        """Adds the passkey as the page does it: the password once more, where it is asked, then the registration.
        Returns the last status: 302 for one that is kept."""
        page = f"{FACTORS}webauthn/add/"
        if confirm := browser.get(page).headers.get("Location"):
            assert browser.post(confirm, {"password": password}).headers["Location"] == page
        options = browser.get(page).context["js_data"]["creation_options"]["publicKey"]
        self.owner = options["user"]["id"]
        client_data = _client_data("webauthn.create", options["challenge"])
        public_key = ES256.from_cryptography_key(self.key.public_key())  # type: ignore[no-untyped-call]  # it has no types
        credential = AttestedCredentialData.create(bytes(16), self.pk, public_key)
        flags = AuthenticatorData.FLAG(_PRESENT | _VERIFIED | _HAS_KEY)
        data = AuthenticatorData.create(sha256(options["rp"]["id"].encode()), flags, 0, credential)
        attestation = AttestationObject.create("none", data, {})
        response = {"clientDataJSON": client_data, "attestationObject": attestation}
        form = {"name": "Key", "passwordless": "on", "credential": self._answer(response)}
        return browser.post(page, form).status_code

    def sign_in(self, browser: Client) -> bool:
        """Whether it opened the account, without a password."""
        page = f"{FACTORS}webauthn/login/"
        options = browser.get(page, headers={"X-Requested-With": "XMLHttpRequest"}).json()["request_options"][
            "publicKey"
        ]
        client_data = _client_data("webauthn.get", options["challenge"])
        flags = AuthenticatorData.FLAG(_PRESENT | _VERIFIED)
        data = AuthenticatorData.create(sha256(options["rpId"].encode()), flags, 1)
        signature = self.key.sign(data + sha256(client_data), ec.ECDSA(hashes.SHA256()))
        response = {"clientDataJSON": client_data, "authenticatorData": data, "signature": signature}
        answer = browser.post(page, {"credential": self._answer(response, userHandle=self.owner)})
        assert answer.status_code == 302
        return "_auth_user_id" in browser.session

    def _answer(self, response: dict[str, bytes], **words: str) -> str:
        pk = websafe_encode(self.pk)
        extensions: dict[str, Any] = {"credProps": {"rk": True}}
        coded = {name: websafe_encode(value) for name, value in response.items()} | words
        answer = {"id": pk, "rawId": pk, "type": "public-key", "response": coded}
        return json.dumps(answer | {"clientExtensionResults": extensions})


def _client_data(kind: str, challenge: str | bytes) -> CollectedClientData:
    code = websafe_decode(challenge) if isinstance(challenge, str) else challenge
    return CollectedClientData.create(kind, code, "http://testserver")
