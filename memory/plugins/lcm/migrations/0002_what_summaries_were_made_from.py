from django.db import migrations, models
from django.db.models.functions import Now
from pgtrigger.compiler import Trigger, UpsertTriggerSql
from pgtrigger.migrations import AddTrigger, RemoveTrigger

from openvibe.engines.database.migration_operations import CreateModels

# As before, but a summary is made from everything between `source_from_seq` and `last_seq`: what was given as earlier
# context loses its words in later summaries, too. Corrections of such a summary may quote them: they are emptied.
FORGET_CHANGED = """
CREATE OR REPLACE FUNCTION lcm_forget_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
BEGIN
    SELECT s.conversation_id INTO held FROM lcm_summarymessage l JOIN lcm_summary s ON s.id = l.summary_id
    WHERE l.message_id = NEW.id;
    IF held IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM FROM lcm_conversation WHERE id = held FOR UPDATE;
    UPDATE lcm_summary SET stale = true, version = version + 1, token_count = 20, content =
        '[This part of the conversation is being summarised anew, because a message in it was changed.]'
    WHERE conversation_id = held AND NEW.seq BETWEEN source_from_seq AND last_seq;
    UPDATE lcm_summarycorrection SET previous = '', content = '' WHERE summary_id IN (
        SELECT id FROM lcm_summary WHERE conversation_id = held AND NEW.seq BETWEEN source_from_seq AND last_seq
    );
    UPDATE lcm_conversation SET version = version + 1 WHERE id = held;
    RETURN NULL;
END $$;
"""

FORGET_CHANGED_BEFORE = """
CREATE OR REPLACE FUNCTION lcm_forget_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
BEGIN
    SELECT summary_id INTO held FROM lcm_summarymessage WHERE message_id = NEW.id;
    IF held IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM FROM lcm_conversation WHERE thread_id = NEW.thread_id FOR UPDATE;
    WITH RECURSIVE above AS (
        SELECT held AS id
        UNION
        SELECT e.container_id FROM lcm_summaryedge e JOIN above ON e.constituent_id = above.id
    )
    UPDATE lcm_summary SET stale = true, token_count = 20, content =
        '[This part of the conversation is being summarised anew, because a message in it was changed.]'
    WHERE id IN (SELECT id FROM above);
    UPDATE lcm_conversation SET version = version + 1 WHERE thread_id = NEW.thread_id;
    RETURN NULL;
END $$;
"""
"""The function of 0001, for going back."""

UNKNOWN_LEVEL_BEFORE = "UPDATE lcm_summary SET level = 'normal' WHERE level = 'corrected'"
"""Going back, what people corrected stays as it reads; that they did, and what it said before, is lost."""

# What an earlier version gave a model as earlier context was not kept. So a summary that a model wrote may go back to
# the first message; what was cut from its source, or picked by the offline model, saw nothing but that.
TRACE_OLD_SUMMARIES = """
UPDATE lcm_summary SET source_from_seq = first_seq WHERE level = 'fallback' OR model IN ('none', 'offline');
WITH RECURSIVE below AS (
    SELECT container_id AS top, constituent_id AS id FROM lcm_summaryedge
    UNION ALL
    SELECT below.top, e.constituent_id FROM below JOIN lcm_summaryedge e ON e.container_id = below.id
), lowest AS (
    SELECT below.top, min(s.source_from_seq) AS seq FROM below JOIN lcm_summary s ON s.id = below.id GROUP BY below.top
)
UPDATE lcm_summary SET source_from_seq = lowest.seq FROM lowest
WHERE lcm_summary.id = lowest.top AND lowest.seq < source_from_seq;
"""

