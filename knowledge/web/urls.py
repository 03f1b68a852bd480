"""Addresses of knowledge, under /w/<slug>/."""

from django.urls import path

from knowledge.web import entry, exchange, listing, pinning, review, writing

urlpatterns = [
    path("knowledge/", listing.knowledge, name="knowledge"),
    path("knowledge/new/", writing.new, name="knowledge-new"),
    path("knowledge/topics/", listing.topics, name="knowledge-topics"),
    path("knowledge/similar/", writing.similar, name="knowledge-similar"),
    path("knowledge/review/", review.queue, name="knowledge-review"),
    path("knowledge/review/<int:contradiction_id>/settle/", review.settle, name="knowledge-settle"),
    path("knowledge/import/", exchange.import_file, name="knowledge-import"),
    path("knowledge/export/", exchange.export_file, name="knowledge-export"),
    path("knowledge/<int:entry_id>/", entry.entry, name="knowledge-entry"),
    path("knowledge/<int:entry_id>/edit/", writing.edit, name="knowledge-edit"),
    path("knowledge/<int:entry_id>/supersede/", writing.supersede, name="knowledge-supersede"),
    path("knowledge/<int:entry_id>/<slug:verb>/", entry.act, name="knowledge-act"),
    path("m/<int:message_id>/pin/", pinning.pin, name="knowledge-pin"),
]
