import django.utils.timezone
from django.conf import settings
from django.core.validators import RegexValidator
from django.db import migrations, models
from django.db.models.functions import Lower, Now
from pgtrigger.compiler import Trigger, UpsertTriggerSql

from openvibe.engines.database.migration_operations import CreateModels


class Migration(migrations.Migration):
    initial = True

    dependencies = [("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name="Workspace",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    ("name", models.CharField(max_length=80)),
                    ("slug", models.SlugField(max_length=40, unique=True)),
                    (
                        "description",
                        models.TextField(
                            blank=True,
                            help_text="Who you are; agents read it (≤ 200 tokens are used).",
                            max_length=1000,
                        ),
                    ),
                    (
                        "instructions",
                        models.TextField(
                            blank=True,
                            help_text="Organisation instructions: trusted, in every agent's prompt, at most 2,000 tokens.",
                        ),
                    ),
                    (
                        "budgets",
                        models.JSONField(
                            blank=True, default=dict, help_text="Token budgets that differ from the defaults."
                        ),
                    ),
                    (
                        "daily_token_budget",
                        models.PositiveIntegerField(
                            default=2000000, help_text="Tokens all agents together may use in one UTC day."
                        ),
                    ),
                ],
                options={
                    "abstract": False,
                    "triggers": [
                        Trigger(
                            name="has_vector_space",
                            sql=UpsertTriggerSql(
                                func="INSERT INTO search_vectorspace (workspace_id, kind, model, dimension, state, problem, failures, served_since) VALUES (NEW.id, 'static', '', 256, 'serving', '', 0, now()); RETURN NULL;",
                                hash="5c6ba9e0afd8b9f7385720a67e399cb113247435",
                                operation="INSERT",
                                pgid="pgtrigger_has_vector_space_1122b",
                                table="workspaces_workspace",
                                when="AFTER",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="User",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("password", models.CharField(max_length=128, verbose_name="password")),
                    ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                    (
                        "is_superuser",
                        models.BooleanField(
                            default=False,
                            help_text="Designates that this user has all permissions without explicitly assigning them.",
                            verbose_name="superuser status",
                        ),
                    ),
                    ("email", models.EmailField(max_length=254, unique=True)),
                    ("name", models.CharField(max_length=80)),
                    (
                        "theme",
                        models.CharField(
                            choices=[("system", "As the system"), ("light", "Light"), ("dark", "Dark")],
                            default="system",
                            max_length=6,
                        ),
                    ),
                    ("is_staff", models.BooleanField(default=False)),
                    ("is_active", models.BooleanField(default=True)),
                    ("date_joined", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                    (
                        "groups",
                        models.ManyToManyField(
                            blank=True,
                            help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                            related_name="user_set",
                            related_query_name="user",
                            to="auth.group",
                            verbose_name="groups",
                        ),
                    ),
                    (
                        "user_permissions",
                        models.ManyToManyField(
                            blank=True,
                            help_text="Specific permissions for this user.",
                            related_name="user_set",
                            related_query_name="user",
                            to="auth.permission",
                            verbose_name="user permissions",
                        ),
                    ),
                ],
                options={"constraints": [models.UniqueConstraint(Lower("email"), name="user_email_any_case")]},
            ),
            migrations.CreateModel(
                name="Participant",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "kind",
                        models.CharField(
                            choices=[("member", "Member"), ("agent", "Agent"), ("imported", "Imported speaker")],
                            max_length=8,
                        ),
                    ),
                    (
                        "handle",
                        models.CharField(
                            max_length=32,
                            validators=[
                                RegexValidator(
                                    "^[a-z0-9][a-z0-9_-]{0,31}\\Z",
                                    "Use 1 to 32 of a-z, 0-9, - and _, starting with a letter or digit.",
                                )
                            ],
                        ),
                    ),
                    ("name", models.CharField(max_length=80)),
                    ("is_active", models.BooleanField(default=True)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "workspace",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="participants", to="workspaces.workspace"
                        ),
                    ),
                ],
                options={
                    "ordering": ["handle"],
                    "constraints": [
                        models.UniqueConstraint(
                            fields=("workspace", "handle"),
                            name="participant_handle_unique",
                            violation_error_message="This handle is taken in this workspace.",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("handle__regex", "^[a-z0-9][a-z0-9_-]{0,31}$")),
                            name="participant_handle_form",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("kind__in", ["member", "agent", "imported"])),
                            name="participant_kind_known",
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="Member",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "role",
                        models.CharField(
                            choices=[("owner", "Owner"), ("admin", "Admin"), ("member", "Member"), ("guest", "Guest")],
                            default="member",
                            max_length=6,
                        ),
                    ),
                    ("joined_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("removed_at", models.DateTimeField(blank=True, null=True)),
                    (
                        "enter_sends",
                        models.BooleanField(
                            default=True, help_text="Enter sends a message, Shift+Enter breaks the line."
                        ),
                    ),
                    ("shortcuts", models.BooleanField(default=True, help_text="Single-key shortcuts.")),
                    (
                        "user",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="memberships", to=settings.AUTH_USER_MODEL
                        ),
                    ),
                    (
                        "participant",
                        models.OneToOneField(
                            on_delete=models.CASCADE, related_name="member", to="workspaces.participant"
                        ),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="members", to="workspaces.workspace"),
                    ),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("workspace", "user"), name="member_once_per_workspace"),
                        models.CheckConstraint(
                            condition=models.Q(("role__in", ["owner", "admin", "member", "guest"])),
                            name="member_role_known",
                        ),
                    ]
                },
            ),
            migrations.CreateModel(
                name="Spending",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "purpose",
                        models.CharField(
                            choices=[
                                ("summaries", "Summaries"),
                                ("review", "Reviews"),
                                ("contradictions", "Contradictions"),
                            ],
                            max_length=14,
                        ),
                    ),
                    ("model", models.CharField(max_length=120)),
                    ("input_tokens", models.PositiveIntegerField(default=0)),
                    ("output_tokens", models.PositiveIntegerField(default=0)),
                    ("cached_tokens", models.PositiveIntegerField(default=0)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "agent",
                        models.ForeignKey(
                            help_text="Whose budget it counts against.",
                            null=True,
                            on_delete=models.CASCADE,
                            related_name="+",
                            to="workspaces.participant",
                        ),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="spendings", to="workspaces.workspace"
                        ),
                    ),
                ],
                options={
                    "ordering": ["-id"],
                    "indexes": [
                        models.Index(fields=["workspace", "-created_at"], name="spending_of_workspace"),
                        models.Index(fields=["agent", "-created_at"], name="spending_of_agent"),
                    ],
                    "verbose_name": "background call",
                },
            ),
        )
    ]
