// The service worker: shows what the server pushes while no page is open, and opens what was clicked. It keeps nothing
// and answers no request: pages come from the server, and from the browser's own caches.

const ICON = "/static/img/icon-192.png";

const pages = () => clients.matchAll({ type: "window", includeUncontrolled: true });
const pathOf = (page) => new URL(page.url).pathname;

/** One for each message, whoever shows it: a second one of the same tag takes the place of the first, without a sound. */
async function show({ title, body, tag, thread, url, at }) {
  const isInSight = (page) => page.visibilityState === "visible" && pathOf(page) === thread;
  if ((await pages()).some(isInSight)) return;
  await registration.showNotification(title, { body, tag, icon: ICON, badge: ICON, timestamp: at, data: { thread, url } });
}

async function open({ thread, url }) {
  const shown = (await pages()).find((page) => pathOf(page) === thread);
  if (shown) await shown.focus();
  else await clients.openWindow(url);
}

addEventListener("install", () => skipWaiting());
addEventListener("push", (event) => { if (event.data) event.waitUntil(show(event.data.json())); });
addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data));
});
