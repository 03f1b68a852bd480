from django.urls import path

from memory.api.views import Applied, Episodes, FeedbackGiven

urlpatterns = [
    path("feedback/", FeedbackGiven.as_view(), name="api-feedback"),
    path("episodes/", Episodes.as_view(), name="api-episodes"),
    path("episodes/<int:pk>/applied/", Applied.as_view(), name="api-episode-applied"),
]
