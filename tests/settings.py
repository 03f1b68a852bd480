"""Settings of the tests: a var folder of their own, fast password hashing, tasks sent nowhere by themselves."""

import os
import tempfile
from pathlib import Path

os.environ.setdefault("OPENVIBE_VAR", str(Path(tempfile.gettempdir()) / f"openvibe-tests-{os.getuid()}"))

from openvibe.settings import *  # noqa: F403

DATABASES["default"].setdefault("OPTIONS", {})["options"] = "-c synchronous_commit=off"  # noqa: F405
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "openvibe.engines.serving.static_files.CachedUrlStorage"},
}
WHITENOISE_AUTOREFRESH = True  # else every test client looks at every static file before its first request
CELERY_BROKER_URL = "memory://"  # the real queue is used by the journeys, which serve an installation of their own
CELERY_BROKER_TRANSPORT_OPTIONS = {}
Path(STATIC_ROOT).mkdir(parents=True, exist_ok=True)  # noqa: F405 - WhiteNoise warns where nothing was collected
