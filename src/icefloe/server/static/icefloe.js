// Everything that pages do by script: follow changes, times in the reader's zone, copy, theme. Pages work without it, but do not move.
(() => {
  "use strict";
  const body = document.body;

  // -- times ---------------------------------------------------------------------------------------------------------------
  const units = [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]];
  const span = (seconds) => {
    if (seconds < 60) return `${Math.round(seconds)} s`;
    for (const [unit, length, short, below] of units) {
      if (seconds >= length) {
        const rest = Math.floor((seconds % length) / below);
        return `${Math.floor(seconds / length)} ${unit}` + (rest ? ` ${rest} ${short}` : "");
      }
    }
  };
  const showTimes = (root) => {
    for (const time of root.querySelectorAll("time[data-show]")) {
      const at = new Date(time.dateTime);
      if (time.dataset.show === "moment") {
        time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
        time.title = time.dateTime;
      } else {
        const gap = (Date.now() - at) / 1000;
        time.textContent = gap >= 0 ? `${span(gap)} ago` : `in ${span(-gap)}`;
      }
    }
  };
  showTimes(document);
  setInterval(() => showTimes(document), 10000);

  // -- one stream a tab: what has changed is fetched again, and only the parts that show it -----------------------------------
  const waiting = new Set();
  let busy = false;
  const refresh = async (topics) => {
    const all = topics.includes("all");
    for (const part of document.querySelectorAll("[data-live]")) {
      const wanted = part.dataset.live.split(" ");
      if (part.id && (all || wanted.some((topic) => topics.includes(topic)))) waiting.add(part.id);
    }
    // A tab that nobody sees waits until somebody does.
    if (busy || !waiting.size || document.hidden) return;
    busy = true;
    try {
      // Many tabs hear of one change at the same moment: they do not all ask at once.
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 500));
      while (waiting.size) {
        const ids = [...waiting];
        waiting.clear();
        const answer = await fetch(location.href, { headers: { "X-Live": ids.join(",") } });
        if (!answer.ok) break;
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const id of ids) {
          const old = document.getElementById(id);
          const now = fresh.getElementById(id);
          if (!old || !now || old.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")) continue;
          // Morphing keeps focus and scroll position; what somebody has opened is not in the server's page.
          const opened = [...old.querySelectorAll("details")].map((details) => details.open);
          await htmx.swap({ sourceElement: old, target: old, swap: "outerMorph", text: now.outerHTML });
          const placed = document.getElementById(id);
          if (placed) {
            placed.querySelectorAll("details").forEach((details, number) => { if (opened[number]) details.open = true; });
            showTimes(placed);
            settle(placed);
          }
        }
      }
    } finally {
      busy = false;
    }
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh([]); });
  const connection = document.getElementById("connection");
  const connected = (is) => { connection.hidden = is; };
  if (body.dataset.changes) {
    const open = () => {
      const stream = new EventSource(body.dataset.changes);
      let lost = false;
      stream.addEventListener("open", () => {
        connected(true);
        if (lost) refresh(["all"]);
        lost = false;
      });
      stream.addEventListener("error", () => {
        lost = true;
        connected(false);
        if (stream.readyState === EventSource.CLOSED) setTimeout(open, 5000);
      });
      stream.addEventListener("changed", (event) => {
        const change = JSON.parse(event.data);
        connected(change.connected);
        refresh(change.topics);
      });
      addEventListener("pagehide", () => stream.close(), { once: true });
    };
    open();
  }

  // -- big drawings: zoom, and what matters now in sight ---------------------------------------------------------------------
  const zooms = new Map();
  const zoomed = (scroll, by) => {
    const svg = scroll.querySelector("svg");
    if (!svg) return;
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const factor = by === "fit" ? Math.min(1, scroll.clientWidth / width) : (zooms.get(scroll.id) ?? 1) * by;
    const bounded = Math.min(2, Math.max(0.1, factor));
    zooms.set(scroll.id, bounded);
    svg.setAttribute("width", width * bounded);
    svg.setAttribute("height", height * bounded);
  };
  const settle = (root) => {
    for (const bar of root.querySelectorAll("[data-zoom-for]")) {
      const scroll = document.getElementById(bar.dataset.zoomFor);
      bar.hidden = false;
      if (scroll && zooms.has(scroll.id)) zoomed(scroll, 1);
    }
  };
  settle(document);
  for (const mark of document.querySelectorAll("[data-focus]")) {
    const scroll = mark.closest(".chart-scroll");
    if (!scroll) continue;
    const [place, frame] = [mark.getBoundingClientRect(), scroll.getBoundingClientRect()];
    scroll.scrollLeft += place.left - frame.left - (frame.width - place.width) / 2;
    scroll.scrollTop += place.top - frame.top - (frame.height - place.height) / 2;
  }

  // -- a log that follows ----------------------------------------------------------------------------------------------------
  const follow = (log) => {
    const address = log.dataset.log;
    let place = log.dataset.place;
    const box = document.querySelector("[data-follow-switch]");
    if (box) box.hidden = false;
    const following = () => !box || box.querySelector("input").checked;
    log.scrollTop = log.scrollHeight;
    const look = async () => {
      if (!document.hidden && following()) {
        try {
          const answer = await fetch(`${address}&begin=${encodeURIComponent(place)}`);
          if (answer.ok) {
            const text = await answer.text();
            place = answer.headers.get("X-Next");
            if (text) {
              const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
              log.append(text);
              while (log.childNodes.length > 500) log.firstChild.remove();
              if (atEnd) log.scrollTop = log.scrollHeight;
            }
            if (answer.headers.get("X-Ended") === "1") {
              if (box) box.hidden = true;
              return;
            }
          } else if (answer.status === 404) return;
        } catch {
          // the server is away: the bar says so, and the log goes on when it is back
        }
      }
      setTimeout(look, 1000);
    };
    look();
  };
  for (const log of document.querySelectorAll("[data-log]")) if (log.dataset.log) follow(log);

  // -- small things ----------------------------------------------------------------------------------------------------------
  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("[data-copy]");
    if (copy) {
      try {
        await navigator.clipboard.writeText(copy.dataset.copy);
        copy.textContent = "Copied";
      } catch {
        copy.textContent = "Press Ctrl+C";
        getSelection().selectAllChildren(copy.previousElementSibling);
      }
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    }
    const zoom = event.target.closest("[data-zoom]");
    if (zoom) {
      const scroll = document.getElementById(zoom.closest("[data-zoom-for]").dataset.zoomFor);
      zoomed(scroll, { in: 1.25, out: 0.8, fit: "fit" }[zoom.dataset.zoom]);
    }
    if (event.target.closest("[data-theme-switch]")) {
      const dark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
      document.documentElement.dataset.theme = dark ? "light" : "dark";
      localStorage.setItem("icefloe-theme", dark ? "light" : "dark");
    }
  });
  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
    else for (const button of event.target.querySelectorAll("button")) setTimeout(() => { button.disabled = true; }, 0);
  });
  document.addEventListener("htmx:config:request", (event) => {
    const headers = event.detail.ctx?.request?.headers ?? event.detail.headers;
    if (headers) headers["X-CSRF-Token"] = body.dataset.csrf;
  });
})();
