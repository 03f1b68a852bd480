from django.urls import path

from knowledge.api import acting, contradictions, entries, files, finding

urlpatterns = [
    path("knowledge/", entries.Entries.as_view(), name="api-knowledge"),
    path("knowledge/suggest/", entries.Suggest.as_view(), name="api-knowledge-suggest"),
    path("knowledge/import/", files.Import.as_view(), name="api-knowledge-import"),
    path("knowledge/export/", files.Export.as_view(), name="api-knowledge-export"),
    path("knowledge/search/", finding.Search.as_view(), name="api-knowledge-search"),
    path("knowledge/similar/", finding.Similar.as_view(), name="api-knowledge-similar"),
    path("knowledge/index/", finding.Index.as_view(), name="api-knowledge-index"),
    path("knowledge/contradictions/", contradictions.Contradictions.as_view(), name="api-contradictions"),
    path("knowledge/contradictions/<int:pk>/settle/", contradictions.Settle.as_view(), name="api-contradiction-settle"),
    path("knowledge/<int:pk>/", entries.OneEntry.as_view(), name="api-entry"),
    path("knowledge/<int:pk>/revisions/", entries.Revisions.as_view(), name="api-entry-revisions"),
    path("knowledge/<int:pk>/renew/", acting.Renew.as_view(), name="api-entry-renew"),
    path("knowledge/<int:pk>/supersede/", acting.Supersede.as_view(), name="api-entry-supersede"),
    path("knowledge/<int:pk>/archive/", acting.Archive.as_view(), name="api-entry-archive"),
    path("knowledge/<int:pk>/restore/", acting.Restore.as_view(), name="api-entry-restore"),
    path("knowledge/<int:pk>/accept/", acting.Accept.as_view(), name="api-entry-accept"),
    path("knowledge/<int:pk>/reject/", acting.Reject.as_view(), name="api-entry-reject"),
    path("knowledge/<int:pk>/flag/", acting.Flag.as_view(), name="api-entry-flag"),
]
