from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Now

from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced, trigger

# When the text of a message changes, or a reply takes the place of another, every summary that stands for it loses its
# words in the same transaction. The triggers stand on chat's table, which knows nothing of memory: whatever changes a
# text, by whatever way, cannot leave it in a summary. The words are those of `models.STALE_CONTENT`. A summary is made from
# everything between `source_from_seq` and `last_seq`, earlier context included; corrections of it may quote the words,
# so they are emptied. The conversation's lock, taken after the message's own as everywhere, waits for a condensed
# summary that is about to commit, so that this one is wiped, too.
FORGET_CHANGED = """
CREATE FUNCTION lcm_forget_changed() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER lcm_forget_changed AFTER UPDATE OF body ON chat_message
    FOR EACH ROW WHEN (OLD.body IS DISTINCT FROM NEW.body AND OLD.state <> 'writing')
    EXECUTE FUNCTION lcm_forget_changed();
CREATE TRIGGER lcm_forget_replaced AFTER UPDATE OF state ON chat_message
    FOR EACH ROW WHEN ((OLD.state = 'replaced') <> (NEW.state = 'replaced'))
    EXECUTE FUNCTION lcm_forget_changed();
"""
DROP_FORGET_CHANGED = """
DROP TRIGGER lcm_forget_replaced ON chat_message;
DROP TRIGGER lcm_forget_changed ON chat_message;
DROP FUNCTION lcm_forget_changed();
"""


