"""What allauth's pages of two-factor authentication need of us: secrets are encrypted as models' keys are."""

from allauth.mfa.adapter import DefaultMFAAdapter

from openvibe.engines.database.fields import decrypt, encrypt


class TwoFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    def encrypt(self, text: str) -> str:
        return encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return decrypt(encrypted_text)