# Words of messages that were deleted or edited since may stand in such summaries: workers write them anew.
FORGET_WHAT_LEAKED = """
WITH RECURSIVE leaked AS (
    SELECT s.id FROM lcm_summary s JOIN lcm_conversation c ON c.id = s.conversation_id
    WHERE s.source_from_seq < s.first_seq AND (
        EXISTS (
            SELECT FROM chat_message m WHERE m.thread_id = c.thread_id
            AND m.seq >= s.source_from_seq AND m.seq < s.first_seq
            AND (m.deleted_at > s.created_at OR m.edited_at > s.created_at)
        ) OR EXISTS (
            SELECT FROM lcm_summary t WHERE t.conversation_id = s.conversation_id AND t.stale
            AND t.last_seq >= s.source_from_seq AND t.first_seq < s.first_seq
        )
    )
    UNION
    SELECT e.container_id FROM lcm_summaryedge e JOIN leaked ON e.constituent_id = leaked.id
)
UPDATE lcm_summary SET stale = true, token_count = 20, content =
    '[This part of the conversation is being summarised anew, because a message in it was changed.]'
WHERE id IN (SELECT id FROM leaked);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0001_initial"),
        ("lcm", "0001_initial"),
        ("llm", "0001_initial"),
        ("workspaces", "0002_invitation"),
    ]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name="EndpointFailures",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("failures", models.PositiveSmallIntegerField(default=0)),
                    ("paused_until", models.DateTimeField(null=True)),
                    ("last_error", models.TextField(blank=True)),
                    (
                        "endpoint",
                        models.ForeignKey(null=True, on_delete=models.CASCADE, related_name="+", to="llm.endpoint"),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="workspaces.workspace"),
                    ),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(
                            fields=("workspace", "endpoint"), name="lcm_endpoint_failures_once", nulls_distinct=False
                        )
                    ]
                },
            ),
            migrations.CreateModel(
                name="SummaryCorrection",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("version", models.PositiveIntegerField(help_text="The summary's version since then.")),
                    ("previous", models.TextField(blank=True)),
                    ("content", models.TextField(blank=True)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "author",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "summary",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="corrections", to="lcm.summary"),
                    ),
                ],
                options={
                    "ordering": ["-id"],
                    "constraints": [
                        models.UniqueConstraint(fields=("summary", "version"), name="summary_corrected_once_a_version")
                    ],
                },
            ),
        ),
        migrations.RemoveField(model_name="conversation", name="failures"),
        migrations.RemoveField(model_name="conversation", name="last_error"),
        migrations.RemoveField(model_name="conversation", name="paused_until"),
        RemoveTrigger(model_name="summary", name="rewritten_only_when_stale"),
        migrations.RemoveConstraint(model_name="summary", name="summary_level_known"),
        migrations.AddField(
            model_name="summary",
            name="source_from_seq",
            field=models.PositiveBigIntegerField(
                default=1,
                help_text="The first message that anything it was made from goes back to, earlier context included.",
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="summary",
            name="version",
            field=models.PositiveIntegerField(db_default=1, help_text="Counts its rewritings."),
        ),
        migrations.AlterField(
            model_name="summary",
            name="level",
            field=models.CharField(
                choices=[
                    ("normal", "Normal"),
                    ("aggressive", "Durable facts only"),
                    ("fallback", "Cut from the source"),
                    ("corrected", "Corrected by a person"),
                ],
                max_length=10,
            ),
        ),
        migrations.AddConstraint(
            model_name="summary",
            constraint=models.CheckConstraint(
                condition=models.Q(("level__in", ["normal", "aggressive", "fallback", "corrected"])),
                name="summary_level_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="summary",
            constraint=models.CheckConstraint(
                condition=models.Q(("source_from_seq__lte", models.F("first_seq"))),
                name="summary_source_holds_its_messages",
            ),
        ),
        migrations.RunSQL(FORGET_CHANGED, FORGET_CHANGED_BEFORE),
        migrations.RunSQL(migrations.RunSQL.noop, UNKNOWN_LEVEL_BEFORE),
        migrations.RunSQL(TRACE_OLD_SUMMARIES, migrations.RunSQL.noop),
        migrations.RunSQL(FORGET_WHAT_LEAKED, migrations.RunSQL.noop),
        AddTrigger(
            model_name="summary",
            trigger=Trigger(
                name="rewritten_only_when_stale",
                sql=UpsertTriggerSql(
                    condition="WHEN (NOT OLD.stale AND NOT NEW.stale AND OLD.content IS DISTINCT FROM NEW.content AND NOT (NEW.level = 'corrected' AND NEW.version = OLD.version + 1) OR OLD.conversation_id <> NEW.conversation_id OR OLD.depth <> NEW.depth OR OLD.first_seq <> NEW.first_seq OR OLD.last_seq <> NEW.last_seq)",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                    hash="90b9fecf173ad2fb5132e84f133880609952e9b7",
                    operation="UPDATE",
                    pgid="pgtrigger_rewritten_only_when_stale_675c7",
                    table="lcm_summary",
                    when="BEFORE",
                ),
            ),
        ),
    ]
