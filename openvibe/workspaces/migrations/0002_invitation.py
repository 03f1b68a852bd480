from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    initial = True

    dependencies = [("chat", "0001_initial"), ("workspaces", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Invitation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("token_hash", models.CharField(editable=False, max_length=64, unique=True)),
                (
                    "role",
                    models.CharField(
                        choices=[("owner", "Owner"), ("admin", "Admin"), ("member", "Member"), ("guest", "Guest")],
                        default="member",
                        max_length=6,
                    ),
                ),
                ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                ("expires_at", models.DateTimeField()),
                ("uses_left", models.PositiveSmallIntegerField(default=1)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_by",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="workspaces.participant"),
                ),
                (
                    "workspace",
                    models.ForeignKey(on_delete=models.CASCADE, related_name="invitations", to="workspaces.workspace"),
                ),
                ("channels", models.ManyToManyField(blank=True, related_name="+", to="chat.channel")),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("role", "owner"), _negated=True), name="invitation_never_makes_owners"
                    )
                ]
            },
        )
    ]
