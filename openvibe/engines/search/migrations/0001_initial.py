from django.db import migrations, models
from django.db.models.functions import Now
from pgvector.django import VectorExtension


class Migration(migrations.Migration):
    initial = True

    dependencies = [("llm", "0001_initial")]

    operations = [
        VectorExtension(),
        migrations.CreateModel(
            name="VectorSpace",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("static", "Built in (no network)"),
                            ("openai", "OpenAI-compatible endpoint"),
                            ("none", "None: full text alone"),
                        ],
                        default="static",
                        max_length=8,
                    ),
                ),
                (
                    "model",
                    models.CharField(
                        blank=True, help_text="The embedding model, as the endpoint knows it.", max_length=200
                    ),
                ),
                (
                    "dimension",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="Numbers in a vector; 0 until the first one was made."
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[("building", "Being built"), ("serving", "In use"), ("retired", "Being removed")],
                        default="building",
                        max_length=8,
                    ),
                ),
                (
                    "problem",
                    models.TextField(blank=True, help_text="Why it cannot go on at the moment, in words for people."),
                ),
                ("failures", models.PositiveSmallIntegerField(default=0, help_text="In a row.")),
                ("try_again_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(db_default=Now(), editable=False)),
                ("served_since", models.DateTimeField(null=True)),
                (
                    "endpoint",
                    models.ForeignKey(
                        blank=True, null=True, on_delete=models.SET_NULL, related_name="+", to="llm.endpoint"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=models.CASCADE, related_name="vector_spaces", to="workspaces.workspace"
                    ),
                ),
                (
                    "address",
                    models.CharField(
                        blank=True,
                        db_default="",
                        default="",
                        help_text="Where the endpoint was when this space began: somewhere else may be another model.",
                        max_length=500,
                    ),
                ),
            ],
            options={
                "ordering": ["id"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "serving")), fields=("workspace",), name="search_one_serving"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "building")), fields=("workspace",), name="search_one_building"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["static", "openai", "none"])), name="search_kind_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["building", "serving", "retired"])), name="search_state_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("dimension__lte", 4000)), name="search_dimension_indexable"
                    ),
                ],
                "verbose_name": "search embedder",
            },
        ),
    ]
