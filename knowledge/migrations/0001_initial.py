import django.utils.timezone
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.contrib.postgres.search import CombinedSearchVector, SearchConfig, SearchVector, SearchVectorField
from django.db import migrations, models
from django.db.models.functions import Cast, Now, Upper
from pgtrigger.compiler import Trigger, UpsertTriggerSql
from pgvector.django import HalfVectorField, HnswIndex

from openvibe.engines.database.migration_operations import CreateModels


class Migration(migrations.Migration):
    initial = True

    dependencies = [("chat", "0001_initial")]

    operations = [
        CreateModels(
            migrations.CreateModel(
                name="Entry",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("updated_at", models.DateTimeField(auto_now=True)),
                    ("topic", models.CharField(max_length=120)),
                    ("content", models.TextField()),
                    ("tokens", models.PositiveIntegerField(help_text="Tokens of the content (o200k_base).")),
                    (
                        "kind",
                        models.CharField(
                            choices=[
                                ("fact", "Fact"),
                                ("decision", "Decision"),
                                ("policy", "Policy"),
                                ("runbook", "Runbook"),
                                ("schema", "Schema"),
                                ("plan", "Plan"),
                                ("gap", "Known gap"),
                                ("convention", "Convention"),
                            ],
                            default="fact",
                            max_length=10,
                        ),
                    ),
                    (
                        "visibility",
                        models.CharField(
                            choices=[
                                ("shared", "Everybody in the workspace, agents from L3"),
                                ("restricted", "Admins and its owner, agents at L4"),
                            ],
                            default="shared",
                            max_length=10,
                        ),
                    ),
                    (
                        "status",
                        models.CharField(
                            choices=[
                                ("proposed", "Proposed"),
                                ("active", "Active"),
                                ("needs_review", "Needs review"),
                                ("superseded", "Superseded"),
                                ("archived", "Archived"),
                            ],
                            default="active",
                            max_length=12,
                        ),
                    ),
                    (
                        "status_since",
                        models.DateTimeField(
                            default=django.utils.timezone.now, help_text="When the status last changed."
                        ),
                    ),
                    (
                        "reason",
                        models.CharField(
                            blank=True,
                            choices=[
                                ("expired", "It expired"),
                                ("contradiction", "It may contradict another entry"),
                                ("wrong", "Somebody said it was wrong"),
                                ("source_gone", "What it was made from was deleted"),
                                ("unused", "Nobody used it for 90 days"),
                                ("asked", "Somebody asked for a review"),
                            ],
                            help_text="Why it waits for review or was archived.",
                            max_length=16,
                        ),
                    ),
                    ("reason_note", models.TextField(blank=True, help_text="What whoever sent it to review said.")),
                    (
                        "expires_at",
                        models.DateTimeField(
                            blank=True, help_text="UTC; at this instant it no longer holds.", null=True
                        ),
                    ),
                    (
                        "source",
                        models.CharField(
                            choices=[
                                ("result", "Dive result"),
                                ("message", "Message"),
                                ("manual", "Written by hand"),
                                ("suggestion", "Suggested by an agent"),
                                ("import", "Imported"),
                            ],
                            default="manual",
                            max_length=10,
                        ),
                    ),
                    (
                        "decided_at",
                        models.DateTimeField(blank=True, help_text="When a person last said that it holds.", null=True),
                    ),
                    (
                        "tags",
                        ArrayField(base_field=models.CharField(max_length=40), blank=True, default=list, size=None),
                    ),
                    (
                        "is_pinned",
                        models.BooleanField(default=False, help_text="Kept even when nobody uses it for 90 days."),
                    ),
                    ("use_count", models.PositiveIntegerField(default=0)),
                    ("last_used_at", models.DateTimeField(blank=True, null=True)),
                    ("version", models.PositiveIntegerField(default=1)),
                    (
                        "client_id",
                        models.CharField(
                            blank=True, help_text="The sender's own key: the same is the same.", max_length=100
                        ),
                    ),
                    (
                        "search",
                        models.GeneratedField(
                            db_persist=True,
                            expression=CombinedSearchVector(
                                SearchVector("topic", config="english", weight="A"),
                                "||",
                                SearchVector(
                                    models.Func(
                                        models.F("content"),
                                        models.Value("(\\S{100})"),
                                        models.Value("\\1 "),
                                        models.Value("g"),
                                        function="regexp_replace",
                                        output_field=models.TextField(),
                                    ),
                                    config="english",
                                    weight="B",
                                ),
                                SearchConfig("english"),
                            ),
                            output_field=SearchVectorField(),
                        ),
                    ),
                    (
                        "author",
                        models.ForeignKey(on_delete=models.PROTECT, related_name="+", to="workspaces.participant"),
                    ),
                    (
                        "decided_by",
                        models.ForeignKey(
                            blank=True,
                            help_text="The person who let it in.",
                            null=True,
                            on_delete=models.PROTECT,
                            related_name="+",
                            to="workspaces.participant",
                        ),
                    ),
                    (
                        "owner",
                        models.ForeignKey(
                            help_text="Who is told when it needs a review.",
                            on_delete=models.PROTECT,
                            related_name="+",
                            to="workspaces.participant",
                        ),
                    ),
                    (
                        "source_message",
                        models.ForeignKey(
                            blank=True,
                            null=True,
                            on_delete=models.SET_NULL,
                            related_name="knowledge",
                            to="chat.message",
                        ),
                    ),
                    (
                        "source_thread",
                        models.ForeignKey(
                            blank=True,
                            help_text="Where it comes from.",
                            null=True,
                            on_delete=models.SET_NULL,
                            related_name="+",
                            to="chat.thread",
                        ),
                    ),
                    (
                        "supersedes",
                        models.OneToOneField(
                            blank=True,
                            null=True,
                            on_delete=models.SET_NULL,
                            related_name="successor",
                            to="knowledge.entry",
                        ),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="knowledge", to="workspaces.workspace"
                        ),
                    ),
                    (
                        "compared_version",
                        models.PositiveIntegerField(
                            default=0,
                            editable=False,
                            help_text="The version that was last compared with its neighbours.",
                        ),
                    ),
                ],
                options={
                    "verbose_name_plural": "entries",
                    "ordering": [models.OrderBy(models.F("id"), descending=True)],
                    "indexes": [
                        models.Index(fields=["workspace", "status", "-id"], name="entry_by_status"),
                        models.Index(fields=["workspace", "topic"], name="entry_by_topic"),
                        models.Index(fields=["owner", "status"], name="entry_by_owner"),
                        models.Index(
                            condition=models.Q(("expires_at__isnull", False), ("status", "active")),
                            fields=["expires_at"],
                            name="entry_expiring",
                        ),
                        models.Index(
                            condition=models.Q(("compared_version__lt", models.F("version")), ("status", "active")),
                            fields=["id"],
                            name="entry_to_compare",
                        ),
                        models.Index(models.F("workspace"), Upper("topic"), name="entry_by_topic_any_case"),
                        GinIndex(fields=["search"], gin_pending_list_limit=256, name="entry_search"),
                    ],
                    "constraints": [
                        models.CheckConstraint(
                            condition=models.Q(
                                models.Q(("topic", ""), _negated=True), models.Q(("content", ""), _negated=True)
                            ),
                            name="entry_says_something",
                        ),
                        models.CheckConstraint(condition=models.Q(("tokens__lte", 2000)), name="entry_fits"),
                        models.CheckConstraint(
                            condition=models.Q(
                                (
                                    "kind__in",
                                    ["fact", "decision", "policy", "runbook", "schema", "plan", "gap", "convention"],
                                )
                            ),
                            name="entry_kind_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("visibility__in", ["shared", "restricted"])),
                            name="entry_visibility_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(
                                ("status__in", ["proposed", "active", "needs_review", "superseded", "archived"])
                            ),
                            name="entry_status_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("source__in", ["result", "message", "manual", "suggestion", "import"])),
                            name="entry_source_known",
                        ),
                        models.CheckConstraint(
                            condition=models.Q(("supersedes", models.F("id")), _negated=True),
                            name="entry_not_its_own_successor",
                        ),
                        models.UniqueConstraint(
                            condition=models.Q(
                                ("source", "result"), ("status__in", ["proposed", "active", "needs_review"])
                            ),
                            fields=("source_message",),
                            name="entry_result_pinned_once",
                        ),
                        models.UniqueConstraint(
                            condition=models.Q(("client_id", ""), _negated=True),
                            fields=("workspace", "author", "client_id"),
                            name="entry_client_id_once",
                        ),
                    ],
                    "triggers": [
                        Trigger(
                            name="no_circle",
                            sql=UpsertTriggerSql(
                                condition='WHEN (NEW."supersedes_id" IS NOT NULL)',
                                declare="DECLARE other bigint;",
                                func="PERFORM pg_advisory_xact_lock(7002, NEW.workspace_id::int); SELECT workspace_id INTO other FROM knowledge_entry WHERE id = NEW.supersedes_id; IF other IS DISTINCT FROM NEW.workspace_id THEN RAISE EXCEPTION 'An entry supersedes one of its own workspace.' USING ERRCODE = 'check_violation'; END IF; IF EXISTS (WITH RECURSIVE line (id) AS (SELECT NEW.supersedes_id UNION SELECT e.supersedes_id FROM knowledge_entry e JOIN line ON e.id = line.id WHERE e.supersedes_id IS NOT NULL) SELECT FROM line WHERE id = NEW.id) THEN RAISE EXCEPTION 'Entries cannot supersede each other in a circle.' USING ERRCODE = 'check_violation'; END IF; RETURN NEW;",
                                hash="8ea5f4acaac98a0360476f5bc7ad5821c76a7535",
                                operation='INSERT OR UPDATE OF "supersedes_id"',
                                pgid="pgtrigger_no_circle_8a374",
                                table="knowledge_entry",
                                when="BEFORE",
                            ),
                        ),
                        Trigger(
                            name="wants_vector",
                            sql=UpsertTriggerSql(
                                func="IF TG_OP = 'UPDATE' THEN IF (OLD.topic, OLD.content) IS NOT DISTINCT FROM (NEW.topic, NEW.content) THEN RETURN NULL; END IF; DELETE FROM knowledge_entryvector WHERE entry_id = NEW.id; END IF; INSERT INTO knowledge_entrytoembed (space_id, entry_id) SELECT id, NEW.id FROM search_vectorspace WHERE workspace_id = NEW.workspace_id AND state <> 'retired' AND kind <> 'none' ON CONFLICT DO NOTHING; RETURN NULL;",
                                hash="a464ae694cd88b10c2cd37fd893cb795b75d1149",
                                operation='INSERT OR UPDATE OF "topic", "content"',
                                pgid="pgtrigger_wants_vector_34d79",
                                table="knowledge_entry",
                                when="AFTER",
                            ),
                        ),
                        Trigger(
                            name="tell_change",
                            sql=UpsertTriggerSql(
                                func="INSERT INTO base_event (kind, workspace_id, created_at) VALUES ('knowledge_changed', NEW.workspace_id, now()); RETURN NULL;",
                                hash="8c734f1c9e87cf19eda810468ae23bf70a4ef402",
                                operation='INSERT OR UPDATE OF "topic", "content", "status", "expires_at", "version"',
                                pgid="pgtrigger_tell_change_6bb4a",
                                table="knowledge_entry",
                                when="AFTER",
                            ),
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="Contradiction",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("first_version", models.PositiveIntegerField()),
                    ("second_version", models.PositiveIntegerField()),
                    ("why", models.CharField(help_text="What differs, in words for people.", max_length=300)),
                    ("found_by", models.CharField(default="rule", help_text="rule or model", max_length=10)),
                    ("found_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("settled_at", models.DateTimeField(null=True)),
                    (
                        "settled_how",
                        models.CharField(
                            blank=True, help_text="both_hold, edited, superseded or archived", max_length=20
                        ),
                    ),
                    (
                        "settled_by",
                        models.ForeignKey(
                            null=True, on_delete=models.SET_NULL, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "workspace",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="workspaces.workspace"),
                    ),
                    ("first", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="knowledge.entry")),
                    (
                        "second",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="contradictions", to="knowledge.entry"
                        ),
                    ),
                ],
                options={
                    "ordering": ["-id"],
                    "indexes": [
                        models.Index(
                            condition=models.Q(("settled_at", None)),
                            fields=["workspace", "-id"],
                            name="contradiction_open",
                        ),
                        models.Index(
                            condition=models.Q(("settled_at", None)),
                            fields=["second"],
                            name="contradiction_open_second",
                        ),
                    ],
                    "constraints": [
                        models.UniqueConstraint(fields=("first", "second"), name="contradiction_once_per_pair"),
                        models.CheckConstraint(
                            condition=models.Q(("first__lt", models.F("second"))), name="contradiction_older_first"
                        ),
                    ],
                },
            ),
            migrations.CreateModel(
                name="EntryToEmbed",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("entry", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="knowledge.entry")),
                    (
                        "space",
                        models.ForeignKey(
                            db_index=False, on_delete=models.CASCADE, related_name="+", to="search.vectorspace"
                        ),
                    ),
                ],
                options={
                    "constraints": [models.UniqueConstraint(fields=("space", "entry"), name="entry_to_embed_once")]
                },
            ),
            migrations.CreateModel(
                name="EntryVector",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("dimension", models.PositiveSmallIntegerField()),
                    ("own", HalfVectorField()),
                    (
                        "entry",
                        models.ForeignKey(
                            db_index=False, on_delete=models.CASCADE, related_name="+", to="knowledge.entry"
                        ),
                    ),
                    ("space", models.ForeignKey(on_delete=models.CASCADE, related_name="+", to="search.vectorspace")),
                    ("parts", models.BinaryField(null=True)),
                ],
                options={
                    "indexes": [
                        HnswIndex(
                            OpClass(Cast("own", HalfVectorField(dimensions=256)), name="halfvec_cosine_ops"),
                            condition=models.Q(("dimension", 256)),
                            name="entry_vector_hnsw_256",
                        )
                    ],
                    "constraints": [models.UniqueConstraint(fields=("entry", "space"), name="entry_vector_once")],
                },
            ),
            migrations.CreateModel(
                name="Notice",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    (
                        "reason",
                        models.CharField(
                            choices=[
                                ("expired", "It expired"),
                                ("contradiction", "It may contradict another entry"),
                                ("wrong", "Somebody said it was wrong"),
                                ("source_gone", "What it was made from was deleted"),
                                ("unused", "Nobody used it for 90 days"),
                                ("asked", "Somebody asked for a review"),
                                ("proposed", "An agent suggested it"),
                            ],
                            max_length=16,
                        ),
                    ),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    ("seen_at", models.DateTimeField(null=True)),
                    (
                        "entry",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="notices", to="knowledge.entry"),
                    ),
                    (
                        "participant",
                        models.ForeignKey(
                            on_delete=models.CASCADE, related_name="knowledge_notices", to="workspaces.participant"
                        ),
                    ),
                ],
                options={
                    "ordering": ["-id"],
                    "indexes": [
                        models.Index(
                            condition=models.Q(("seen_at", None)), fields=["participant", "-id"], name="notice_unseen"
                        )
                    ],
                    "constraints": [
                        models.UniqueConstraint(
                            condition=models.Q(("seen_at", None)),
                            fields=("participant", "entry", "reason"),
                            name="notice_once_while_unseen",
                        )
                    ],
                },
            ),
            migrations.CreateModel(
                name="Revision",
                fields=[
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("number", models.PositiveIntegerField()),
                    (
                        "action",
                        models.CharField(
                            choices=[
                                ("created", "Written"),
                                ("pinned", "Pinned"),
                                ("suggested", "Suggested"),
                                ("imported", "Imported"),
                                ("accepted", "Accepted"),
                                ("rejected", "Rejected"),
                                ("edited", "Edited"),
                                ("renewed", "Renewed"),
                                ("superseded", "Superseded"),
                                ("archived", "Archived"),
                                ("restored", "Brought back"),
                                ("flagged", "Sent to review"),
                                ("expired", "Expired"),
                                ("settled", "Contradiction settled"),
                            ],
                            max_length=10,
                        ),
                    ),
                    (
                        "how",
                        models.CharField(
                            help_text="What changed it: page, api, admin, agent, import, job.", max_length=10
                        ),
                    ),
                    ("note", models.TextField(blank=True, help_text="Why, in the words of whoever did it.")),
                    ("changes", models.JSONField(default=dict)),
                    ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                    (
                        "by",
                        models.ForeignKey(
                            null=True, on_delete=models.PROTECT, related_name="+", to="workspaces.participant"
                        ),
                    ),
                    (
                        "entry",
                        models.ForeignKey(on_delete=models.CASCADE, related_name="revisions", to="knowledge.entry"),
                    ),
                ],
                options={
                    "ordering": ["-number"],
                    "constraints": [models.UniqueConstraint(fields=("entry", "number"), name="revision_number_once")],
                    "triggers": [
                        Trigger(
                            name="final",
                            sql=UpsertTriggerSql(
                                func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                                hash="254a2b474a00b69465b7bd6b59d3cff854610d58",
                                operation="UPDATE OR DELETE",
                                pgid="pgtrigger_final_87cf2",
                                table="knowledge_revision",
                                when="BEFORE",
                            ),
                        )
                    ],
                },
            ),
        )
    ]
