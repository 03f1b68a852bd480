import django.db.models.expressions
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.core.validators import RegexValidator
from django.db import migrations, models
from django.db.models.functions import Cast, Now
from django.db.models.lookups import Exact
from pgtrigger.compiler import Trigger, UpsertTriggerSql
from pgvector.django import HalfVectorField, HnswIndex

from openvibe.engines.database.migration_operations import CreateModels
from openvibe.engines.search.models import SignsField


class Migration(migrations.Migration):
    initial = True

    dependencies = [("search", "0001_initial")]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name="Channel",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    (
                        "name",
                        models.CharField(
                            max_length=40,
                            validators=[
                                RegexValidator(
                                    "^[a-z0-9][a-z0-9_-]{0,39}\\Z",
                                    "Use 1 to 40 of a-z, 0-9, - and _, starting with a letter or digit.",
                                )
                            ],
                        ),
                    ),
                    ("description", models.TextField(blank=True, max_length=1000)),
                    (
                        "instructions",
                        models.TextField(
                            blank=True, help_text="Trusted instructions for agents in this channel; admins only."
                        ),
                    ),
                    ("is_private", models.BooleanField(default=False)),
                    ("archived_at", models.DateTimeField(blank=True, null=True)),
                    (
                        "created_by",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="channels", to="workspaces.workspace"),
                    ),
                    (
                        "participants",
                        models.ManyToManyField(
                            related_name="channels", through="chat.ChannelMembership", to="workspaces.participant"
                        ),
                    ),
                ],
                options={
                    "ordering": ["name"],
                    "constraints": [
                        models.UniqueConstraint(
                            fields=("workspace", "name"),
                            name="channel_name_unique",
                            violation_error_message="There is a channel of this name already.",
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="ChannelMembership",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("added_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "channel",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="memberships", to="chat.channel"),
                    ),
                    (
                        "participant",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="channel_memberships", to="workspaces.participant"
                        ),
                    ),
                ],
                options={
                    "constraints": [
                        models.UniqueConstraint(fields=("participant", "channel"), name="channel_membership_once")
                    ]
                },
            ),
            migrations.CreateModel(
                name="Thread",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    ("title", models.CharField(max_length=200)),
                    (
                        "access",
                        models.CharField(
                            choices=[
                                ("open", "Open to the channel's agents"),
                                ("human_only", "People only"),
                                ("agent_restricted", "Only the agents listed"),
                            ],
                            default="open",
                            max_length=16,
                        ),
                    ),
                    (
                        "instructions",
                        models.TextField(
                            blank=True, help_text="Trusted instructions for agents in this thread; admins only."
                        ),
                    ),
                    ("archived_at", models.DateTimeField(blank=True, null=True)),
                    ("last_seq", models.PositiveBigIntegerField(default=0, editable=False)),
                    ("last_message_at", models.DateTimeField(editable=False, null=True)),
                    (
                        "external_id",
                        models.CharField(
                            blank=True, editable=False, help_text="Where it was imported from.", max_length=80
                        ),
                    ),
                    ("channel", models.ForeignKey(on_delete=models.CASCADE, related_name="threads", to="chat.channel")),
                    (
                        "created_by",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="threads", to="workspaces.workspace"),
                    ),
                    (
                        "parent",
                        models.ForeignKey(
                            blank=True,
                            editable=False,
                            help_text="For a dive: the thread it started in.",
                            null=True,
                            on_delete=models.CASCADE,
                            related_name="side_threads",
                            to="chat.thread",
                        ),
                    ),
                    (
                        "allowed_agents",
                        models.ManyToManyField(blank=True, related_name="+", to="workspaces.participant"),
                    ),
                    (
                        "following_agents",
                        models.ManyToManyField(
                            blank=True, related_name="followed_threads", to="workspaces.participant"
                        ),
                    ),
                ],
                options={
                    "indexes": [models.Index(fields=["channel", "-last_message_at"], name="thread_recent")],
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(("access__in", ["open", "human_only", "agent_restricted"])),
                            name="thread_access_known",
                        ),
                        models.UniqueConstraint(
                            condition=models.Q(("external_id", ""), _negated=True),
                            fields=("channel", "external_id"),
                            name="thread_imported_once",
                        ),
                    ],
                    "triggers": [
                        Trigger(
                            name="dive_stands_in_its_thread",
                            sql=UpsertTriggerSql(
                                condition='WHEN (NEW."parent_id" IS NOT NULL)',
                                declare="DECLARE above record;",
                                func="SELECT parent_id, access, channel_id, workspace_id INTO above FROM chat_thread WHERE id = NEW.parent_id FOR SHARE; IF above.parent_id IS NOT NULL THEN RAISE EXCEPTION 'There is no dive inside a dive.' USING ERRCODE = 'check_violation'; END IF; NEW.access := above.access; NEW.channel_id := above.channel_id; NEW.workspace_id := above.workspace_id; RETURN NEW;",
                                hash="43d63d0d7c8187c7f31662be5f1f2b372a8b3c98",
                                operation="INSERT",
                                pgid="pgtrigger_dive_stands_in_its_thread_689e2",
                                table="chat_thread",
                                when="BEFORE",
                            ),
                        ),
                        Trigger(
                            name="dives_follow_their_thread",
                            sql=UpsertTriggerSql(
                                condition='WHEN (NEW."parent_id" IS NULL)',
                                func="UPDATE chat_thread SET access = NEW.access, channel_id = NEW.channel_id WHERE parent_id = NEW.id AND (access, channel_id) IS DISTINCT FROM (NEW.access, NEW.channel_id); RETURN NULL;",
                                hash="3e42c48b0472fac444baca078fb378d8917f1f68",
                                operation='UPDATE OF "access", "channel_id"',
                                pgid="pgtrigger_dives_follow_their_thread_8c7a4",
                                table="chat_thread",
                                when="AFTER",
                            ),
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="Draft",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("body", models.TextField()),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    (
                        "participant",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="drafts", to="workspaces.participant"),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="drafts", to="chat.thread")),
                ],
                options={"constraints": [models.UniqueConstraint(fields=("participant", "thread"), name="draft_once")]},
            ),
            migrations.CreateModel(
                name="Message",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("seq", models.PositiveBigIntegerField(db_default=0, editable=False)),
                    (
                        "kind",
                        models.CharField(
                            choices=[
                                ("text", "Text"),
                                ("tool_call", "Tool call"),
                                ("tool_result", "Tool result"),
                                ("dive_result", "Dive result"),
                                ("system", "System"),
                            ],
                            default="text",
                            max_length=12,
                        ),
                    ),
                    (
                        "state",
                        models.CharField(
                            choices=[
                                ("complete", "Complete"),
                                ("writing", "Being written"),
                                ("stopped", "Stopped"),
                                ("failed", "Failed"),
                            ],
                            default="complete",
                            max_length=8,
                        ),
                    ),
                    ("body", models.TextField(blank=True)),
                    ("call_id", models.CharField(blank=True, max_length=100)),
                    (
                        "client_id",
                        models.CharField(
                            blank=True,
                            help_text="The sender's own key; the same key is the same message.",
                            max_length=100,
                        ),
                    ),
                    (
                        "token_count",
                        models.PositiveIntegerField(
                            default=0, help_text="Tokens of the body (o200k_base), counted at write."
                        ),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now())),
                    ("edited_at", models.DateTimeField(null=True)),
                    ("deleted_at", models.DateTimeField(null=True)),
                    (
                        "search",
                        models.GeneratedField(
                            db_persist=True,
                            expression=SearchVector(
                                models.Func(
                                    models.F("body"),
                                    models.Value("(\\S{100})"),
                                    models.Value("\\1 "),
                                    models.Value("g"),
                                    function="regexp_replace",
                                    output_field=models.TextField(),
                                ),
                                config="english",
                            ),
                            output_field=SearchVectorField(),
                        ),
                    ),
                    (
                        "author",
                        models.ForeignKey(
                            on_delete=models.PROTECT, related_name="messages", to="workspaces.participant"
                        ),
                    ),
                    ("thread", models.ForeignKey(on_delete=models.CASCADE, related_name="messages", to="chat.thread")),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["author", "-created_at"], name="message_author_recent"),
                        models.Index(
                            condition=models.Q(
                                ("edited_at__isnull", False), ("deleted_at__isnull", False), _connector="OR"
                            ),
                            fields=["thread"],
                            name="message_changed",
                        ),
                        GinIndex(fields=["search"], gin_pending_list_limit=256, name="message_search"),
                    ],
                    "constraints": [
                        models.UniqueConstraint(fields=("thread", "seq"), name="message_seq_unique"),
                        models.UniqueConstraint(
                            condition=models.Q(("client_id", ""), _negated=True),
                            fields=("thread", "author", "client_id"),
                            name="message_client_id_once",
                        ),
                        models.CheckConstraint(condition=models.Q(("seq__gte", 1)), name="message_seq_from_one"),
                        models.CheckConstraint(
                            condition=models.Q(
                                ("kind__in", ["text", "tool_call", "tool_result", "dive_result", "system"])
                            ),
                            name="message_kind_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("state__in", ["complete", "writing", "stopped", "failed"])),
                            name="message_state_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(
                                ("deleted_at", None), models.Q(("body", ""), ("token_count", 0)), _connector="OR"
                            ),
                            name="message_deleted_is_empty",
                        ),
                    ],
                    "triggers": [
                        Trigger(
                            name="take_next_seq",
                            sql=UpsertTriggerSql(
                                condition='WHEN (NEW."seq" = 0)',
                                declare="DECLARE place record;",
                                func="UPDATE chat_thread SET last_seq = last_seq + 1, last_message_at = NEW.created_at WHERE id = NEW.thread_id RETURNING last_seq, channel_id, workspace_id INTO place; NEW.seq := place.last_seq; INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at) VALUES ('message_posted', place.workspace_id, place.channel_id, NEW.thread_id, NEW.id, now()); RETURN NEW;",
                                hash="0702b801e8a9909a4065e78600b1b03f3a6bede8",
                                operation="INSERT",
                                pgid="pgtrigger_take_next_seq_66e3e",
                                table="chat_message",
                                when="BEFORE",
                            ),
                        ),
                        Trigger(
                            name="tell_change",
                            sql=UpsertTriggerSql(
                                condition="WHEN (OLD.* IS DISTINCT FROM NEW.*)",
                                func="INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at) SELECT 'message_changed', workspace_id, channel_id, id, NEW.id, now() FROM chat_thread WHERE id = NEW.thread_id; RETURN NULL;",
                                hash="8eb8af3ceccc84ec3e3a5fdbd847b4bd8e89cfb7",
                                operation="UPDATE",
                                pgid="pgtrigger_tell_change_ef4e8",
                                table="chat_message",
                                when="AFTER",
                            ),
                        ),
                        Trigger(
                            name="loses_vector",
                            sql=UpsertTriggerSql(
                                condition="WHEN (NEW.state <> 'writing' AND (OLD.body, OLD.state, OLD.deleted_at) IS DISTINCT FROM (NEW.body, NEW.state, NEW.deleted_at))",
                                func="DELETE FROM chat_messagevector WHERE thread_id = NEW.thread_id AND seq BETWEEN NEW.seq AND NEW.seq + 1; DELETE FROM chat_diveresult WHERE message_id = NEW.id AND NEW.deleted_at IS NOT NULL; INSERT INTO chat_messagetoembed (space_id, message_id) SELECT s.id, m.id FROM search_vectorspace s JOIN chat_thread t ON t.id = NEW.thread_id JOIN chat_message m ON m.thread_id = t.id AND m.seq BETWEEN NEW.seq AND NEW.seq + 1 WHERE s.workspace_id = t.workspace_id AND s.state <> 'retired' AND s.kind <> 'none' AND m.deleted_at IS NULL AND m.state IN ('complete', 'stopped') AND m.kind IN ('text', 'dive_result') ON CONFLICT DO NOTHING; RETURN NULL;",
                                hash="3e5ea0c4e14887e5a76a3834c4869479284659aa",
                                operation='UPDATE OF "body", "state", "deleted_at"',
                                pgid="pgtrigger_loses_vector_67ca2",
                                table="chat_message",
                                when="AFTER",
                            ),
                        ),
                        Trigger(
                            name="wants_vector",
                            sql=UpsertTriggerSql(
                                func="INSERT INTO chat_messagetoembed (space_id, message_id) SELECT s.id, m.id FROM said m JOIN chat_thread t ON t.id = m.thread_id JOIN search_vectorspace s ON s.workspace_id = t.workspace_id WHERE s.state <> 'retired' AND s.kind <> 'none' AND m.state IN ('complete', 'stopped') AND m.kind IN ('text', 'dive_result') ON CONFLICT DO NOTHING; RETURN NULL;",
                                hash="4fa6151dda442e1bc75ffb5ffa876e2f5dc86fbe",
                                level="STATEMENT",
                                operation="INSERT",
                                pgid="pgtrigger_wants_vector_49689",
                                referencing="REFERENCING NEW TABLE AS said ",
                                table="chat_message",
                                when="AFTER",
                            ),
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="Mention",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("note", models.CharField(blank=True, max_length=200)),
                    (
                        "participant",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="mentions", to="workspaces.participant"
                        ),
                    ),
                    (
                        "message",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="mentions", to="chat.message"),
                    ),
                ],
                options={
                    "ordering": [models.OrderBy(models.F("id"))],
                    "indexes": [models.Index(fields=["participant", "message"], name="mention_of")],
                    "constraints": [models.UniqueConstraint(fields=("message", "participant"), name="mention_once")],
                },
            ),
            migrations.CreateModel(
                name="MessageRevision",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("body", models.TextField()),
                    ("replaced_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "message",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="revisions", to="chat.message"),
                    ),
                ],
                options={"ordering": ["replaced_at"]},
            ),
            migrations.CreateModel(
                name="ReadMarker",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("last_read_seq", models.PositiveBigIntegerField(default=0)),
                    (
                        "participant",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="read_markers", to="workspaces.participant"
                        ),
                    ),
                    (
                        "thread",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="read_markers", to="chat.thread"),
                    ),
                ],
                options={
                    "constraints": [models.UniqueConstraint(fields=("participant", "thread"), name="read_marker_once")]
                },
            ),
            migrations.CreateModel(
                name="Dive",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "state",
                        models.CharField(
                            choices=[("active", "Active"), ("published", "Published"), ("discarded", "Discarded")],
                            default="active",
                            max_length=9,
                        ),
                    ),
                    ("slot", models.PositiveSmallIntegerField(editable=False, null=True)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("ended_at", models.DateTimeField(null=True)),
                    (
                        "agent",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="workspaces.participant"),
                    ),
                    ("parent", models.ForeignKey(on_delete=models.CASCADE, related_name="dives", to="chat.thread")),
                    (
                        "result",
                        models.OneToOneField(
                            null=True, on_delete=models.SET_NULL, related_name="published_dive", to="chat.message"
                        ),
                    ),
                    (
                        "source",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="dives_from_here", to="chat.message"),
                    ),
                    (
                        "started_by",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="workspaces.participant"),
                    ),
                    ("thread", models.OneToOneField(on_delete=models.CASCADE, related_name="dive", to="chat.thread")),
                    (
                        "ended_by",
                        models.ForeignKey(
                            help_text="Who published or discarded it.",
                            null=True,
                            on_delete=models.PROTECT,
                            related_name="+",
                            to="workspaces.participant",
                        ),
                    ),
                ],
                options={
                    "ordering": [models.OrderBy(models.F("id"), descending=True)],
                    "indexes": [models.Index(fields=["parent", "-id"], name="dive_of_thread")],
                    "constraints": [
                        models.UniqueConstraint(fields=("parent", "slot"), name="dive_slot_once"),
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("ended_at", None), ("slot__gte", 1), ("slot__lte", 7), ("state", "active")),
                                models.Q(
                                    models.Q(("state", "active"), _negated=True),
                                    ("ended_at__isnull", False),
                                    ("slot", None),
                                ),
                                _connector="OR",
                            ),
                            name="dive_slot_while_active",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("state__in", ["active", "published", "discarded"])),
                            name="dive_state_known",
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="DiveResult",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("headline", models.CharField(max_length=120)),
                    ("bullets", ArrayField(base_field=models.TextField(), size=None)),
                    ("full", models.TextField(blank=True)),
                    (
                        "full_tokens",
                        models.PositiveIntegerField(default=0, help_text="Tokens of the full text (o200k_base)."),
                    ),
                    ("deferred", ArrayField(base_field=models.TextField(), default=list, size=None)),
                    ("questions", ArrayField(base_field=models.TextField(), default=list, size=None)),
                    ("published_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "agent",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="workspaces.participant"),
                    ),
                    (
                        "dive",
                        models.ForeignKey(null=True, on_delete=models.SET_NULL, related_name="results", to="chat.dive"),
                    ),
                    (
                        "message",
                        models.OneToOneField(on_delete=models.CASCADE, related_name="dive_result", to="chat.message"),
                    ),
                    (
                        "published_by",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="workspaces.participant"),
                    ),
                ],
                options={
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(("headline", ""), _negated=True), name="result_has_headline"
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("bullets__len__gte", 3), ("bullets__len__lte", 5)),
                            name="result_bullets",
                        ),
                        models.CheckConstraint(condition=models.Q(("deferred__len__lte", 2)), name="result_deferred"),
                        models.CheckConstraint(condition=models.Q(("questions__len__lte", 2)), name="result_questions"),
                    ],
                    "triggers": [
                        Trigger(
                            name="result_is_final",
                            sql=UpsertTriggerSql(
                                condition="WHEN (OLD.headline <> NEW.headline OR OLD.bullets <> NEW.bullets OR OLD.full <> NEW.full)",
                                func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                                hash="a1b367ae9db275fa520c3cff7ac73b4eaeee7fee",
                                operation="UPDATE",
                                pgid="pgtrigger_result_is_final_416f0",
                                table="chat_diveresult",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="MessageToEmbed",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("message", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="chat.message")),
                    (
                        "space",
                        models.ForeignKey(
                            db_index=False, on_delete=models.CASCADE, related_name="+", to="search.vectorspace"
                        ),
                    ),
                ],
                options={
                    "constraints": [models.UniqueConstraint(fields=("space", "message"), name="message_to_embed_once")]
                },
            ),
            migrations.CreateModel(
                name="MessageVector",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("seq", models.PositiveBigIntegerField()),
                    ("dimension", models.PositiveSmallIntegerField()),
                    ("own", HalfVectorField()),
                    ("pair", HalfVectorField(null=True)),
                    (
                        "message",
                        models.ForeignKey(
                            db_index=False, on_delete=models.CASCADE, related_name="+", to="chat.message"
                        ),
                    ),
                    ("space", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="search.vectorspace")),
                    (
                        "thread",
                        models.ForeignKey(db_index=False, on_delete=models.CASCADE, related_name="+", to="chat.thread"),
                    ),
                    ("parts", models.BinaryField(null=True)),
                    (
                        "pair_signs",
                        models.GeneratedField(
                            db_persist=True,
                            expression=Cast(models.Func("pair", function="binary_quantize"), SignsField()),
                            output_field=SignsField(),
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["thread", "space", "seq"], name="message_vector_in_thread"),
                        HnswIndex(
                            OpClass(Cast("own", HalfVectorField(dimensions=256)), name="halfvec_cosine_ops"),
                            condition=models.Q(("dimension", 256)),
                            name="message_vector_hnsw_256",
                        ),
                        models.Index(
                            condition=models.Q(
                                Exact(
                                    django.db.models.expressions.CombinedExpression(
                                        models.F("seq"), "%%", models.Value(2)
                                    ),
                                    0,
                                )
                            ),
                            fields=["thread", "space", "seq"],
                            include=("dimension", "pair_signs"),
                            name="message_vector_signs",
                        ),
                    ],
                    "constraints": [models.UniqueConstraint(fields=("message", "space"), name="message_vector_once")],
                },
            ),
        )
    ]
