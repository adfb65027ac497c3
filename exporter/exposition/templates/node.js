"use strict";
// Fetches the page anew each interval and replaces <main>; without this script the page is a plain one.
(() => {
  const banner = document.getElementById("link");
  const started = new Date();
  let lastGood = started;

  const pause = () => Math.max(1, Number(document.documentElement.dataset.interval) || 5) * 1000;

  const selecting = () => {
    const selection = getSelection();
    return selection !== null && !selection.isCollapsed && document.querySelector("main").contains(selection.anchorNode);
  };

  const replace = (fresh) => {
    const scrolled = new Map(Array.from(document.querySelectorAll("main .scroll[id]"), (each) => [each.id, each.scrollLeft]));
    const focused = document.activeElement;
    const link = focused && focused.getAttribute("href");
    const id = focused && focused.id;
    document.querySelector("main").replaceWith(document.adoptNode(fresh.querySelector("main")));
    document.title = fresh.title;
    document.documentElement.dataset.interval = fresh.documentElement.dataset.interval;
    for (const [each, left] of scrolled) {
      const target = document.getElementById(each);
      if (target) target.scrollLeft = left;
    }
    if (document.activeElement !== focused) {
      const again = Array.from(document.querySelectorAll("main a, main .scroll")).find(
        (each) => (id ? each.id === id : link !== null && each.getAttribute("href") === link),
      );
      if (again) again.focus({ preventScroll: true });
    }
  };

  const refresh = async () => {
    try {
      const address = location.href.split("#")[0];
      const answer = await fetch(address, { cache: "no-store", signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!fresh.querySelector("main")) throw new Error("not the page");
      replace(fresh);
      lastGood = new Date();
      banner.hidden = true;
    } catch {
      banner.textContent = `Stale since ${lastGood.toLocaleTimeString()}: the exporter does not answer. What stands below is from then.`;
      banner.hidden = false;
    }
  };

  const loop = async () => {
    if (!document.hidden && !selecting()) await refresh();
    setTimeout(loop, pause());
  };

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
  });
  setTimeout(loop, pause());
})();
