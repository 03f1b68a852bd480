from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced

TABLES = (
    create_model(
        "Invitation",
        token_hash=models.CharField(max_length=64, unique=True, editable=False),
        role=models.CharField(
            max_length=6,
            default="member",
            choices=[("owner", "Owner"), ("admin", "Admin"), ("member", "Member"), ("guest", "Guest")],
        ),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        expires_at=models.DateTimeField(),
        uses_left=models.PositiveSmallIntegerField(default=1),
        revoked_at=models.DateTimeField(blank=True, null=True),
        created_by=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="invitations"),
        channels=models.ManyToManyField("chat.channel", blank=True, related_name="+"),
        meta={
            "constraints": [models.CheckConstraint(name="invitation_never_makes_owners", condition=~Q(role="owner"))]
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("workspaces", "0001_squashed_0012_names_that_look_alike"), ("chat", "0001_squashed_0015_images")]

    replaces = replaced("workspaces", "0002_invitation")

    operations = [CreateModels(*TABLES)]
