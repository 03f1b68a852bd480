"""What the web server runs: `granian --interface asgi openvibe.asgi:application`."""

import os
from typing import TYPE_CHECKING, cast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")

from a2wsgi import WSGIMiddleware
from django.conf import settings
from django.core.asgi import get_asgi_application

from openvibe.serving import Dispatcher
from openvibe.wsgi import application as pages

if TYPE_CHECKING:
    from a2wsgi.wsgi_typing import WSGIApp

threaded_pages = WSGIMiddleware(cast("WSGIApp", pages), workers=settings.ENV.web_threads)
application = Dispatcher(streams=get_asgi_application(), pages=threaded_pages)
