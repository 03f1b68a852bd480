from django.db import migrations, models
from django.db.models.functions import Now
from pgtrigger.compiler import Trigger, UpsertTriggerSql

from openvibe.engines.database.migration_operations import CreateModels

# When the text of a message changes, every summary that stands for it loses its words in the same transaction. The
# trigger stands on chat's table, which knows nothing of memory: whatever changes a text, by whatever way, cannot leave it
# in a summary. The words are those of `models.REWRITING`. The conversation's lock, taken after the message's own as
# everywhere, waits for a condensed summary that is about to commit, so that this one is wiped, too.
FORGET_CHANGED = """
CREATE FUNCTION lcm_forget_changed() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER lcm_forget_changed AFTER UPDATE OF body ON chat_message
    FOR EACH ROW WHEN (OLD.body IS DISTINCT FROM NEW.body AND OLD.state <> 'writing')
    EXECUTE FUNCTION lcm_forget_changed();
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [("chat", "0001_initial")]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name="Conversation",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("seen_seq", models.PositiveBigIntegerField(default=0)),
                    ("version", models.PositiveBigIntegerField(default=0, help_text="Counts changes of the items.")),
                    (
                        "exhausted_version",
                        models.PositiveBigIntegerField(
                            help_text="The version at which nothing was left to compact.", null=True
                        ),
                    ),
                    (
                        "failures",
                        models.PositiveSmallIntegerField(default=0, help_text="Compactions that failed in a row."),
                    ),
                    ("paused_until", models.DateTimeField(null=True)),
                    ("last_error", models.TextField(blank=True)),
                    (
                        "thread",
                        models.OneToOneField(
                            on_delete=models.CASCADE, related_name="lcm_conversation", to="chat.thread"
                        ),
                    ),
                ],
            ),
            migrations.CreateModel(
                name="Summary",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("kind", models.CharField(choices=[("leaf", "Leaf"), ("condensed", "Condensed")], max_length=9)),
                    ("depth", models.PositiveSmallIntegerField(default=0)),
                    ("content", models.TextField()),
                    ("token_count", models.PositiveIntegerField(help_text="Tokens of the content (o200k_base).")),
                    ("first_seq", models.PositiveBigIntegerField()),
                    ("last_seq", models.PositiveBigIntegerField()),
                    ("earliest_at", models.DateTimeField()),
                    ("latest_at", models.DateTimeField()),
                    ("message_count", models.PositiveIntegerField()),
                    ("source_tokens", models.PositiveIntegerField(help_text="Tokens of what it was made from.")),
                    (
                        "level",
                        models.CharField(
                            choices=[
                                ("normal", "Normal"),
                                ("aggressive", "Durable facts only"),
                                ("fallback", "Cut from the source"),
                            ],
                            max_length=10,
                        ),
                    ),
                    ("model", models.CharField(max_length=120)),
                    ("stale", models.BooleanField(default=False)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "conversation",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="summaries", to="lcm.conversation"),
                    ),
                    (
                        "constituents",
                        models.ManyToManyField(
                            related_name="containers",
                            through="lcm.SummaryEdge",
                            through_fields=("container", "constituent"),
                            to="lcm.summary",
                        ),
                    ),
                    (
                        "messages",
                        models.ManyToManyField(related_name="+", through="lcm.SummaryMessage", to="chat.message"),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["conversation", "depth", "first_seq"], name="summary_place"),
                        models.Index(
                            condition=models.Q(("stale", True)), fields=["conversation"], name="summary_stale"
                        ),
                    ],
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(("kind__in", ["leaf", "condensed"])), name="summary_kind_known"
                        ),
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("depth", 0), ("kind", "leaf")),
                                models.Q(("depth__gte", 1), ("kind", "condensed")),
                                _connector="OR",
                            ),
                            name="summary_depth_fits_kind",
                        ),
                        models.CheckConstraint(condition=models.Q(("content__regex", "\\S")), name="summary_not_empty"),
                        models.CheckConstraint(
                            condition=models.Q(("level__in", ["normal", "aggressive", "fallback"])),
                            name="summary_level_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("message_count__gte", 1), ("token_count__gte", 1)),
                            name="summary_stands_for_some",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("last_seq__gte", models.F("first_seq"))), name="summary_seqs_in_order"
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("latest_at__gte", models.F("earliest_at"))),
                            name="summary_times_in_order",
                        ),
                    ],
                    "triggers": [
                        Trigger(
                            name="rewritten_only_when_stale",
                            sql=UpsertTriggerSql(
                                condition="WHEN (NOT OLD.stale AND NOT NEW.stale AND OLD.content IS DISTINCT FROM NEW.content OR OLD.conversation_id <> NEW.conversation_id OR OLD.depth <> NEW.depth OR OLD.first_seq <> NEW.first_seq OR OLD.last_seq <> NEW.last_seq)",
                                func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                                hash="97e238e365c1314a536735e26beb4028485abcc7",
                                operation="UPDATE",
                                pgid="pgtrigger_rewritten_only_when_stale_675c7",
                                table="lcm_summary",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="SummaryEdge",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "constituent",
                        models.OneToOneField(on_delete=models.RESTRICT, related_name="edge_up", to="lcm.summary"),
                    ),
                    (
                        "container",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="edges_down", to="lcm.summary"),
                    ),
                ],
                options={
                    "triggers": [
                        Trigger(
                            name="one_step_down",
                            sql=UpsertTriggerSql(
                                func="IF NOT EXISTS (SELECT FROM lcm_summary up JOIN lcm_summary down ON down.conversation_id = up.conversation_id AND up.depth = down.depth + 1 AND down.first_seq >= up.first_seq AND down.last_seq <= up.last_seq WHERE up.id = NEW.container_id AND down.id = NEW.constituent_id) THEN RAISE EXCEPTION 'a container stands one step above its constituents, in one conversation' USING ERRCODE = '23514'; END IF; RETURN NEW;",
                                hash="038ad53c4759bd68e2537347622cdda3f2d46322",
                                operation="INSERT OR UPDATE",
                                pgid="pgtrigger_one_step_down_36d9f",
                                table="lcm_summaryedge",
                                when="BEFORE",
                            ),
                        )
                    ]
                },
            ),
            migrations.CreateModel(
                name="SummaryMessage",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("message", models.OneToOneField(on_delete=models.RESTRICT, related_name="+", to="chat.message")),
                    ("summary", models.ForeignKey(on_delete=models.CASCADE, related_name="links", to="lcm.summary")),
                ],
                options={
                    "triggers": [
                        Trigger(
                            name="same_conversation",
                            sql=UpsertTriggerSql(
                                func="IF NOT EXISTS (SELECT FROM lcm_summary s JOIN lcm_conversation c ON c.id = s.conversation_id JOIN chat_message m ON m.thread_id = c.thread_id WHERE s.id = NEW.summary_id AND s.kind = 'leaf' AND m.id = NEW.message_id AND m.seq BETWEEN s.first_seq AND s.last_seq) THEN RAISE EXCEPTION 'a leaf holds messages of its own conversation' USING ERRCODE = '23514'; END IF; RETURN NEW;",
                                hash="86bbe6ec0f9f13801db6db89442232cbca75d213",
                                operation="INSERT OR UPDATE",
                                pgid="pgtrigger_same_conversation_42d47",
                                table="lcm_summarymessage",
                                when="BEFORE",
                            ),
                        )
                    ]
                },
            ),
            migrations.CreateModel(
                name="Item",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("ordinal", models.PositiveBigIntegerField()),
                    (
                        "conversation",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="items", to="lcm.conversation"),
                    ),
                    (
                        "message",
                        models.OneToOneField(null=True, on_delete=models.RESTRICT, related_name="+", to="chat.message"),
                    ),
                    (
                        "summary",
                        models.OneToOneField(
                            null=True, on_delete=models.RESTRICT, related_name="item", to="lcm.summary"
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(
                            condition=models.Q(("summary__isnull", False)),
                            fields=["conversation", "ordinal"],
                            name="item_summaries",
                        )
                    ],
                    "constraints": [
                        models.UniqueConstraint(fields=("conversation", "ordinal"), name="item_ordinal_once"),
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("message__isnull", False), ("summary", None)),
                                models.Q(("message", None), ("summary__isnull", False)),
                                _connector="OR",
                            ),
                            name="item_is_message_or_summary",
                        ),
                    ],
                    "triggers": [
                        Trigger(
                            name="same_conversation",
                            sql=UpsertTriggerSql(
                                condition="WHEN (NEW.summary_id IS NOT NULL)",
                                func="IF NOT EXISTS (SELECT FROM lcm_summary s WHERE s.id = NEW.summary_id AND s.conversation_id = NEW.conversation_id AND s.first_seq = NEW.ordinal) THEN RAISE EXCEPTION 'an item holds a summary of its own conversation' USING ERRCODE = '23514'; END IF; RETURN NEW;",
                                hash="849559358e90e414528ad53d03beb65b51e3a185",
                                operation="INSERT OR UPDATE",
                                pgid="pgtrigger_same_conversation_f037e",
                                table="lcm_item",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
        ),
        migrations.RunSQL(
            FORGET_CHANGED, "DROP TRIGGER lcm_forget_changed ON chat_message; DROP FUNCTION lcm_forget_changed();"
        ),
    ]
