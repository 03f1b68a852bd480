import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import openvibe.engines.database.fields


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0019_agent_limits"),
        ("workspaces", "0002_invitation_squashed_0012_names_that_look_alike"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PushPosition",
            fields=[
                (
                    "workspace",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="workspaces.workspace",
                    ),
                ),
                ("position", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="PushKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("private_key", openvibe.engines.database.fields.EncryptedTextField()),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
            ],
            options={"constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="push_key_is_one")]},
        ),
        migrations.CreateModel(
            name="PushSubscription",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "endpoint",
                    models.CharField(help_text="Its address at a push service.", max_length=1000, unique=True),
                ),
                ("p256dh", models.CharField(max_length=100)),
                ("auth", models.CharField(max_length=32)),
                ("session_key", models.CharField(db_index=True, max_length=40)),
                (
                    "auth_hash",
                    models.CharField(help_text="Of the password that the session was opened with.", max_length=128),
                ),
                ("browser", models.CharField(help_text="As in Firefox on Linux.", max_length=60)),
                (
                    "shows_private",
                    models.BooleanField(
                        default=False, help_text="Whether words of private channels and direct messages are shown."
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                ("resumes_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("failing_since", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="push_subscriptions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PushDelivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), db_index=True, editable=False
                    ),
                ),
                ("due_at", models.DateTimeField()),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("done_at", models.DateTimeField(null=True)),
                (
                    "message",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="chat.message"),
                ),
                (
                    "participant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.participant"
                    ),
                ),
                (
                    "subscription",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="chat.pushsubscription",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("done_at", None)), fields=["due_at"], name="push_delivery_due")
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("subscription", "message"), name="pushed_once_to_a_browser")
                ],
            },
        ),
    ]
