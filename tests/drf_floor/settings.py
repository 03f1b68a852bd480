"""Settings of the floor of `bench http`: a Django with nothing but a database and Django REST framework."""

import os
from pathlib import Path

from openvibe.settings.environment import database_settings

SECRET_KEY = "floor"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.drf_floor.urls"
MIDDLEWARE: list[str] = []
USE_TZ = True
LOGGING_CONFIG = None
DATABASES = {"default": database_settings(os.environ["DATABASE_URL"], Path(os.environ["OPENVIBE_VAR"]))}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "rest_framework"]
REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_AUTHENTICATION_CLASSES": (),
    "DEFAULT_PERMISSION_CLASSES": (),
    "UNAUTHENTICATED_USER": None,
}