TABLES = (
    create_model(
        "Conversation",
        seen_seq=models.PositiveBigIntegerField(default=0),
        version=models.PositiveBigIntegerField(default=0, help_text="Counts changes of the items."),
        exhausted_version=models.PositiveBigIntegerField(
            null=True, help_text="The version at which nothing was left to compact."
        ),
        thread=models.OneToOneField("chat.thread", models.CASCADE, related_name="lcm_conversation"),
    ),
    create_model(
        "Summary",
        kind=models.CharField(max_length=9, choices=[("leaf", "Leaf"), ("condensed", "Condensed")]),
        depth=models.PositiveSmallIntegerField(default=0),
        content=models.TextField(),
        token_count=models.PositiveIntegerField(help_text="Tokens of the content (o200k_base)."),
        first_seq=models.PositiveBigIntegerField(),
        last_seq=models.PositiveBigIntegerField(),
        earliest_at=models.DateTimeField(),
        latest_at=models.DateTimeField(),
        message_count=models.PositiveIntegerField(),
        source_tokens=models.PositiveIntegerField(help_text="Tokens of what it was made from."),
        level=models.CharField(
            max_length=10,
            choices=[
                ("normal", "Normal"),
                ("aggressive", "Durable facts only"),
                ("fallback", "Cut from the source"),
                ("corrected", "Corrected by a person"),
            ],
        ),
        model=models.CharField(max_length=120),
        stale=models.BooleanField(default=False),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        conversation=models.ForeignKey("lcm.conversation", models.CASCADE, related_name="summaries", db_index=False),
        source_from_seq=models.PositiveBigIntegerField(
            help_text="The first message that anything it was made from goes back to, earlier context included."
        ),
        version=models.PositiveIntegerField(db_default=1, help_text="Counts its rewritings."),
        constituents=models.ManyToManyField(
            "lcm.summary",
            related_name="containers",
            through="lcm.SummaryEdge",
            through_fields=("container", "constituent"),
        ),
        messages=models.ManyToManyField("chat.message", related_name="+", through="lcm.SummaryMessage"),
        meta={
            "indexes": [
                models.Index(name="summary_place", fields=["conversation", "depth", "first_seq"]),
                models.Index(name="summary_stale", fields=["conversation"], condition=Q(stale=True)),
            ],
            "constraints": [
                models.CheckConstraint(name="summary_kind_known", condition=Q(kind__in=["leaf", "condensed"])),
                models.CheckConstraint(
                    name="summary_depth_fits_kind",
                    condition=Q(depth=0, kind="leaf") | Q(depth__gte=1, kind="condensed"),
                ),
                models.CheckConstraint(name="summary_not_empty", condition=Q(content__regex="\\S")),
                models.CheckConstraint(
                    name="summary_stands_for_some", condition=Q(message_count__gte=1, token_count__gte=1)
                ),
                models.CheckConstraint(name="summary_seqs_in_order", condition=Q(last_seq__gte=F("first_seq"))),
                models.CheckConstraint(name="summary_times_in_order", condition=Q(latest_at__gte=F("earliest_at"))),
                models.CheckConstraint(
                    name="summary_level_known", condition=Q(level__in=["normal", "aggressive", "fallback", "corrected"])
                ),
                models.CheckConstraint(
                    name="summary_source_holds_its_messages", condition=Q(source_from_seq__lte=F("first_seq"))
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_rewritten_only_when_stale_675c7",
                    "lcm_summary",
                    "BEFORE",
                    "UPDATE",
                    condition="WHEN (NOT OLD.stale AND NOT NEW.stale AND OLD.content IS DISTINCT FROM NEW.content AND NOT (NEW.level = 'corrected' AND NEW.version = OLD.version + 1) OR OLD.conversation_id <> NEW.conversation_id OR OLD.depth <> NEW.depth OR OLD.first_seq <> NEW.first_seq OR OLD.last_seq <> NEW.last_seq)",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                )
            ],
        },
    ),
    create_model(
        "SummaryEdge",
        constituent=models.OneToOneField("lcm.summary", models.RESTRICT, related_name="edge_up"),
        container=models.ForeignKey("lcm.summary", models.CASCADE, related_name="edges_down"),
        meta={
            "triggers": [
                trigger(
                    "pgtrigger_one_step_down_36d9f",
                    "lcm_summaryedge",
                    "BEFORE",
                    "INSERT OR UPDATE",
                    func="IF NOT EXISTS (SELECT FROM lcm_summary up JOIN lcm_summary down ON down.conversation_id = up.conversation_id AND up.depth = down.depth + 1 AND down.first_seq >= up.first_seq AND down.last_seq <= up.last_seq WHERE up.id = NEW.container_id AND down.id = NEW.constituent_id) THEN RAISE EXCEPTION 'a container stands one step above its constituents, in one conversation' USING ERRCODE = '23514'; END IF; RETURN NEW;",
                )
            ]
        },
    ),
    create_model(
        "SummaryMessage",
        message=models.OneToOneField("chat.message", models.RESTRICT, related_name="+"),
        summary=models.ForeignKey("lcm.summary", models.CASCADE, related_name="links"),
        meta={
            "triggers": [
                trigger(
                    "pgtrigger_same_conversation_42d47",
                    "lcm_summarymessage",
                    "BEFORE",
                    "INSERT OR UPDATE",
                    func="IF NOT EXISTS (SELECT FROM lcm_summary s JOIN lcm_conversation c ON c.id = s.conversation_id JOIN chat_message m ON m.thread_id = c.thread_id WHERE s.id = NEW.summary_id AND s.kind = 'leaf' AND m.id = NEW.message_id AND m.seq BETWEEN s.first_seq AND s.last_seq) THEN RAISE EXCEPTION 'a leaf holds messages of its own conversation' USING ERRCODE = '23514'; END IF; RETURN NEW;",
                )
            ]
        },
    ),
    create_model(
        "Item",
        ordinal=models.PositiveBigIntegerField(),
        conversation=models.ForeignKey("lcm.conversation", models.CASCADE, related_name="items", db_index=False),
        message=models.OneToOneField("chat.message", models.RESTRICT, null=True, related_name="+"),
        summary=models.OneToOneField("lcm.summary", models.RESTRICT, null=True, related_name="item"),
        meta={
            "indexes": [
                models.Index(
                    name="item_summaries", fields=["conversation", "ordinal"], condition=Q(summary__isnull=False)
                )
            ],
            "constraints": [
                models.UniqueConstraint(name="item_ordinal_once", fields=("conversation", "ordinal")),
                models.CheckConstraint(
                    name="item_is_message_or_summary",
                    condition=Q(message__isnull=False, summary=None) | Q(message=None, summary__isnull=False),
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_same_conversation_f037e",
                    "lcm_item",
                    "BEFORE",
                    "INSERT OR UPDATE",
                    condition="WHEN (NEW.summary_id IS NOT NULL)",
                    func="IF NOT EXISTS (SELECT FROM lcm_summary s WHERE s.id = NEW.summary_id AND s.conversation_id = NEW.conversation_id AND s.first_seq = NEW.ordinal) THEN RAISE EXCEPTION 'an item holds a summary of its own conversation' USING ERRCODE = '23514'; END IF; RETURN NEW;",
                )
            ],
        },
    ),
    create_model(
        "EndpointFailures",
        failures=models.PositiveSmallIntegerField(default=0),
        paused_until=models.DateTimeField(null=True),
        last_error=models.TextField(blank=True),
        endpoint=models.ForeignKey("llm.endpoint", models.CASCADE, null=True, related_name="+"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="+", db_index=False),
        meta={
            "constraints": [
                models.UniqueConstraint(
                    name="lcm_endpoint_failures_once", fields=("workspace", "endpoint"), nulls_distinct=False
                )
            ]
        },
    ),
    create_model(
        "SummaryCorrection",
        version=models.PositiveIntegerField(help_text="The summary's version since then."),
        previous=models.TextField(blank=True),
        content=models.TextField(blank=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        author=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        summary=models.ForeignKey("lcm.summary", models.CASCADE, related_name="corrections", db_index=False),
        meta={
            "ordering": ["-id"],
            "constraints": [
                models.UniqueConstraint(name="summary_corrected_once_a_version", fields=("summary", "version"))
            ],
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("chat", "0001_squashed_0015_images")]

    replaces = replaced(
        "lcm", "0001_initial 0002_what_summaries_were_made_from 0003_drop_covered_indexes 0004_replaced_answers"
    )

    operations = [CreateModels(*TABLES), migrations.RunSQL(FORGET_CHANGED, DROP_FORGET_CHANGED)]
