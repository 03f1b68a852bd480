from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.core.validators import RegexValidator
from django.db import migrations, models
from django.db.models import F, Q
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Cast, Coalesce, Now
from django.db.models.lookups import Exact
from pgvector.django import HalfVectorField, HnswIndex

from openvibe.engines.database.fields import EncryptedTextField
from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced, trigger
from openvibe.engines.search.models import SignsField

TABLES = (
    create_model(
        "Channel",
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
        description=models.TextField(max_length=1000, blank=True),
        instructions=models.TextField(
            blank=True, help_text="Trusted instructions for agents in this channel; admins only."
        ),
        is_private=models.BooleanField(default=False),
        archived_at=models.DateTimeField(blank=True, null=True),
        created_by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="channels"),
        first_participant=models.ForeignKey(
            "workspaces.participant",
            models.CASCADE,
            null=True,
            editable=False,
            help_text="Of direct messages: the two, in the order of their ids.",
            related_name="+",
            db_index=False,
        ),
        second_participant=models.ForeignKey(
            "workspaces.participant", models.CASCADE, null=True, editable=False, related_name="+"
        ),
        participants=models.ManyToManyField(
            "workspaces.participant", related_name="channels", through="chat.ChannelMembership"
        ),
        meta={
            "ordering": ["name"],
            "constraints": [
                models.UniqueConstraint(
                    name="channel_name_unique",
                    violation_error_message="There is a channel of this name already.",
                    fields=("workspace", "name"),
                    condition=Q(first_participant=None),
                ),
                models.UniqueConstraint(
                    name="direct_messages_once_for_two", fields=("first_participant", "second_participant")
                ),
                models.CheckConstraint(
                    name="direct_messages_of_two",
                    condition=Q(first_participant=None, second_participant=None)
                    | Q(first_participant__lt=F("second_participant"), is_private=True),
                ),
            ],
        },
    ),
    create_model(
        "ChannelMembership",
        added_at=models.DateTimeField(db_default=Now(), editable=False),
        channel=models.ForeignKey("chat.channel", models.CASCADE, related_name="memberships"),
        participant=models.ForeignKey(
            "workspaces.participant", models.CASCADE, related_name="channel_memberships", db_index=False
        ),
        meta={
            "constraints": [models.UniqueConstraint(name="channel_membership_once", fields=("participant", "channel"))],
            "triggers": [
                trigger(
                    "pgtrigger_direct_messages_have_two_members_b13d8",
                    "chat_channelmembership",
                    "BEFORE",
                    "INSERT OR UPDATE",
                    func="IF EXISTS (SELECT FROM chat_channel c WHERE c.id = NEW.channel_id AND c.first_participant_id IS NOT NULL AND NEW.participant_id NOT IN (c.first_participant_id, c.second_participant_id)) THEN RAISE EXCEPTION 'Direct messages are between two.' USING ERRCODE = 'check_violation'; END IF; RETURN NEW;",
                )
            ],
        },
    ),
    create_model(
        "Thread",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        updated_at=models.DateTimeField(auto_now=True),
        title=models.CharField(max_length=200),
        access=models.CharField(
            max_length=16,
            default="open",
            choices=[
                ("open", "Open to the channel's agents"),
                ("human_only", "People only"),
                ("agent_restricted", "Only the agents listed"),
            ],
        ),
        instructions=models.TextField(
            blank=True, help_text="Trusted instructions for agents in this thread; admins only."
        ),
        archived_at=models.DateTimeField(blank=True, null=True),
        last_seq=models.PositiveBigIntegerField(default=0, editable=False),
        last_message_at=models.DateTimeField(null=True, editable=False),
        external_id=models.CharField(
            max_length=80, blank=True, editable=False, help_text="Where it was imported from."
        ),
        channel=models.ForeignKey("chat.channel", models.CASCADE, related_name="threads"),
        created_by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="threads"),
        parent=models.ForeignKey(
            "chat.thread",
            models.CASCADE,
            blank=True,
            null=True,
            editable=False,
            help_text="For a dive: the thread it started in.",
            related_name="side_threads",
        ),
        imported_count=models.PositiveBigIntegerField(
            default=0, db_default=0, editable=False, help_text="Messages of the imported conversation that are there."
        ),
        pin_slot=models.PositiveSmallIntegerField(
            blank=True, null=True, editable=False, help_text="Its place among the pinned ones of its channel."
        ),
        allowed_agents=models.ManyToManyField("workspaces.participant", blank=True, related_name="+"),
        following_agents=models.ManyToManyField("workspaces.participant", blank=True, related_name="followed_threads"),
        meta={
            "indexes": [
                GinIndex(SearchVector("title", config="simple"), name="thread_title_words"),
                models.Index(name="thread_imported_at", fields=["created_at"], condition=Q(imported_count__gt=0)),
                models.Index(
                    F("channel"),
                    models.OrderBy(Coalesce("last_message_at", "created_at"), descending=True),
                    models.OrderBy(F("id"), descending=True),
                    name="thread_recent",
                    condition=Q(archived_at=None, parent=None),
                ),
                models.Index(
                    F("channel"),
                    models.OrderBy(Coalesce("last_message_at", "created_at"), descending=True),
                    models.OrderBy(F("id"), descending=True),
                    name="thread_archived",
                    condition=Q(archived_at__isnull=False, parent=None),
                ),
            ],
            "constraints": [
                models.CheckConstraint(
                    name="thread_access_known", condition=Q(access__in=["open", "human_only", "agent_restricted"])
                ),
                models.UniqueConstraint(
                    name="thread_imported_once", fields=("channel", "external_id"), condition=~Q(external_id="")
                ),
                models.UniqueConstraint(
                    name="thread_pin_slot_once", fields=("channel", "pin_slot"), condition=Q(pin_slot__isnull=False)
                ),
                models.CheckConstraint(
                    name="thread_pin_slot_bounded",
                    condition=Q(pin_slot=None) | Q(parent=None, pin_slot__gte=1, pin_slot__lte=10),
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_dive_stands_in_its_thread_689e2",
                    "chat_thread",
                    "BEFORE",
                    "INSERT",
                    declare="DECLARE above record;",
                    condition='WHEN (NEW."parent_id" IS NOT NULL)',
                    func="SELECT parent_id, access, channel_id, workspace_id INTO above FROM chat_thread WHERE id = NEW.parent_id FOR SHARE; IF above.parent_id IS NOT NULL THEN RAISE EXCEPTION 'There is no dive inside a dive.' USING ERRCODE = 'check_violation'; END IF; NEW.access := above.access; NEW.channel_id := above.channel_id; NEW.workspace_id := above.workspace_id; RETURN NEW;",
                ),
                trigger(
                    "pgtrigger_dives_follow_their_thread_8c7a4",
                    "chat_thread",
                    "AFTER",
                    'UPDATE OF "access", "channel_id"',
                    condition='WHEN (NEW."parent_id" IS NULL)',
                    func="UPDATE chat_thread SET access = NEW.access, channel_id = NEW.channel_id WHERE parent_id = NEW.id AND (access, channel_id) IS DISTINCT FROM (NEW.access, NEW.channel_id); RETURN NULL;",
                ),
            ],
        },
    ),
    create_model(
        "Draft",
        body=models.TextField(),
        updated_at=models.DateTimeField(auto_now=True),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="drafts", db_index=False),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="drafts"),
        meta={"constraints": [models.UniqueConstraint(name="draft_once", fields=("participant", "thread"))]},
    ),
    create_model(
        "Message",
        seq=models.PositiveBigIntegerField(db_default=0, editable=False),
        kind=models.CharField(
            max_length=12,
            default="text",
            choices=[
                ("text", "Text"),
                ("tool_call", "Tool call"),
                ("tool_result", "Tool result"),
                ("dive_result", "Dive result"),
                ("system", "System"),
            ],
        ),
        state=models.CharField(
            max_length=8,
            default="complete",
            choices=[
                ("complete", "Complete"),
                ("writing", "Being written"),
                ("stopped", "Stopped"),
                ("failed", "Failed"),
                ("replaced", "Replaced by a later answer"),
            ],
        ),
        body=models.TextField(blank=True),
        call_id=models.CharField(max_length=100, blank=True),
        client_id=models.CharField(
            max_length=100, blank=True, help_text="The sender's own key; the same key is the same message."
        ),
        token_count=models.PositiveIntegerField(
            default=0, help_text="Tokens of the body (o200k_base), counted at write."
        ),
        created_at=models.DateTimeField(db_default=Now()),
        edited_at=models.DateTimeField(null=True),
        deleted_at=models.DateTimeField(null=True),
        search=models.GeneratedField(
            db_persist=True,
            expression=SearchVector(
                models.Func(
                    F("body"),
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
        author=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="messages", db_index=False),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="messages", db_index=False),
        meta={
            "indexes": [
                models.Index(name="message_author_recent", fields=["author", "-created_at"]),
                models.Index(
                    name="message_changed",
                    fields=["thread"],
                    condition=Q(edited_at__isnull=False) | Q(deleted_at__isnull=False),
                ),
                GinIndex(name="message_search", fields=["search"], gin_pending_list_limit=256),
                models.Index(name="message_recent", fields=["-created_at"]),
                models.Index(
                    name="message_not_said",
                    fields=["thread", "seq"],
                    condition=Q(body="") | Q(kind="system") | Q(state__in=["failed", "replaced"]),
                ),
            ],
            "constraints": [
                models.UniqueConstraint(name="message_seq_unique", fields=("thread", "seq")),
                models.CheckConstraint(name="message_seq_from_one", condition=Q(seq__gte=1)),
                models.CheckConstraint(
                    name="message_kind_known",
                    condition=Q(kind__in=["text", "tool_call", "tool_result", "dive_result", "system"]),
                ),
                models.CheckConstraint(
                    name="message_deleted_is_empty", condition=Q(deleted_at=None) | Q(body="", token_count=0)
                ),
                models.UniqueConstraint(
                    name="message_client_id_once", fields=("thread", "author", "client_id"), condition=~Q(client_id="")
                ),
                models.CheckConstraint(
                    name="message_state_known",
                    condition=Q(state__in=["complete", "writing", "stopped", "failed", "replaced"]),
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_take_next_seq_66e3e",
                    "chat_message",
                    "BEFORE",
                    "INSERT",
                    declare="DECLARE place record;",
                    condition='WHEN (NEW."seq" = 0)',
                    func="UPDATE chat_thread SET last_seq = last_seq + 1, last_message_at = NEW.created_at WHERE id = NEW.thread_id RETURNING last_seq, channel_id, workspace_id INTO place; NEW.seq := place.last_seq; INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at) VALUES ('message_posted', place.workspace_id, place.channel_id, NEW.thread_id, NEW.id, now()); RETURN NEW;",
                ),
                trigger(
                    "pgtrigger_tell_change_ef4e8",
                    "chat_message",
                    "AFTER",
                    "UPDATE",
                    condition="WHEN (OLD.* IS DISTINCT FROM NEW.*)",
                    func="INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, message_id, created_at) SELECT 'message_changed', workspace_id, channel_id, id, NEW.id, now() FROM chat_thread WHERE id = NEW.thread_id; RETURN NULL;",
                ),
                trigger(
                    "pgtrigger_loses_vector_67ca2",
                    "chat_message",
                    "AFTER",
                    'UPDATE OF "body", "state", "deleted_at"',
                    condition="WHEN (NEW.state <> 'writing' AND (OLD.body, OLD.state, OLD.deleted_at) IS DISTINCT FROM (NEW.body, NEW.state, NEW.deleted_at))",
                    func="DELETE FROM chat_messagevector WHERE thread_id = NEW.thread_id AND seq BETWEEN NEW.seq AND NEW.seq + 1; DELETE FROM chat_diveresult WHERE message_id = NEW.id AND NEW.deleted_at IS NOT NULL; INSERT INTO chat_messagetoembed (space_id, message_id) SELECT s.id, m.id FROM search_vectorspace s JOIN chat_thread t ON t.id = NEW.thread_id JOIN chat_message m ON m.thread_id = t.id AND m.seq BETWEEN NEW.seq AND NEW.seq + 1 WHERE s.workspace_id = t.workspace_id AND s.state <> 'retired' AND s.kind <> 'none' AND m.deleted_at IS NULL AND m.state IN ('complete', 'stopped') AND m.kind IN ('text', 'dive_result') ON CONFLICT DO NOTHING; RETURN NULL;",
                ),
                trigger(
                    "pgtrigger_wants_vector_49689",
                    "chat_message",
                    "AFTER",
                    "INSERT",
                    referencing="REFERENCING NEW TABLE AS said ",
                    level="STATEMENT",
                    func="INSERT INTO chat_messagetoembed (space_id, message_id) SELECT s.id, m.id FROM said m JOIN chat_thread t ON t.id = m.thread_id JOIN search_vectorspace s ON s.workspace_id = t.workspace_id WHERE s.state <> 'retired' AND s.kind <> 'none' AND m.state IN ('complete', 'stopped') AND m.kind IN ('text', 'dive_result') ON CONFLICT DO NOTHING; RETURN NULL;",
                ),
                trigger(
                    "pgtrigger_loses_attachments_d618b",
                    "chat_message",
                    "AFTER",
                    'UPDATE OF "deleted_at"',
                    condition='WHEN (NEW."deleted_at" IS NOT NULL)',
                    func="DELETE FROM chat_attachment WHERE message_id = NEW.id; RETURN NULL;",
                ),
                trigger(
                    "pgtrigger_loses_reactions_and_saves_14fb0",
                    "chat_message",
                    "AFTER",
                    'UPDATE OF "deleted_at"',
                    condition='WHEN (NEW."deleted_at" IS NOT NULL)',
                    func="DELETE FROM chat_reaction WHERE message_id = NEW.id; DELETE FROM chat_savedmessage WHERE message_id = NEW.id; RETURN NULL;",
                ),
                trigger(
                    "pgtrigger_loses_images_9a55c",
                    "chat_message",
                    "AFTER",
                    'UPDATE OF "deleted_at"',
                    condition='WHEN (NEW."deleted_at" IS NOT NULL)',
                    func="DELETE FROM chat_image WHERE message_id = NEW.id; RETURN NULL;",
                ),
            ],
        },
    ),
    create_model(
        "Mention",
        note=models.CharField(max_length=200, blank=True),
        participant=models.ForeignKey(
            "workspaces.participant", models.CASCADE, related_name="mentions", db_index=False
        ),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="mentions", db_index=False),
        meta={
            "ordering": [models.OrderBy(F("id"))],
            "indexes": [models.Index(name="mention_of", fields=["participant", "message"])],
            "constraints": [models.UniqueConstraint(name="mention_once", fields=("message", "participant"))],
        },
    ),
    create_model(
        "MessageRevision",
        body=models.TextField(),
        replaced_at=models.DateTimeField(db_default=Now(), editable=False),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="revisions"),
        meta={"ordering": ["replaced_at"]},
    ),
    create_model(
        "ReadMarker",
        last_read_seq=models.PositiveBigIntegerField(default=0),
        participant=models.ForeignKey(
            "workspaces.participant", models.CASCADE, related_name="read_markers", db_index=False
        ),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="read_markers"),
        marked_unread_seq=models.PositiveBigIntegerField(null=True),
        meta={
            "constraints": [models.UniqueConstraint(name="read_marker_once", fields=("participant", "thread"))],
            "indexes": [
                models.Index(
                    name="read_marker_marked_unread",
                    fields=["participant"],
                    condition=Q(marked_unread_seq__isnull=False),
                )
            ],
        },
    ),
    create_model(
        "Dive",
        state=models.CharField(
            max_length=9,
            default="active",
            choices=[("active", "Active"), ("published", "Published"), ("discarded", "Discarded")],
        ),
        slot=models.PositiveSmallIntegerField(null=True, editable=False),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        ended_at=models.DateTimeField(null=True),
        agent=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        parent=models.ForeignKey("chat.thread", models.CASCADE, related_name="dives", db_index=False),
        result=models.OneToOneField("chat.message", models.SET_NULL, null=True, related_name="published_dive"),
        source=models.ForeignKey("chat.message", models.CASCADE, related_name="dives_from_here"),
        started_by=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        thread=models.OneToOneField("chat.thread", models.CASCADE, related_name="dive"),
        ended_by=models.ForeignKey(
            "workspaces.participant",
            models.PROTECT,
            null=True,
            help_text="Who published or discarded it.",
            related_name="+",
        ),
        meta={
            "ordering": [models.OrderBy(F("id"), descending=True)],
            "indexes": [models.Index(name="dive_of_thread", fields=["parent", "-id"])],
            "constraints": [
                models.UniqueConstraint(name="dive_slot_once", fields=("parent", "slot")),
                models.CheckConstraint(
                    name="dive_slot_while_active",
                    condition=Q(ended_at=None, slot__gte=1, slot__lte=7, state="active")
                    | ~Q(state="active") & Q(ended_at__isnull=False) & Q(slot=None),
                ),
                models.CheckConstraint(
                    name="dive_state_known", condition=Q(state__in=["active", "published", "discarded"])
                ),
            ],
        },
    ),
    create_model(
        "DiveResult",
        headline=models.CharField(max_length=120),
        bullets=ArrayField(base_field=models.TextField(), size=None),
        full=models.TextField(blank=True),
        full_tokens=models.PositiveIntegerField(default=0, help_text="Tokens of the full text (o200k_base)."),
        deferred=ArrayField(default=list, base_field=models.TextField(), size=None),
        questions=ArrayField(default=list, base_field=models.TextField(), size=None),
        published_at=models.DateTimeField(db_default=Now(), editable=False),
        agent=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        dive=models.ForeignKey("chat.dive", models.SET_NULL, null=True, related_name="results"),
        message=models.OneToOneField("chat.message", models.CASCADE, related_name="dive_result"),
        published_by=models.ForeignKey("workspaces.participant", models.PROTECT, related_name="+"),
        meta={
            "constraints": [
                models.CheckConstraint(name="result_has_headline", condition=~Q(headline="")),
                models.CheckConstraint(name="result_bullets", condition=Q(bullets__len__gte=3, bullets__len__lte=5)),
                models.CheckConstraint(name="result_deferred", condition=Q(deferred__len__lte=2)),
                models.CheckConstraint(name="result_questions", condition=Q(questions__len__lte=2)),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_result_is_final_416f0",
                    "chat_diveresult",
                    "BEFORE",
                    "UPDATE",
                    condition="WHEN (OLD.headline <> NEW.headline OR OLD.bullets <> NEW.bullets OR OLD.full <> NEW.full)",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                )
            ],
        },
    ),
    create_model(
        "MessageToEmbed",
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="+"),
        space=models.ForeignKey("search.vectorspace", models.CASCADE, related_name="+", db_index=False),
        try_again_at=models.DateTimeField(null=True, help_text="Set where the embedder could not take it."),
        meta={"constraints": [models.UniqueConstraint(name="message_to_embed_once", fields=("space", "message"))]},
    ),
    create_model(
        "MessageVector",
        seq=models.PositiveBigIntegerField(),
        dimension=models.PositiveSmallIntegerField(),
        own=HalfVectorField(),
        pair=HalfVectorField(null=True),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="+", db_index=False),
        space=models.ForeignKey("search.vectorspace", models.CASCADE, related_name="+"),
        thread=models.ForeignKey("chat.thread", models.CASCADE, related_name="+", db_index=False),
        parts=models.BinaryField(null=True),
        pair_signs=models.GeneratedField(
            db_persist=True,
            expression=Cast(models.Func("pair", function="binary_quantize"), SignsField()),
            output_field=SignsField(),
        ),
        meta={
            "indexes": [
                models.Index(name="message_vector_in_thread", fields=["thread", "space", "seq"]),
                HnswIndex(
                    OpClass(Cast("own", HalfVectorField(dimensions=256)), name="halfvec_cosine_ops"),
                    name="message_vector_hnsw_256",
                    condition=Q(dimension=256),
                ),
                models.Index(
                    name="message_vector_signs",
                    fields=["thread", "space", "seq"],
                    condition=Q(Exact(CombinedExpression(F("seq"), "%%", models.Value(2)), 0)),
                    include=("dimension", "pair_signs"),
                ),
            ],
            "constraints": [models.UniqueConstraint(name="message_vector_once", fields=("message", "space"))],
        },
    ),
    create_model(
        "Erasure",
        is_deletion=models.BooleanField(),
        texts=EncryptedTextField(blank=True),
        counts=models.JSONField(default=dict),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        finished_at=models.DateTimeField(null=True),
        by=models.ForeignKey("workspaces.participant", models.SET_NULL, null=True, related_name="+"),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="erasures"),
        meta={
            "ordering": ["id"],
            "indexes": [models.Index(name="erasure_pending", fields=["id"], condition=Q(finished_at=None))],
            "constraints": [
                models.CheckConstraint(name="erasure_leaves_no_words", condition=Q(finished_at=None) | Q(texts="")),
                models.UniqueConstraint(
                    name="erasure_of_deletion_once", fields=("message",), condition=Q(is_deletion=True)
                ),
            ],
        },
    ),
    create_model(
        "Quote",
        kind=models.CharField(max_length=12),
        ref=models.PositiveBigIntegerField(),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        kept_at=models.DateTimeField(null=True),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="quotes", db_index=False),
        owner=models.ForeignKey("workspaces.participant", models.CASCADE, null=True, related_name="+"),
        meta={
            "ordering": ["id"],
            "indexes": [models.Index(name="quote_of_owner", fields=["owner"], condition=Q(kept_at=None))],
            "constraints": [models.UniqueConstraint(name="quote_once", fields=("message", "kind", "ref"))],
        },
    ),
    create_model(
        "Attachment",
        position=models.PositiveSmallIntegerField(help_text="Counts from 1 in its message."),
        name=models.CharField(max_length=120),
        media_type=models.CharField(
            max_length=100, help_text="Guessed from the name; it is always given as plain text."
        ),
        content=models.TextField(),
        size=models.PositiveIntegerField(help_text="Bytes of the content in UTF-8."),
        token_count=models.PositiveIntegerField(help_text="Tokens of the content (o200k_base), counted at write."),
        extract=models.TextField(help_text="Its first lines, as prompts show them: about 200 tokens, secrets masked."),
        sha256=models.CharField(max_length=64, help_text="Of the content in UTF-8, hexadecimal."),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="attachments", db_index=False),
        thread=models.ForeignKey(
            "chat.thread",
            models.CASCADE,
            editable=False,
            help_text="Its message's; the database fills it in.",
            related_name="+",
            db_index=False,
        ),
        meta={
            "ordering": ["message", "position"],
            "indexes": [models.Index(name="attachment_in_thread", fields=["thread", "-message"])],
            "constraints": [
                models.UniqueConstraint(name="attachment_place_once", fields=("message", "position")),
                models.CheckConstraint(name="attachment_place_bounded", condition=Q(position__gte=1, position__lte=5)),
                models.CheckConstraint(name="attachment_size_bounded", condition=Q(size__gte=1, size__lte=5242880)),
                models.CheckConstraint(
                    name="attachment_size_counted",
                    condition=Q(
                        size=models.Func(F("content"), function="octet_length", output_field=models.IntegerField())
                    ),
                ),
                models.CheckConstraint(name="attachment_has_name", condition=~Q(name="")),
                models.CheckConstraint(name="attachment_has_tokens", condition=Q(token_count__gte=1)),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_attachment_is_final_de121",
                    "chat_attachment",
                    "BEFORE",
                    "UPDATE",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                ),
                trigger(
                    "pgtrigger_stands_in_its_thread_941f1",
                    "chat_attachment",
                    "BEFORE",
                    "INSERT",
                    func="SELECT thread_id INTO NEW.thread_id FROM chat_message WHERE id = NEW.message_id; RETURN NEW;",
                ),
            ],
        },
    ),
    create_model(
        "Reaction",
        emoji=models.CharField(max_length=16, help_text="One, in its fully qualified form."),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="reactions", db_index=False),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="reactions"),
        meta={
            "constraints": [
                models.UniqueConstraint(name="reaction_once", fields=("message", "emoji", "participant")),
                models.CheckConstraint(name="reaction_has_emoji", condition=~Q(emoji="")),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_reaction_is_final_57e65",
                    "chat_reaction",
                    "BEFORE",
                    "UPDATE",
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                ),
                trigger(
                    "pgtrigger_emoji_of_message_bounded_fbd11",
                    "chat_reaction",
                    "BEFORE",
                    "INSERT",
                    func="PERFORM FROM chat_message WHERE id = NEW.message_id AND deleted_at IS NULL FOR NO KEY UPDATE; IF NOT FOUND THEN RAISE EXCEPTION 'Nobody reacts to a deleted message.' USING ERRCODE = 'check_violation'; END IF; IF NOT EXISTS (SELECT FROM chat_reaction WHERE message_id = NEW.message_id AND emoji = NEW.emoji) AND (SELECT count(DISTINCT emoji) FROM chat_reaction WHERE message_id = NEW.message_id) >= 20 THEN RAISE EXCEPTION 'A message has at most 20 different emoji.' USING ERRCODE = 'check_violation'; END IF; RETURN NEW;",
                ),
            ],
        },
    ),
    create_model(
        "SavedMessage",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="saved", db_index=False),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+"),
        meta={"constraints": [models.UniqueConstraint(name="saved_message_once", fields=("message", "participant"))]},
    ),
    create_model(
        "MailedMention",
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="+"),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+", db_index=False),
        meta={"constraints": [models.UniqueConstraint(name="mention_mailed_once", fields=("participant", "message"))]},
    ),
    create_model(
        "NotificationPreference",
        level=models.CharField(
            max_length=8, choices=[("all", "All messages"), ("mentions", "Mentions"), ("nothing", "Nothing")]
        ),
        channel=models.ForeignKey("chat.channel", models.CASCADE, null=True, related_name="+"),
        participant=models.ForeignKey("workspaces.participant", models.CASCADE, related_name="+", db_index=False),
        thread=models.ForeignKey("chat.thread", models.CASCADE, null=True, related_name="+"),
        meta={
            "constraints": [
                models.UniqueConstraint(name="notification_once_per_channel", fields=("participant", "channel")),
                models.UniqueConstraint(name="notification_once_per_thread", fields=("participant", "thread")),
                models.CheckConstraint(
                    name="notification_of_channel_or_thread",
                    condition=Q(channel=None, thread__isnull=False) | Q(channel__isnull=False, thread=None),
                ),
                models.CheckConstraint(
                    name="notification_level_known", condition=Q(level__in=["all", "mentions", "nothing"])
                ),
            ]
        },
    ),
    create_model(
        "Image",
        position=models.PositiveSmallIntegerField(help_text="Its place among the files of its message, from 1."),
        name=models.CharField(max_length=120),
        media_type=models.CharField(
            max_length=20, choices=[("image/png", "PNG"), ("image/jpeg", "JPEG")], help_text="Of the copy that is kept."
        ),
        width=models.PositiveIntegerField(help_text="Pixels of the copy that is kept."),
        height=models.PositiveIntegerField(help_text="Pixels of the copy that is kept."),
        content=models.BinaryField(),
        thumbnail=models.BinaryField(help_text="WebP."),
        size=models.PositiveIntegerField(help_text="Bytes of the content."),
        sha256=models.CharField(max_length=64, help_text="Of the content, hexadecimal."),
        description=models.CharField(
            max_length=1000, blank=True, default="", help_text="What a person wrote for those who cannot see it."
        ),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        message=models.ForeignKey("chat.message", models.CASCADE, related_name="images", db_index=False),
        thread=models.ForeignKey(
            "chat.thread",
            models.CASCADE,
            editable=False,
            help_text="Its message's; the database fills it in.",
            related_name="+",
            db_index=False,
        ),
        meta={
            "ordering": ["message", "position"],
            "indexes": [models.Index(name="image_in_thread", fields=["thread", "-message"])],
            "constraints": [
                models.UniqueConstraint(name="image_place_once", fields=("message", "position")),
                models.CheckConstraint(name="image_place_bounded", condition=Q(position__gte=1, position__lte=5)),
                models.CheckConstraint(name="image_size_bounded", condition=Q(size__gte=1, size__lte=2097152)),
                models.CheckConstraint(
                    name="image_size_counted",
                    condition=Q(
                        size=models.Func(F("content"), function="octet_length", output_field=models.IntegerField())
                    ),
                ),
                models.CheckConstraint(
                    name="image_sides_bounded",
                    condition=Q(height__gte=1, height__lte=1568, width__gte=1, width__lte=1568),
                ),
                models.CheckConstraint(name="image_has_name", condition=~Q(name="")),
                models.CheckConstraint(
                    name="image_media_type_known", condition=Q(media_type__in=["image/png", "image/jpeg"])
                ),
            ],
            "triggers": [
                trigger(
                    "pgtrigger_image_is_final_45f4f",
                    "chat_image",
                    "BEFORE",
                    "UPDATE",
                    condition='WHEN (OLD."id" IS DISTINCT FROM (NEW."id") OR OLD."message_id" IS DISTINCT FROM (NEW."message_id") OR OLD."thread_id" IS DISTINCT FROM (NEW."thread_id") OR OLD."position" IS DISTINCT FROM (NEW."position") OR OLD."name" IS DISTINCT FROM (NEW."name") OR OLD."media_type" IS DISTINCT FROM (NEW."media_type") OR OLD."width" IS DISTINCT FROM (NEW."width") OR OLD."height" IS DISTINCT FROM (NEW."height") OR OLD."content" IS DISTINCT FROM (NEW."content") OR OLD."thumbnail" IS DISTINCT FROM (NEW."thumbnail") OR OLD."size" IS DISTINCT FROM (NEW."size") OR OLD."sha256" IS DISTINCT FROM (NEW."sha256") OR OLD."created_at" IS DISTINCT FROM (NEW."created_at"))',
                    func="RAISE EXCEPTION 'pgtrigger: Cannot update rows from % table', TG_TABLE_NAME;",
                ),
                trigger(
                    "pgtrigger_stands_in_its_thread_67ab8",
                    "chat_image",
                    "BEFORE",
                    "INSERT",
                    func="SELECT thread_id INTO NEW.thread_id FROM chat_message WHERE id = NEW.message_id; RETURN NEW;",
                ),
            ],
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("search", "0001_squashed_0002_multilingual_embedder")]

    replaces = replaced(
        "chat",
        "0001_initial 0002_erasures 0003_texts_set_aside 0004_attachments 0005_imported_counts 0006_thread_title_words "
        "0007_reactions_saved_pins 0008_notifications 0009_direct_messages 0010_unsaid_messages 0011_recent_threads "
        "0012_archived_threads 0013_drop_covered_indexes 0014_replaced_answers 0015_images",
    )

    operations = [CreateModels(*TABLES)]
