"""Static files: hashed names and long caching once collected, straight from the folders before that."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    manifest_strict = False
