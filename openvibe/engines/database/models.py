"""What models of every app share."""

from django.db import models
from django.db.models.functions import Now


class TimestampedModel(models.Model):
    """Created and last changed, UTC."""

    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True
