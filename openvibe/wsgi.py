"""The pages and the API without event streams, for installations that serve the two apart."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")

application = get_wsgi_application()
