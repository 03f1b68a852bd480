"""Addresses of knowledge, under /w/<slug>/."""

from django.urls import path

from knowledge.web import editor, review, views

urlpatterns = [
    path("knowledge/", views.entry_list, name="knowledge"),
    path("knowledge/new/", editor.create, name="knowledge-new"),
    path("knowledge/topics/", views.topic_suggestions, name="knowledge-topics"),
    path("knowledge/owners/", views.owner_suggestions, name="knowledge-owners"),
    path("knowledge/similar/", editor.similar_entries, name="knowledge-similar"),
    path("knowledge/review/", review.review_queue, name="knowledge-review"),
    path("knowledge/review/<int:contradiction_id>/settle/", review.settle, name="knowledge-settle"),
    path("knowledge/import/", views.import_file, name="knowledge-import"),
    path("knowledge/export/", views.export_file, name="knowledge-export"),
    path("knowledge/<int:entry_id>/", views.entry_detail, name="knowledge-entry"),
    path("knowledge/<int:entry_id>/edit/", editor.edit, name="knowledge-edit"),
    path("knowledge/<int:entry_id>/supersede/", editor.supersede, name="knowledge-supersede"),
    path("knowledge/<int:entry_id>/<slug:verb>/", views.entry_action, name="knowledge-act"),
    path("m/<int:message_id>/pin/", editor.pin, name="knowledge-pin"),
]
