from django.db import migrations, models
from django.db.models import Q
from django.db.models.functions import Now
from pgvector.django import VectorExtension

from openvibe.engines.database.migration_operations import CreateModels, create_model, replaced

TABLES = (
    create_model(
        "VectorSpace",
        kind=models.CharField(
            max_length=12,
            default="static",
            choices=[
                ("static", "Built in (no network)"),
                ("multilingual", "Multilingual (no network)"),
                ("openai", "OpenAI-compatible endpoint"),
                ("none", "None: full text alone"),
            ],
        ),
        model=models.CharField(max_length=200, blank=True, help_text="The embedding model, as the endpoint knows it."),
        dimension=models.PositiveSmallIntegerField(
            default=0, help_text="Numbers in a vector; 0 until the first one was made."
        ),
        state=models.CharField(
            max_length=8,
            default="building",
            choices=[("building", "Being built"), ("serving", "In use"), ("retired", "Being removed")],
        ),
        problem=models.TextField(blank=True, help_text="Why it cannot go on at the moment, in words for people."),
        failures=models.PositiveSmallIntegerField(default=0, help_text="In a row."),
        try_again_at=models.DateTimeField(null=True),
        created_at=models.DateTimeField(db_default=Now(), editable=False),
        served_since=models.DateTimeField(null=True),
        endpoint=models.ForeignKey("llm.endpoint", models.SET_NULL, blank=True, null=True, related_name="+"),
        workspace=models.ForeignKey("workspaces.workspace", models.CASCADE, related_name="vector_spaces"),
        address=models.CharField(
            max_length=500,
            blank=True,
            default="",
            db_default="",
            help_text="Where the endpoint was when this space began: somewhere else may be another model.",
        ),
        meta={
            "ordering": ["id"],
            "constraints": [
                models.UniqueConstraint(name="search_one_serving", fields=("workspace",), condition=Q(state="serving")),
                models.UniqueConstraint(
                    name="search_one_building", fields=("workspace",), condition=Q(state="building")
                ),
                models.CheckConstraint(
                    name="search_state_known", condition=Q(state__in=["building", "serving", "retired"])
                ),
                models.CheckConstraint(name="search_dimension_indexable", condition=Q(dimension__lte=4000)),
                models.CheckConstraint(
                    name="search_kind_known", condition=Q(kind__in=["static", "multilingual", "openai", "none"])
                ),
            ],
            "verbose_name": "search embedder",
        },
    ),
)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("llm", "0001_squashed_0010_responses_kind")]

    replaces = replaced("search", "0001_initial 0002_multilingual_embedder")

    operations = [VectorExtension(), CreateModels(*TABLES)]
