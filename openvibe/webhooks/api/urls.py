from django.urls import path

from openvibe.webhooks.api import views

urlpatterns = [
    path("webhooks/", views.Webhooks.as_view(), name="api-webhooks"),
    path("webhooks/<int:pk>/", views.OneWebhook.as_view(), name="api-webhook"),
    path("webhooks/<int:pk>/rotate/", views.RotateSecret.as_view(), name="api-webhook-rotate"),
    path("webhooks/<int:pk>/resume/", views.ResumeWebhook.as_view(), name="api-webhook-resume"),
    path("webhooks/<int:pk>/test/", views.SendTest.as_view(), name="api-webhook-test"),
    path("webhooks/<int:pk>/deliveries/", views.Deliveries.as_view(), name="api-deliveries"),
    path("webhooks/<int:pk>/deliveries/<int:number>/send/", views.SendAgain.as_view(), name="api-delivery-send"),
]
