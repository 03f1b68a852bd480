from django.urls import path

from knowledge.api import views

urlpatterns = [
    path("knowledge/", views.Entries.as_view(), name="api-knowledge"),
    path("knowledge/suggest/", views.Suggest.as_view(), name="api-knowledge-suggest"),
    path("knowledge/import/", views.Import.as_view(), name="api-knowledge-import"),
    path("knowledge/export/", views.Export.as_view(), name="api-knowledge-export"),
    path("knowledge/search/", views.SearchEntries.as_view(), name="api-knowledge-search"),
    path("knowledge/similar/", views.Similar.as_view(), name="api-knowledge-similar"),
    path("knowledge/index/", views.Index.as_view(), name="api-knowledge-index"),
    path("knowledge/contradictions/", views.Contradictions.as_view(), name="api-contradictions"),
    path("knowledge/contradictions/<int:pk>/settle/", views.Settle.as_view(), name="api-contradiction-settle"),
    path("knowledge/<int:pk>/", views.OneEntry.as_view(), name="api-entry"),
    path("knowledge/<int:pk>/revisions/", views.Revisions.as_view(), name="api-entry-revisions"),
    path("knowledge/<int:pk>/renew/", views.Renew.as_view(), name="api-entry-renew"),
    path("knowledge/<int:pk>/supersede/", views.Supersede.as_view(), name="api-entry-supersede"),
    path("knowledge/<int:pk>/archive/", views.Archive.as_view(), name="api-entry-archive"),
    path("knowledge/<int:pk>/restore/", views.Restore.as_view(), name="api-entry-restore"),
    path("knowledge/<int:pk>/accept/", views.Accept.as_view(), name="api-entry-accept"),
    path("knowledge/<int:pk>/reject/", views.Reject.as_view(), name="api-entry-reject"),
    path("knowledge/<int:pk>/undo/", views.Undo.as_view(), name="api-entry-undo"),
    path("knowledge/<int:pk>/flag/", views.Flag.as_view(), name="api-entry-flag"),
]
