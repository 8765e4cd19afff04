// Pages that refresh by themselves: the same address is asked for again, and what has `data-live` is exchanged, unless
// somebody is in the middle of it. The server renders every page in one way only.
import { gridOf } from "./grid.js";
import { say } from "./say.js";

const main = document.getElementById("content");
let paused = false;
let timer = 0;

export function togglePause() {
  paused = !paused;
  document.body.classList.toggle("paused", paused);
  say(paused ? "Refreshing is paused" : "Refreshing again");
}

export function live() {
  const seconds = Number(main?.dataset.refresh || 0);
  if (!seconds) return;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      if (!paused && !document.hidden) await refresh();
      wait();
    }, seconds * 1000 * pace());
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !paused) refresh();
  });
  wait();
}

// A page with a very long table is worth less refreshing: reading it all is work for everybody.
function pace() {
  const rows = [...document.querySelectorAll("table[data-live]")].map((table) => gridOf(table)?.rows.length ?? 0);
  return Math.max(1, Math.max(0, ...rows) / 1000);
}

export async function refresh() {
  let answer;
  try {
    answer = await fetch(location.href, { headers: { "x-refresh": "1" }, signal: AbortSignal.timeout(20000) });
  } catch {
    return trouble("The console does not answer. It may have been stopped.");
  }
  if (answer.status === 401) return again();
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (fresh.querySelector(".error") || document.querySelector(".error")) {
    if (!fresh.querySelector(".error")) return again();
    return trouble(fresh.querySelector(".notice")?.textContent || "The cluster does not answer.");
  }
  trouble("");
  for (const element of document.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(element.id);
    if (other) exchange(element, other);
  }
}

// Not `reload`: where this page answers a form, that would send the form once more.
function again() {
  location.replace(location.pathname + location.search);
}

function exchange(element, other) {
  const grid = gridOf(element);
  if (grid) return grid.update(other);
  if (element.contains(document.activeElement) && document.activeElement !== element) return;
  if (element.innerHTML !== other.innerHTML) element.replaceChildren(...other.childNodes);
}

function trouble(sentence) {
  let banner = document.getElementById("trouble");
  if (!sentence) return banner?.remove();
  if (!banner) {
    banner = document.createElement("p");
    banner.id = "trouble";
    banner.className = "notice bad";
    banner.setAttribute("role", "alert");
    main.prepend(banner);
  }
  if (banner.textContent !== sentence) banner.textContent = sentence;
}
