"""Addresses that an account only claimed go: until now they could be added without showing whose they are."""

from django.db import migrations
from django.db.models import F
from django.db.models.functions import Lower


def forget_claims(apps, schema_editor):
    addresses = apps.get_model("account", "EmailAddress").objects
    claimed = addresses.annotate(own=Lower("user__email"), given=Lower("email")).exclude(given=F("own"))
    addresses.filter(pk__in=list(claimed.filter(verified=False).values_list("pk", flat=True))).delete()


class Migration(migrations.Migration):
    dependencies = [
        ("workspaces", "0009_first_steps_and_pictures"),
        ("account", "0009_emailaddress_unique_primary_email"),
    ]
    operations = [migrations.RunPython(forget_claims, migrations.RunPython.noop)]
