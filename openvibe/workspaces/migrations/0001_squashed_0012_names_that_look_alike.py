from django.conf import settings
from django.core.validators import RegexValidator
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Concat, Lower, Now
from django.db.models.lookups import GreaterThan, LessThanOrEqual
from django.utils.timezone import now

from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced, trigger

TABLES = (
    create_model(
        "Workspace",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        name=models.CharField(max_length=80),
        slug=models.SlugField(max_length=40, unique=True),
        description=models.TextField(
            max_length=1000, blank=True, help_text="Who you are; agents read it (≤ 200 tokens are used)."
        ),
        instructions=models.TextField(
            blank=True, help_text="Organisation instructions: trusted, in every agent's prompt, at most 2,000 tokens."
        ),
        budgets=models.JSONField(blank=True, default=dict, help_text="Token budgets that differ from the defaults."),
        daily_token_budget=models.PositiveIntegerField(
            default=2000000, help_text="Tokens all agents together may use in one UTC day."
        ),
        meta={
            "triggers": [
                trigger(
                    "pgtrigger_has_vector_space_1122b",
                    "workspaces_workspace",
                    "AFTER",
                    "INSERT",
                    func="INSERT INTO search_vectorspace (workspace_id, kind, model, dimension, state, problem, failures, served_since) VALUES (NEW.id, 'static', '', 256, 'serving', '', 0, now()); RETURN NULL;",
                )
            ]
        },
    ),
    create_model(
        "User",
        password=models.CharField(verbose_name="password", max_length=128),
        last_login=models.DateTimeField(verbose_name="last login", blank=True, null=True),
        is_superuser=models.BooleanField(
            verbose_name="superuser status",
            default=False,
            help_text="Designates that this user has all permissions without explicitly assigning them.",
        ),
        email=models.EmailField(max_length=254, unique=True),
        name=models.CharField(max_length=80),
        theme=models.CharField(
            max_length=6, default="system", choices=[("system", "As the system"), ("light", "Light"), ("dark", "Dark")]
        ),
        is_staff=models.BooleanField(default=False),
        is_active=models.BooleanField(default=True),
        date_joined=models.DateTimeField(default=now, editable=False),
        dnd_end=models.TimeField(blank=True, null=True),
        dnd_start=models.TimeField(
            blank=True, null=True, help_text="No notifications daily from then, in her time zone."
        ),
        dnd_until=models.DateTimeField(blank=True, null=True, help_text="No notifications until then."),
        time_zone=models.CharField(
            max_length=64,
            blank=True,
            default="",
            db_default="",
            help_text="As in Europe/Berlin; empty: as browsers say.",
        ),
        groups=models.ManyToManyField(
            "auth.group",
            verbose_name="groups",
            blank=True,
            help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
            related_name="user_set",
            related_query_name="user",
        ),
        user_permissions=models.ManyToManyField(
            "auth.permission",
            verbose_name="user permissions",
            blank=True,
            help_text="Specific permissions for this user.",
            related_name="user_set",
            related_query_name="user",
        ),
        meta={
            "constraints": [
                models.UniqueConstraint(Lower("email"), name="user_email_any_case"),
                models.CheckConstraint(
                    name="user_dnd_hours_whole",
                    condition=Q(dnd_end=None, dnd_start=None)
                    | Q(dnd_end__isnull=False) & Q(dnd_start__isnull=False) & ~Q(dnd_start=F("dnd_end")),
                ),
            ]
        },
    ),
    create_model(
        "Participant",
        kind=models.CharField(
            max_length=9,
            choices=[
                ("member", "Member"),
                ("agent", "Agent"),
                ("imported", "Imported speaker"),
                ("assistant", "Imported assistant"),
            ],
        ),
        handle=models.CharField(
            max_length=32,
            validators=[
                RegexValidator(
                    "^[a-z0-9][a-z0-9_-]{0,31}\\Z", "Use 1 to 32 of a-z, 0-9, - and _, starting with a letter or digit."
                )
            ],
        ),
        name=models.CharField(max_length=80),
        is_active=models.BooleanField(default=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        workspace=models.ForeignKey(
            "workspaces.workspace", models.CASCADE, related_name="participants", db_index=False
        ),
        picture_version=models.CharField(
            max_length=16,
            blank=True,
            default="",
            db_default="",
            editable=False,
            help_text="Of its picture, which is cached by it; empty without one. The database fills it in.",
        ),
        has_namesake=models.BooleanField(
            default=False,
            db_default=False,
            editable=False,
            help_text="Somebody else here has a name that looks like it. The database fills it in.",
        ),
        is_name_misleading=models.BooleanField(
            default=False, editable=False, help_text="The name reads as more than a name, or mixes scripts."
        ),
        name_key=models.CharField(
            max_length=160,
            default="",
            editable=False,
            help_text="What the name looks like; those that can be taken for each other have the same.",
        ),
        label=models.GeneratedField(
            help_text="The name, with the handle where it could be taken for another's: how prompts name people.",
            db_persist=True,
            expression=models.Case(
                models.When(
                    Q(has_namesake=True) | Q(is_name_misleading=True),
                    then=Concat("name", models.Value(" (@"), "handle", models.Value(")")),
                ),
                default=F("name"),
            ),
            output_field=models.CharField(max_length=116),
        ),
        meta={
            "ordering": ["handle"],
            "constraints": [
                models.UniqueConstraint(
                    name="participant_handle_unique",
                    violation_error_message="This handle is taken in this workspace.",
                    fields=("workspace", "handle"),
                ),
                models.CheckConstraint(
                    name="participant_handle_form", condition=Q(handle__regex="^[a-z0-9][a-z0-9_-]{0,31}$")
                ),
                models.CheckConstraint(
                    name="participant_kind_known", condition=Q(kind__in=["member", "agent", "imported", "assistant"])
                ),
            ],
            "indexes": [models.Index(name="participant_name_key", fields=["workspace", "name_key", "has_namesake"])],
            "triggers": [
                trigger(
                    "pgtrigger_finds_namesakes_1efe2",
                    "workspaces_participant",
                    "BEFORE",
                    'INSERT OR UPDATE OF "name_key", "has_namesake"',
                    func="IF TG_OP = 'INSERT' OR NEW.name_key <> OLD.name_key THEN PERFORM pg_advisory_xact_lock(7720770650243072 + (NEW.workspace_id * 1024) % 1000000000000 + (hashtextextended(NEW.name_key, 0) & 1023)); END IF; NEW.has_namesake := EXISTS (SELECT FROM workspaces_participant WHERE id <> NEW.id AND workspace_id = NEW.workspace_id AND name_key = NEW.name_key); RETURN NEW;",
                ),
                trigger(
                    "pgtrigger_tells_namesakes_b38c9",
                    "workspaces_participant",
                    "AFTER",
                    'INSERT OR UPDATE OF "name_key" OR DELETE',
                    func="IF TG_OP = 'UPDATE' AND NEW.name_key = OLD.name_key THEN RETURN NULL; END IF; IF TG_OP <> 'DELETE' AND NEW.has_namesake THEN UPDATE workspaces_participant SET has_namesake = true WHERE workspace_id = NEW.workspace_id AND name_key = NEW.name_key AND id <> NEW.id AND NOT has_namesake; END IF; IF TG_OP = 'INSERT' OR NOT OLD.has_namesake THEN RETURN NULL; END IF; PERFORM pg_advisory_xact_lock(7720770650243072 + (OLD.workspace_id * 1024) % 1000000000000 + (hashtextextended(OLD.name_key, 0) & 1023)); IF (SELECT count(*) FROM (SELECT FROM workspaces_participant WHERE workspace_id = OLD.workspace_id AND name_key = OLD.name_key AND id <> OLD.id LIMIT 2) AS others) = 1 THEN UPDATE workspaces_participant SET has_namesake = false WHERE workspace_id = OLD.workspace_id AND name_key = OLD.name_key AND id <> OLD.id AND has_namesake; END IF; RETURN NULL;",
                ),
            ],
        },
    ),
    create_model(
        "Member",
        role=models.CharField(
            max_length=6,
            default="member",
            choices=[("owner", "Owner"), ("admin", "Admin"), ("member", "Member"), ("guest", "Guest")],
        ),
        joined_at=models.DateTimeField(db_default=Now(), editable=False),
        removed_at=models.DateTimeField(blank=True, null=True),
        enter_sends=models.BooleanField(default=True, help_text="Enter sends a message, Shift+Enter breaks the line."),
        shortcuts=models.BooleanField(default=True, help_text="Single-key shortcuts."),
        user=models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="memberships"),
        participant=models.OneToOneField("workspaces.participant", models.CASCADE, related_name="member"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="members", db_index=False),
        is_invisible=models.BooleanField(
            default=False, db_default=False, help_text="Nobody is shown when they are here."
        ),
        digest=models.CharField(
            max_length=6,
            blank=True,
            default="",
            db_default="",
            choices=[("off", "Off"), ("hourly", "At most once an hour"), ("daily", "At most once a day")],
            help_text="E-mails about missed mentions; empty: daily where e-mail is set up.",
        ),
        digest_sent_at=models.DateTimeField(null=True, editable=False),
        notify_level=models.CharField(
            max_length=8,
            default="mentions",
            db_default="mentions",
            choices=[("all", "All messages"), ("mentions", "Mentions"), ("nothing", "Nothing")],
            help_text="What the member is notified of where no channel or thread says otherwise.",
        ),
        first_steps_since=models.DateTimeField(
            null=True,
            editable=False,
            help_text="What was done since then counts as first steps. Empty: none are shown.",
        ),
        opened_context_at=models.DateTimeField(null=True, editable=False, help_text="When they first saw a prompt."),
        meta={
            "constraints": [
                models.UniqueConstraint(name="member_once_per_workspace", fields=("workspace", "user")),
                models.CheckConstraint(
                    name="member_role_known", condition=Q(role__in=["owner", "admin", "member", "guest"])
                ),
                models.CheckConstraint(
                    name="member_notify_level_known", condition=Q(notify_level__in=["all", "mentions", "nothing"])
                ),
                models.CheckConstraint(
                    name="member_digest_known", condition=Q(digest__in=["", "off", "hourly", "daily"])
                ),
            ]
        },
    ),
    create_model(
        "Spending",
        purpose=models.CharField(
            max_length=14,
            choices=[
                ("summaries", "Summaries"),
                ("review", "Reviews"),
                ("contradictions", "Contradictions"),
                ("trials", "Trial questions"),
            ],
        ),
        model=models.CharField(max_length=120),
        input_tokens=models.PositiveIntegerField(default=0),
        output_tokens=models.PositiveIntegerField(default=0),
        cached_tokens=models.PositiveIntegerField(
            null=True, help_text="Of the input, read from the provider's cache. Empty where the provider did not say."
        ),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        agent=models.ForeignKey(
            "workspaces.participant",
            models.CASCADE,
            null=True,
            help_text="Whose budget it counts against.",
            related_name="+",
            db_index=False,
        ),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="spendings", db_index=False),
        meta={
            "ordering": ["-id"],
            "indexes": [
                models.Index(name="spending_of_workspace", fields=["workspace", "-created_at"]),
                models.Index(name="spending_of_agent", fields=["agent", "-created_at"]),
            ],
            "verbose_name": "background call",
        },
    ),
    create_model(
        "Snippet",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        name=models.CharField(
            max_length=40,
            validators=[
                RegexValidator(
                    "^[a-z0-9][a-z0-9_-]{0,39}\\Z", "Use 1 to 40 of a-z, 0-9, - and _, starting with a letter or digit."
                )
            ],
        ),
        text=models.TextField(),
        version=models.PositiveIntegerField(default=1, help_text="Counts its changes."),
        changed_by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="snippets", db_index=False),
        meta={
            "ordering": ["name"],
            "constraints": [
                models.UniqueConstraint(name="snippet_name_unique", fields=("workspace", "name")),
                models.CheckConstraint(name="snippet_name_form", condition=Q(name__regex="^[a-z0-9][a-z0-9_-]{0,39}$")),
            ],
        },
    ),
    create_model(
        "Presence",
        participant=models.OneToOneField(
            "workspaces.participant", models.CASCADE, primary_key=True, serialize=False, related_name="presence"
        ),
        seen_at=models.DateTimeField(db_default=Now()),
    ),
    create_model(
        "Picture",
        content=models.BinaryField(help_text="WebP."),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        participant=models.OneToOneField("workspaces.participant", models.CASCADE, related_name="picture"),
        meta={
            "constraints": [
                models.CheckConstraint(
                    name="picture_size_bounded",
                    condition=Q(
                        GreaterThan(
                            models.Func(F("content"), function="octet_length", output_field=models.IntegerField()), 0
                        ),
                        LessThanOrEqual(
                            models.Func(F("content"), function="octet_length", output_field=models.IntegerField()),
                            100000,
                        ),
                    ),
                )
            ],
            "triggers": [
                trigger(
                    "pgtrigger_names_its_hash_55646",
                    "workspaces_picture",
                    "AFTER",
                    "INSERT OR UPDATE OR DELETE",
                    func="IF TG_OP = 'DELETE' THEN UPDATE workspaces_participant SET picture_version = '' WHERE id = OLD.participant_id; ELSE UPDATE workspaces_participant SET picture_version = left(encode(sha256(NEW.content), 'hex'), 16) WHERE id = NEW.participant_id; END IF; RETURN NULL;",
                )
            ],
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("auth", "0012_alter_user_first_name_max_length")]

    replaces = replaced(
        "workspaces",
        "0001_initial 0003_cached_tokens_unknown 0004_snippets 0005_imported_assistant 0006_trial_questions 0007_presence "
        "0008_notifications 0009_first_steps_and_pictures 0010_claimed_addresses 0011_drop_covered_indexes "
        "0012_names_that_look_alike",
    )

    operations = [CreateModels(*TABLES)]
