from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.contrib.postgres.search import CombinedSearchVector, SearchConfig, SearchVector, SearchVectorField
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.functions import Cast, Now, Upper
from django.utils.timezone import now
from pgvector.django import HalfVectorField, HnswIndex

from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced, trigger

TABLES = (
    create_model(
        "Entry",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        topic=models.CharField(max_length=120),
        content=models.TextField(),
        tokens=models.PositiveIntegerField(help_text="Tokens of the content (o200k_base)."),
        kind=models.CharField(
            max_length=10,
            default="fact",
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
        ),
        visibility=models.CharField(
            max_length=10,
            default="shared",
            choices=[
                ("shared", "Everybody in the workspace, agents from L3"),
                ("restricted", "Admins and its owner, agents at L4"),
            ],
        ),
        status=models.CharField(
            max_length=12,
            default="active",
            choices=[
                ("proposed", "Proposed"),
                ("active", "Active"),
                ("needs_review", "Needs review"),
                ("superseded", "Superseded"),
                ("archived", "Archived"),
            ],
        ),
        status_since=models.DateTimeField(default=now, help_text="When the status last changed."),
        reason=models.CharField(
            max_length=16,
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
        ),
        reason_note=models.TextField(blank=True, help_text="What whoever sent it to review said."),
        expires_at=models.DateTimeField(blank=True, null=True, help_text="UTC; at this instant it no longer holds."),
        source=models.CharField(
            max_length=10,
            default="manual",
            choices=[
                ("result", "Dive result"),
                ("message", "Message"),
                ("manual", "Written by hand"),
                ("suggestion", "Suggested by an agent"),
                ("import", "Imported"),
            ],
        ),
        decided_at=models.DateTimeField(blank=True, null=True, help_text="When a person last said that it holds."),
        tags=ArrayField(blank=True, default=list, base_field=models.CharField(max_length=40), size=None),
        is_pinned=models.BooleanField(default=False, help_text="Kept even when nobody uses it for 90 days."),
        use_count=models.PositiveIntegerField(default=0),
        last_used_at=models.DateTimeField(blank=True, null=True),
        version=models.PositiveIntegerField(default=1),
        client_id=models.CharField(max_length=100, blank=True, help_text="The sender's own key: the same is the same."),
        search=models.GeneratedField(
            db_persist=True,
            expression=CombinedSearchVector(
                SearchVector("topic", config="english", weight="A"),
                "||",
                SearchVector(
                    models.Func(
                        F("content"),
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
        author=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        decided_by=models.ForeignKey(
            "workspaces.participant",
            models.PROTECT,
            blank=True,
            null=True,
            help_text="The person who let it in.",
            related_name="+",
        ),
        owner=models.ForeignKey(
            "workspaces.participant",
            models.PROTECT,
            help_text="Who is told when it needs a review.",
            related_name="+",
            db_index=False,
        ),
        source_message=models.ForeignKey(
            "chat.message", models.SET_NULL, blank=True, null=True, related_name="knowledge"
        ),
        source_thread=models.ForeignKey(
            "chat.thread", models.SET_NULL, blank=True, null=True, help_text="Where it comes from.", related_name="+"
        ),
        supersedes=models.OneToOneField(
            "knowledge.entry", models.SET_NULL, blank=True, null=True, related_name="successor"
        ),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="knowledge", db_index=False),
        compared_version=models.PositiveIntegerField(
            default=0, editable=False, help_text="The version that was last compared with its neighbours."
        ),
        meta={
            "verbose_name_plural": "entries",
            "ordering": [models.OrderBy(F("id"), descending=True)],
            "indexes": [
                models.Index(name="entry_by_status", fields=["workspace", "status", "-id"]),
                models.Index(name="entry_by_topic", fields=["workspace", "topic"]),
                models.Index(name="entry_by_owner", fields=["owner", "status"]),
                models.Index(
                    name="entry_expiring", fields=["expires_at"], condition=Q(expires_at__isnull=False, status="active")
                ),
                models.Index(
                    name="entry_to_compare",
                    fields=["id"],
                    condition=Q(compared_version__lt=F("version"), status="active"),
                ),
                models.Index(F("workspace"), Upper("topic"), name="entry_by_topic_any_case"),
                GinIndex(name="entry_search", fields=["search"], gin_pending_list_limit=256),
                GinIndex(SearchVector("topic", config="simple"), name="entry_topic_words"),
            ],
            "constraints": [
                models.CheckConstraint(name="entry_says_something", condition=~Q(topic="") & ~Q(content="")),
                models.CheckConstraint(name="entry_fits", condition=Q(tokens__lte=2000)),
                models.CheckConstraint(
                    name="entry_kind_known",
                    condition=Q(
                        kind__in=["fact", "decision", "policy", "runbook", "schema", "plan", "gap", "convention"]
                    ),
                ),
                models.CheckConstraint(
                    name="entry_visibility_known", condition=Q(visibility__in=["shared", "restricted"])
                ),
                models.CheckConstraint(
                    name="entry_status_known",
                    condition=Q(status__in=["proposed", "active", "needs_review", "superseded", "archived"]),
                ),
                models.CheckConstraint(
                    name="entry_source_known",
                    condition=Q(source__in=["result", "message", "manual", "suggestion", "import"]),
                ),
                models.CheckConstraint(name="entry_not_its_own_successor", condition=~Q(supersedes=F("id"))),
                models.UniqueConstraint(
                    name="entry_result_pinned_once",
                    fields=("source_message",),
                    condition=Q(source="result", status__in=["proposed", "active", "needs_review"]),
                ),
                models.UniqueConstraint(
                    name="entry_client_id_once", fields=("workspace", "author", "client_id"), condition=~Q(client_id="")
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_no_circle_8a374",
                    "knowledge_entry",
                    "BEFORE",
                    'INSERT OR UPDATE OF "supersedes_id"',
                    declare="DECLARE other bigint;",
                    condition='WHEN (NEW."supersedes_id" IS NOT NULL)',
                    func="PERFORM pg_advisory_xact_lock(7002, NEW.workspace_id::int); SELECT workspace_id INTO other FROM knowledge_entry WHERE id = NEW.supersedes_id; IF other IS DISTINCT FROM NEW.workspace_id THEN RAISE EXCEPTION 'An entry supersedes one of its own workspace.' USING ERRCODE = 'check_violation'; END IF; IF EXISTS (WITH RECURSIVE line (id) AS (SELECT NEW.supersedes_id UNION SELECT e.supersedes_id FROM knowledge_entry e JOIN line ON e.id = line.id WHERE e.supersedes_id IS NOT NULL) SELECT FROM line WHERE id = NEW.id) THEN RAISE EXCEPTION 'Entries cannot supersede each other in a circle.' USING ERRCODE = 'check_violation'; END IF; RETURN NEW;",
                ),
                trigger(
                    "pgtrigger_wants_vector_34d79",
                    "knowledge_entry",
                    "AFTER",
                    'INSERT OR UPDATE OF "topic", "content"',
                    func="IF TG_OP = 'UPDATE' THEN IF (OLD.topic, OLD.content) IS NOT DISTINCT FROM (NEW.topic, NEW.content) THEN RETURN NULL; END IF; DELETE FROM knowledge_entryvector WHERE entry_id = NEW.id; END IF; INSERT INTO knowledge_entrytoembed (space_id, entry_id) SELECT id, NEW.id FROM search_vectorspace WHERE workspace_id = NEW.workspace_id AND state <> 'retired' AND kind <> 'none' ON CONFLICT DO NOTHING; RETURN NULL;",
                ),
                trigger(
                    "pgtrigger_tell_change_6bb4a",
                    "knowledge_entry",
                    "AFTER",
                    'INSERT OR UPDATE OF "topic", "content", "status", "expires_at", "version"',
                    func="INSERT INTO base_event (kind, workspace_id, created_at) VALUES ('knowledge_changed', NEW.workspace_id, now()); RETURN NULL;",
                ),
            ],
        },
    ),
    create_model(
        "Contradiction",
        first_version=models.PositiveIntegerField(),
        second_version=models.PositiveIntegerField(),
        why=models.CharField(max_length=300, help_text="What differs, in words for people."),
        found_by=models.CharField(max_length=10, default="rule", help_text="rule or model"),
        found_at=models.DateTimeField(db_default=Now(), editable=False),
        settled_at=models.DateTimeField(null=True),
        settled_how=models.CharField(max_length=20, blank=True, help_text="both_hold, edited, superseded or archived"),
        settled_by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="+"),
        first=models.ForeignKey("knowledge.entry", models.CASCADE, related_name="+", db_index=False),
        second=models.ForeignKey("knowledge.entry", models.CASCADE, related_name="contradictions"),
        meta={
            "ordering": ["-id"],
            "indexes": [
                models.Index(name="contradiction_open", fields=["workspace", "-id"], condition=Q(settled_at=None)),
                models.Index(name="contradiction_open_second", fields=["second"], condition=Q(settled_at=None)),
            ],
            "constraints": [
                models.UniqueConstraint(name="contradiction_once_per_pair", fields=("first", "second")),
                models.CheckConstraint(name="contradiction_older_first", condition=Q(first__lt=F("second"))),
            ],
        },
    ),
    create_model(
        "EntryToEmbed",
        entry=models.ForeignKey("knowledge.entry", models.CASCADE, related_name="+"),
        space=models.ForeignKey("search.vectorspace", models.CASCADE, related_name="+", db_index=False),
        try_again_at=models.DateTimeField(null=True, help_text="Set where the embedder could not take it."),
        meta={"constraints": [models.UniqueConstraint(name="entry_to_embed_once", fields=("space", "entry"))]},
    ),
    create_model(
        "EntryVector",
        dimension=models.PositiveSmallIntegerField(),
        own=HalfVectorField(),
        entry=models.ForeignKey("knowledge.entry", models.CASCADE, related_name="+", db_index=False),
        space=models.ForeignKey("search.vectorspace", models.CASCADE, related_name="+"),
        parts=models.BinaryField(null=True),
        meta={
            "indexes": [
                HnswIndex(
                    OpClass(Cast("own", HalfVectorField(dimensions=256)), name="halfvec_cosine_ops"),
                    name="entry_vector_hnsw_256",
                    condition=Q(dimension=256),
                )
            ],
            "constraints": [models.UniqueConstraint(name="entry_vector_once", fields=("entry", "space"))],
        },
    ),
    create_model(
        "Notice",
        reason=models.CharField(
            max_length=16,
            choices=[
                ("expired", "It expired"),
                ("contradiction", "It may contradict another entry"),
                ("wrong", "Somebody said it was wrong"),
                ("source_gone", "What it was made from was deleted"),
                ("unused", "Nobody used it for 90 days"),
                ("asked", "Somebody asked for a review"),
                ("proposed", "An agent suggested it"),
            ],
        ),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        seen_at=models.DateTimeField(null=True),
        entry=models.ForeignKey("knowledge.entry", models.CASCADE, related_name="notices"),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="knowledge_notices"),
        meta={
            "ordering": ["-id"],
            "indexes": [models.Index(name="notice_unseen", fields=["participant", "-id"], condition=Q(seen_at=None))],
            "constraints": [
                models.UniqueConstraint(
                    name="notice_once_while_unseen",
                    fields=("participant", "entry", "reason"),
                    condition=Q(seen_at=None),
                )
            ],
        },
    ),
    create_model(
        "Revision",
        number=models.PositiveIntegerField(),
        action=models.CharField(
            max_length=10,
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
                ("undone", "Taken back"),
            ],
        ),
        how=models.CharField(max_length=10, help_text="What changed it: page, api, admin, agent, import, job."),
        note=models.TextField(blank=True, help_text="Why, in the words of whoever did it."),
        changes=models.JSONField(default=dict),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        by=models.ForeignKey("workspaces.participant", models.PROTECT, null=True, related_name="+"),
        entry=models.ForeignKey("knowledge.entry", models.CASCADE, related_name="revisions", db_index=False),
        meta={
            "ordering": ["-number"],
            "constraints": [models.UniqueConstraint(name="revision_number_once", fields=("entry", "number"))],
            "triggers": [
                trigger(
                    "pgtrigger_final_87cf2",
                    "knowledge_revision",
                    "BEFORE",
                    "UPDATE OR DELETE",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update or delete rows from % table', TG_TABLE_NAME;",
                )
            ],
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("chat", "0001_squashed_0015_images")]

    replaces = replaced(
        "knowledge",
        "0001_initial 0002_texts_set_aside 0003_entry_topic_words 0004_revision_undone 0005_drop_covered_indexes",
    )

    operations = [CreateModels(*TABLES)]
