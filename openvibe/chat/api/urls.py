from django.urls import path

from openvibe.chat.api import dives, events, messages, views

urlpatterns = [
    path("channels/", views.Channels.as_view(), name="api-channels"),
    path("channels/<int:pk>/", views.OneChannel.as_view(), name="api-channel"),
    path("threads/", views.Threads.as_view(), name="api-threads"),
    path("threads/<int:pk>/", views.OneThread.as_view(), name="api-thread"),
    path("threads/<int:pk>/messages/", messages.Messages.as_view(), name="api-messages"),
    path("threads/<int:pk>/search/", messages.MessagesBearing.as_view(), name="api-messages-search"),
    path("messages/<int:pk>/", messages.OneMessage.as_view(), name="api-message"),
    path("dives/", dives.Dives.as_view(), name="api-dives"),
    path("dives/<int:pk>/", dives.OneDive.as_view(), name="api-dive"),
    path("dives/<int:pk>/draft/", dives.Draft.as_view(), name="api-dive-draft"),
    path("dives/<int:pk>/publish/", dives.Publish.as_view(), name="api-dive-publish"),
    path("dives/<int:pk>/discard/", dives.Discard.as_view(), name="api-dive-discard"),
    path("search/", views.Search.as_view(), name="api-search"),
    path("events/", events.Events.as_view(), name="api-events"),
]
