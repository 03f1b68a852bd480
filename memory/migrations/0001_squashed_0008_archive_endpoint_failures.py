from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import MD5, Now

from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced, trigger

TABLES = (
    create_model(
        "Feedback",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        verdict=models.CharField(max_length=4, choices=[("up", "Helpful"), ("down", "Not helpful")]),
        tags=ArrayField(
            blank=True,
            default=list,
            base_field=models.CharField(
                max_length=16,
                choices=[("inaccurate", "Inaccurate"), ("wrong_format", "Wrong format"), ("not_useful", "Not useful")],
            ),
            size=None,
        ),
        text=models.TextField(max_length=2000, blank=True),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="feedback", db_index=False),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="feedback_given"),
        meta={
            "constraints": [
                models.UniqueConstraint(name="feedback_once_per_person", fields=("message", "participant")),
                models.CheckConstraint(name="feedback_verdict_known", condition=Q(verdict__in=["up", "down"])),
            ]
        },
    ),
    create_model(
        "Episode",
        kind=models.CharField(
            max_length=20,
            choices=[
                ("feedback_received", "Feedback received"),
                ("learning_acquired", "Learning acquired"),
                ("task_completed", "Task completed"),
                ("task_failed", "Task failed"),
                ("trust_check", "Trust check"),
            ],
        ),
        summary=models.TextField(max_length=2000),
        learning=models.TextField(max_length=2000, blank=True),
        created_at=models.DateTimeField(db_default=Now()),
        expires_at=models.DateTimeField(blank=True, null=True),
        prompt_count=models.PositiveIntegerField(default=0, help_text="How many runs had it in their prompt."),
        applied_at=models.DateTimeField(blank=True, null=True),
        applied_how=models.CharField(
            max_length=9,
            blank=True,
            choices=[("person", "By a person"), ("soul", "By a SOUL change"), ("withdrawn", "Withdrawn")],
        ),
        archived_at=models.DateTimeField(blank=True, null=True),
        agent=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="episodes", db_index=False),
        applied_by=models.ForeignKey(
            "workspaces.participant", models.SET_NULL, blank=True, null=True, related_name="+"
        ),
        channel=models.ForeignKey("chat.channel", models.CASCADE, blank=True, null=True, related_name="+"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, blank=True, null=True, related_name="+"),
        feedback=models.OneToOneField(
            "memory.feedback", models.SET_NULL, blank=True, null=True, related_name="episode"
        ),
        subject=models.CharField(max_length=40, blank=True, default=""),
        soul_version=models.PositiveIntegerField(
            null=True, editable=False, help_text="Number of the version of the agent's SOUL that applied it."
        ),
        suggested_at=models.DateTimeField(
            null=True, editable=False, help_text="When whoever gave the feedback suggested to apply it always."
        ),
        meta={
            "indexes": [
                models.Index(
                    name="episode_open_feedback",
                    fields=["agent", "-created_at"],
                    condition=Q(applied_at=None, kind="feedback_received"),
                ),
                models.Index(name="episode_recent", fields=["agent", "-created_at"]),
            ],
            "constraints": [
                models.CheckConstraint(
                    name="episode_kind_known",
                    condition=Q(
                        kind__in=[
                            "feedback_received",
                            "learning_acquired",
                            "task_completed",
                            "task_failed",
                            "trust_check",
                        ]
                    ),
                ),
                models.CheckConstraint(
                    name="episode_feedback_is_permanent", condition=~Q(kind="feedback_received") | Q(expires_at=None)
                ),
                models.UniqueConstraint(
                    name="episode_once_per_subject", fields=("agent", "kind", "subject"), condition=~Q(subject="")
                ),
                models.CheckConstraint(
                    name="episode_applied_by_soul_version", condition=Q(soul_version=None) | Q(applied_how="soul")
                ),
                models.CheckConstraint(
                    name="episode_suggested_while_open", condition=Q(suggested_at=None) | Q(applied_at=None)
                ),
            ],
        },
    ),
    create_model(
        "Block",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        label=models.CharField(max_length=40),
        description=models.CharField(max_length=300, blank=True),
        content=models.TextField(blank=True),
        tokens=models.PositiveIntegerField(default=0, help_text="Tokens of the content (o200k_base)."),
        max_tokens=models.PositiveIntegerField(default=300, validators=[MinValueValidator(1), MaxValueValidator(2000)]),
        readonly=models.BooleanField(default=False, help_text="Nobody changes it until an admin takes this back."),
        version=models.PositiveIntegerField(default=1),
        agent=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="blocks", db_index=False),
        changed_by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        meta={
            "ordering": ["label"],
            "constraints": [
                models.UniqueConstraint(name="block_label_once", fields=("agent", "label")),
                models.CheckConstraint(name="block_label_form", condition=Q(label__regex="^[a-z][a-z0-9_-]{0,39}$")),
                models.CheckConstraint(name="block_fits", condition=Q(tokens__lte=F("max_tokens"))),
                models.CheckConstraint(
                    name="block_limit_sensible", condition=Q(max_tokens__gte=1, max_tokens__lte=2000)
                ),
            ],
        },
    ),
    create_model(
        "Compaction",
        plugin=models.CharField(max_length=80),
        trigger=models.CharField(
            max_length=11,
            choices=[
                ("threshold", "The conversation grew past its threshold"),
                ("tool_result", "A tool answered at great length"),
                ("milestone", "A milestone was reached"),
                ("approval", "The work waits for an approval"),
                ("resume", "Long work was taken up again"),
                ("changed", "A message was edited or deleted"),
                ("hand", "Somebody asked for it"),
                ("agent", "An agent asked for it"),
            ],
        ),
        full=models.BooleanField(default=False),
        state=models.CharField(
            max_length=7,
            default="queued",
            choices=[
                ("queued", "waiting"),
                ("running", "running"),
                ("done", "done"),
                ("nothing", "nothing to do"),
                ("failed", "failed"),
            ],
        ),
        tokens_before=models.PositiveIntegerField(null=True),
        tokens_after=models.PositiveIntegerField(null=True),
        created_count=models.PositiveIntegerField(default=0, help_text="Summaries made."),
        summary_ids=models.JSONField(default=list),
        at_seq=models.PositiveBigIntegerField(default=0, help_text="The thread's newest message when it ended."),
        done_messages=models.PositiveIntegerField(default=0),
        of_messages=models.PositiveIntegerField(default=0),
        error=models.TextField(blank=True),
        attempt=models.PositiveSmallIntegerField(default=0),
        queued_at=models.DateTimeField(db_default=Now()),
        sent_at=models.DateTimeField(db_default=Now(), help_text="When a worker was last asked to carry it out."),
        started_at=models.DateTimeField(null=True),
        finished_at=models.DateTimeField(null=True),
        requested_by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="compactions", db_index=False),
        note=models.TextField(blank=True, help_text="What people should know of how it was done."),
        focus=models.CharField(
            max_length=200, blank=True, help_text="What to keep in most detail, in the asker's words."
        ),
        meta={
            "ordering": ["-id"],
            "indexes": [
                models.Index(name="compaction_of_thread", fields=["thread", "-id"]),
                models.Index(
                    name="compaction_waiting", fields=["sent_at"], condition=Q(state__in=["queued", "running"])
                ),
            ],
            "constraints": [
                models.UniqueConstraint(
                    name="compaction_one_at_a_time", fields=("thread",), condition=Q(state__in=["queued", "running"])
                ),
                models.CheckConstraint(
                    name="compaction_state_known",
                    condition=Q(state__in=["queued", "running", "done", "nothing", "failed"]),
                ),
                models.CheckConstraint(
                    name="compaction_failure_has_reason", condition=~Q(state="failed") | ~Q(error="")
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_tell_progress_e38d5",
                    "memory_compaction",
                    "AFTER",
                    "INSERT OR UPDATE",
                    func="INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, created_at) SELECT 'memory_changed', workspace_id, channel_id, id, now() FROM chat_thread WHERE id = NEW.thread_id; RETURN NULL;",
                )
            ],
        },
    ),
    create_model(
        "Handoff",
        trigger=models.CharField(
            max_length=11,
            choices=[
                ("threshold", "The conversation grew past its threshold"),
                ("tool_result", "A tool answered at great length"),
                ("milestone", "A milestone was reached"),
                ("approval", "The work waits for an approval"),
                ("resume", "Long work was taken up again"),
                ("changed", "A message was edited or deleted"),
                ("hand", "Somebody asked for it"),
                ("agent", "An agent asked for it"),
            ],
        ),
        at_seq=models.PositiveBigIntegerField(),
        sections=models.JSONField(),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        compaction=models.OneToOneField("memory.compaction", models.SET_NULL, null=True, related_name="handoff"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="handoffs", db_index=False),
        meta={
            "ordering": ["-id"],
            "indexes": [models.Index(name="handoff_of_thread", fields=["thread", "-id"])],
            "triggers": [
                trigger(
                    "pgtrigger_handoff_is_final_1dd4b",
                    "memory_handoff",
                    "BEFORE",
                    "UPDATE",
                    condition="WHEN (OLD.sections IS DISTINCT FROM NEW.sections)",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                )
            ],
        },
    ),
    create_model(
        "MemoryPlugin",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        name=models.CharField(max_length=80, help_text="For example memory/lcm."),
        enabled=models.BooleanField(default=False),
        config=models.JSONField(blank=True, default=dict),
        changed_by=models.ForeignKey(
            "workspaces.participant", models.SET_NULL, blank=True, null=True, related_name="+"
        ),
        workspace=models.ForeignKey(
            "workspaces.workspace", models.CASCADE, related_name="memory_plugins", db_index=False
        ),
        meta={
            "constraints": [
                models.UniqueConstraint(name="memory_plugin_once", fields=("workspace", "name")),
                models.UniqueConstraint(
                    name="memory_plugin_one_enabled_per_workspace", fields=("workspace",), condition=Q(enabled=True)
                ),
            ]
        },
    ),
    create_model(
        "ProfileNote",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        content=models.TextField(blank=True),
        tokens=models.PositiveIntegerField(default=0),
        version=models.PositiveIntegerField(default=1),
        agent=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="profile_notes", db_index=False),
        changed_by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        person=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+"),
        meta={
            "ordering": ["person__name", "id"],
            "constraints": [
                models.UniqueConstraint(name="profile_note_once", fields=("agent", "person")),
                models.CheckConstraint(name="profile_note_fits", condition=Q(tokens__lte=500)),
            ],
        },
    ),
    create_model(
        "CarriedVersion",
        number=models.PositiveIntegerField(),
        content=models.TextField(blank=True),
        how=models.CharField(
            max_length=40, help_text="What changed it: page, api, admin, agent, review, import, default."
        ),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        author=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        block=models.ForeignKey("memory.block", models.CASCADE, null=True, related_name="versions", db_index=False),
        note=models.ForeignKey(
            "memory.profilenote", models.CASCADE, null=True, related_name="versions", db_index=False
        ),
        meta={
            "ordering": ["-number"],
            "constraints": [
                models.UniqueConstraint(name="block_version_once", fields=("block", "number")),
                models.UniqueConstraint(name="note_version_once", fields=("note", "number")),
                models.CheckConstraint(
                    name="version_of_block_or_note",
                    condition=Q(block=None, note__isnull=False) | Q(block__isnull=False, note=None),
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_text_is_final_2083a",
                    "memory_carriedversion",
                    "BEFORE",
                    "UPDATE",
                    condition="WHEN (OLD.content <> NEW.content OR OLD.number <> NEW.number)",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                )
            ],
        },
    ),
    create_model(
        "ProgressEntry",
        checkpoint=models.CharField(max_length=200),
        changed=models.TextField(max_length=2000, blank=True, help_text="What changed."),
        evidence=models.TextField(max_length=2000, blank=True),
        open_issues=models.TextField(max_length=2000, blank=True),
        next_action=models.TextField(max_length=2000, blank=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        author=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="progress", db_index=False),
        meta={
            "ordering": ["id"],
            "indexes": [models.Index(name="progress_of_thread", fields=["thread", "-id"])],
            "triggers": [
                trigger(
                    "pgtrigger_only_added_to_362cf",
                    "memory_progressentry",
                    "BEFORE",
                    "UPDATE",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                )
            ],
        },
    ),
    create_model(
        "Proposal",
        kind=models.CharField(max_length=7, choices=[("episode", "Learning"), ("profile", "Profile notes")]),
        text=models.TextField(max_length=2000),
        before=models.TextField(blank=True),
        because=models.TextField(blank=True, help_text="Which messages it was learned from, in words."),
        since_seq=models.PositiveBigIntegerField(),
        upto_seq=models.PositiveBigIntegerField(),
        state=models.CharField(
            max_length=8,
            default="proposed",
            choices=[
                ("proposed", "Proposed"),
                ("accepted", "Accepted"),
                ("rejected", "Rejected"),
                ("undone", "Undone"),
            ],
        ),
        decided_at=models.DateTimeField(null=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        agent=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="proposals", db_index=False),
        decided_by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        episode=models.OneToOneField("memory.episode", models.SET_NULL, null=True, related_name="proposal"),
        person=models.ForeignKey("workspaces.participant", models.CASCADE, null=True, related_name="+"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="+"),
        meta={
            "ordering": ["-id"],
            "indexes": [models.Index(name="proposal_of_agent", fields=["agent", "-id"])],
            "constraints": [
                models.CheckConstraint(name="proposal_kind_known", condition=Q(kind__in=["episode", "profile"])),
                models.CheckConstraint(name="proposal_not_empty", condition=Q(text__regex="\\S")),
                models.UniqueConstraint(
                    F("agent"),
                    F("thread"),
                    F("kind"),
                    F("person"),
                    F("upto_seq"),
                    MD5("text"),
                    name="proposal_once",
                    nulls_distinct=False,
                ),
            ],
        },
    ),
    create_model(
        "ReviewMark",
        reviewed_seq=models.PositiveBigIntegerField(default=0),
        reviewed_at=models.DateTimeField(auto_now=True),
        agent=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+", db_index=False),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="+"),
        meta={"constraints": [models.UniqueConstraint(name="review_mark_once", fields=("agent", "thread"))]},
    ),
    create_model(
        "SessionInfo",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        external_id=models.CharField(max_length=80, blank=True),
        info=models.JSONField(blank=True, default=dict),
        agent=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+", db_index=False),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="+"),
        meta={
            "constraints": [
                models.UniqueConstraint(name="session_info_once", fields=("agent", "thread")),
                models.UniqueConstraint(
                    name="session_external_id_once", fields=("agent", "external_id"), condition=~Q(external_id="")
                ),
            ]
        },
    ),
    create_model(
        "WorkItem",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        kind=models.CharField(
            max_length=14,
            choices=[
                ("objective", "Objective"),
                ("constraint", "Constraint"),
                ("plan", "Plan"),
                ("goal", "Goal"),
                ("todo", "To do"),
                ("artifact", "Artifact"),
                ("error_tried", "Error and what was tried"),
                ("open_question", "Open question"),
                ("do_not_redo", "Do not redo"),
            ],
        ),
        text=models.TextField(),
        tokens=models.PositiveIntegerField(default=0),
        data=models.JSONField(blank=True, default=dict),
        state=models.CharField(
            max_length=7, default="open", choices=[("open", "Open"), ("done", "Done"), ("dropped", "Dropped")]
        ),
        version=models.PositiveIntegerField(default=1),
        closed_at=models.DateTimeField(null=True),
        author=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        closed_by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        message=models.ForeignKey("chat.message", models.SET_NULL, blank=True, null=True, related_name="+"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="work", db_index=False),
        confirmed_by=models.ForeignKey("workspaces.participant", models.PROTECT, null=True, related_name="+"),
        meta={
            "ordering": ["id"],
            "indexes": [models.Index(name="work_of_thread", fields=["thread", "kind", "id"])],
            "constraints": [
                models.CheckConstraint(
                    name="work_kind_known",
                    condition=Q(
                        kind__in=[
                            "objective",
                            "constraint",
                            "plan",
                            "goal",
                            "todo",
                            "artifact",
                            "error_tried",
                            "open_question",
                            "do_not_redo",
                        ]
                    ),
                ),
                models.CheckConstraint(name="work_state_known", condition=Q(state__in=["open", "done", "dropped"])),
                models.CheckConstraint(name="work_not_empty", condition=Q(text__regex="\\S")),
                models.CheckConstraint(
                    name="work_open_is_not_closed", condition=Q(closed_at=None, state="open") | ~Q(state="open")
                ),
                models.UniqueConstraint(
                    name="work_one_objective", fields=("thread",), condition=Q(kind="objective", state="open")
                ),
                models.UniqueConstraint(
                    name="work_one_plan", fields=("thread",), condition=Q(kind="plan", state="open")
                ),
                models.CheckConstraint(
                    name="work_only_constraints_are_confirmed", condition=Q(confirmed_by=None) | Q(kind="constraint")
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_members_confirm_constraints_0fcc3",
                    "memory_workitem",
                    "BEFORE",
                    'INSERT OR UPDATE OF "confirmed_by_id"',
                    declare="DECLARE member bigint;",
                    condition="WHEN (NEW.kind = 'constraint')",
                    func="SELECT participant_id INTO member FROM workspaces_member WHERE participant_id = COALESCE(NEW.confirmed_by_id, NEW.author_id) AND role <> 'guest'; IF NEW.confirmed_by_id IS NOT NULL AND member IS NULL THEN RAISE EXCEPTION 'Only members confirm constraints.' USING ERRCODE = 'check_violation'; END IF; IF TG_OP = 'INSERT' THEN NEW.confirmed_by_id := member; END IF; RETURN NEW;",
                )
            ],
        },
    ),
    create_model(
        "Approval",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        what=models.CharField(max_length=300, help_text="What would be done."),
        reason=models.TextField(max_length=2000, blank=True),
        state=models.CharField(
            max_length=9,
            default="requested",
            choices=[("requested", "Requested"), ("granted", "Granted"), ("denied", "Denied"), ("lapsed", "Lapsed")],
        ),
        decided_at=models.DateTimeField(null=True),
        note=models.CharField(max_length=300, blank=True),
        decided_by=models.ForeignKey("workspaces.participant", models.PROTECT, null=True, related_name="+"),
        requested_by=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="approvals", db_index=False),
        meta={
            "ordering": ["id"],
            "indexes": [
                models.Index(name="approval_of_thread", fields=["thread", "id"]),
                models.Index(name="approval_waiting", fields=["created_at"], condition=Q(state="requested")),
            ],
            "constraints": [
                models.CheckConstraint(
                    name="approval_decided_by_somebody",
                    condition=Q(decided_at=None, decided_by=None, state="requested")
                    | Q(decided_at__isnull=False, decided_by__isnull=False, state__in=["granted", "denied"])
                    | Q(decided_at__isnull=False, decided_by=None, state="lapsed"),
                )
            ],
            "triggers": [
                trigger(
                    "pgtrigger_decision_is_final_66e0e",
                    "memory_approval",
                    "BEFORE",
                    "UPDATE",
                    condition="WHEN (OLD.state <> 'requested' AND OLD.* IS DISTINCT FROM NEW.*)",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                )
            ],
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("chat", "0001_squashed_0015_images")]

    replaces = replaced(
        "memory",
        "0001_initial 0002_constraints_confirmed 0003_episode_subjects 0004_compaction_focus 0005_lapsed_approvals "
        "0006_feedback_applied_in_soul 0007_drop_covered_indexes 0008_archive_endpoint_failures",
    )

    operations = [CreateModels(*TABLES)]
