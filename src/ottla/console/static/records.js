// The records of a topic: looking into one where it stands, live tail, search, copies. The server renders every row, also those that
// come later; here they are put where they belong.
import { gridOf } from "./grid.js";
import { say } from "./say.js";

const ROWS_MAX = 500;
const number = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function records() {
  offerCopies(document);
  noNulls();
  const table = document.querySelector("table[data-records]");
  const list = table && new List(table);
  const flow = list && new Flow(list);
  document.addEventListener("keydown", (event) => key(event, flow));
}

// Who types a key wants one.
function noNulls() {
  for (const name of ["key", "value"]) {
    const box = document.querySelector(`input[name="${name}_null"]`);
    document.querySelector(`textarea[name="${name}"]`)?.addEventListener("input", () => (box.checked = false));
  }
}

function key(event, flow) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
  if (event.key === "[") document.querySelector('.pager a[rel="prev"]')?.click();
  else if (event.key === "]") document.querySelector('.pager a[rel="next"]')?.click();
  else if (event.key === "l") flow?.tail.click();
  else if (event.key === "Escape") flow?.stop();
}

// -- the table ---------------------------------------------------------------------------------------------------------

class List {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.nothing = document.getElementById("nothing");
    this.words = document.getElementById("q")?.value.trim() ?? "";
    this.body.addEventListener("click", (event) => this.click(event));
    this.mark([...this.body.rows]);
  }

  get rows() {
    return [...this.body.rows].filter((row) => row.dataset.key);
  }

  // Rows as the server made them; `place` says where one belongs among those that are there.
  add(html, place) {
    const holder = document.createElement("template");
    holder.innerHTML = `<table><tbody>${html}</tbody></table>`;
    const fresh = [...holder.content.querySelectorAll("tr")];
    for (const row of fresh) place(row);
    const rows = this.rows;
    for (const row of rows.slice(ROWS_MAX)) this.remove(row);
    const grid = gridOf(this.table);
    if (grid) {
      grid.rows = grid.shown = this.rows;
      grid.at = grid.shown.indexOf(document.activeElement?.closest("tr"));
    }
    this.nothing.hidden = true;
    this.mark(fresh);
    return fresh.length;
  }

  remove(row) {
    if (row.nextElementSibling?.className === "peek") row.nextElementSibling.remove();
    row.remove();
  }

  clear() {
    this.body.replaceChildren();
  }

  first(row) {
    this.body.prepend(row);
  }

  byTime(direction) {
    return (row) => {
      const time = Number(row.dataset.time);
      const after = this.rows.findLast((other) => direction * Number(other.dataset.time) <= direction * time);
      if (!after) return this.first(row);
      const peek = after.nextElementSibling;
      (peek?.className === "peek" ? peek : after).after(row);
    };
  }

  // What was looked for, marked without a change to the document.
  mark(rows) {
    if (!this.words || !window.Highlight || !CSS.highlights) return;
    const marks = CSS.highlights.get("match") ?? new Highlight();
    const words = this.words.replace(/^.*(?:=|~)\s*/, "").replaceAll('"', "").toLowerCase();
    if (!words) return;
    for (const row of rows) {
      for (const cell of row.querySelectorAll(".key, .value")) {
        for (const node of cell.childNodes) {
          if (node.nodeType !== Node.TEXT_NODE) continue;
          const text = node.textContent.toLowerCase();
          for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
            const range = new Range();
            range.setStart(node, at);
            range.setEnd(node, Math.min(at + words.length, node.length));
            marks.add(range);
          }
        }
      }
    }
    CSS.highlights.set("match", marks);
  }

  click(event) {
    const row = event.target.closest("tr[data-key]");
    const link = row?.querySelector("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button || String(getSelection())) return;
    if (event.target.closest("a, button") && event.target.closest("a") !== link) return;
    event.preventDefault();
    this.peek(row, link);
  }

  async peek(row, link) {
    if (row.nextElementSibling?.className === "peek") {
      row.nextElementSibling.remove();
      link.setAttribute("aria-expanded", "false");
      return;
    }
    const line = document.createElement("tr");
    line.className = "peek";
    const cell = line.insertCell();
    cell.colSpan = this.table.tHead.rows[0].cells.length;
    cell.textContent = "Reading…";
    row.after(line);
    link.setAttribute("aria-expanded", "true");
    try {
      const answer = await fetch(link.href);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const record = page.getElementById("record");
      cell.replaceChildren(record ?? (page.querySelector(".notice, .error p") || "The record cannot be read."));
      record?.removeAttribute("id");
      offerCopies(cell);
      say(`Offset ${link.textContent} is open`);
    } catch {
      cell.textContent = "The console does not answer.";
    }
  }
}

// -- what goes on ------------------------------------------------------------------------------------------------------

class Flow {
  constructor(list) {
    this.list = list;
    this.box = document.getElementById("streaming");
    this.text = document.getElementById("progress");
    this.share = document.getElementById("share");
    this.tail = document.querySelector("[data-tail]");
    this.form = document.querySelector("[data-look]");
    this.source = null;
    this.box.querySelector("[data-stop]").addEventListener("click", () => this.stop());
    this.tail.hidden = false;
    this.tail.addEventListener("click", () => (this.source && this.isTail ? this.stop() : this.beginTail()));
    addEventListener("pagehide", () => this.source?.close());
    if (this.box.dataset.stream) this.beginSearch(`/topics/${location.pathname.split("/")[2]}/${this.box.dataset.stream}`);
  }

  begin(address, isTail) {
    this.source?.close();
    this.isTail = isTail;
    this.box.hidden = false;
    this.box.classList.remove("ended", "bad");
    this.box.querySelector("[data-stop]").hidden = false;
    this.share.hidden = isTail;
    this.tail.setAttribute("aria-pressed", String(isTail));
    this.source = new EventSource(address);
    this.source.addEventListener("problem", (event) => this.end(JSON.parse(event.data), "bad"));
    this.source.addEventListener("error", () => this.source && this.end("The console does not answer any more.", "bad"));
  }

  beginSearch(address) {
    this.begin(address, false);
    const direction = this.form.elements.order.value === "oldest" ? 1 : -1;
    this.source.addEventListener("rows", (event) => this.list.add(JSON.parse(event.data).html, this.list.byTime(direction)));
    this.source.addEventListener("progress", (event) => this.tell(JSON.parse(event.data)));
    this.source.addEventListener("over", (event) => {
      const result = JSON.parse(event.data);
      this.tell(result);
      this.list.nothing.hidden = result.found > 0;
      const most = result.reason === "limit" ? ", the most that is shown" : "";
      this.end(`${number.format(result.found)} found${most}. ${this.effort(result)}`);
      for (const problem of result.problems) this.notice(problem);
    });
  }

  beginTail() {
    const params = new URLSearchParams(new FormData(this.form));
    this.list.words = params.get("q").trim();
    const sought = this.list.words ? ["q", "in", "case"] : []; // only records that match
    const kept = ["partition", "key_format", "value_format", "uncommitted", ...sought].filter((name) => params.get(name));
    const query = new URLSearchParams(kept.map((name) => [name, params.get(name)]));
    this.begin(`${location.pathname}/tail?${query}`, true);
    if (new URLSearchParams(location.search).size || sought.length) this.list.clear();
    this.came = this.missed = 0;
    this.text.textContent = "Looking where the topic ends";
    this.source.addEventListener("idle", () => (this.text.textContent = `Waiting for records${sought.length ? " that match" : ""}`), { once: true });
    this.source.addEventListener("rows", (event) => {
      const { html, left_out } = JSON.parse(event.data);
      const above = this.list.body.firstChild;
      this.came += this.list.add(html, (row) => this.list.body.insertBefore(row, above));
      this.missed += left_out;
      const missed = this.missed ? `, ${number.format(this.missed)} left out: they come faster than anybody reads` : "";
      this.text.textContent = `${number.format(this.came)} ${this.came === 1 ? "record has" : "records have"} come${missed}`;
    });
    this.source.addEventListener("over", (event) => this.end(JSON.parse(event.data)));
  }

  tell(progress) {
    this.share.value = progress.share;
    this.text.textContent = `${Math.floor(progress.share * 100)} %, ${number.format(progress.found)} found. ${this.effort(progress)}`;
  }

  effort({ records: seen, bytes, seconds, rate }) {
    const speed = seconds < 1 ? "" : `: ${short.format(rate)} a second`;
    return `Searched ${short.format(seen)} records, ${size(bytes)}, in ${seconds.toFixed(1)} s${speed}.`;
  }

  stop() {
    if (!this.source) return;
    this.end(this.isTail ? `Stopped: ${this.text.textContent}` : `Stopped at ${this.text.textContent}`);
  }

  end(sentence, tone = "") {
    this.source?.close();
    this.source = null;
    this.tail.setAttribute("aria-pressed", "false");
    this.text.textContent = sentence;
    this.box.classList.toggle("bad", tone === "bad");
    this.box.classList.add("ended");
    this.box.querySelector("[data-stop]").hidden = true;
  }

  notice(sentence) {
    const line = document.createElement("p");
    line.className = "notice warn";
    line.textContent = sentence;
    this.box.after(line);
  }
}

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  for (; bytes >= 1000 && at < units.length - 1; at++) bytes /= 1000;
  return `${bytes.toFixed(at && bytes < 100 ? 1 : 0)} ${units[at]}`;
}

// -- copies ------------------------------------------------------------------------------------------------------------

function offerCopies(root) {
  for (const button of root.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button.closest("article").querySelector(`[data-text="${button.dataset.copy}"]`).textContent, button));
  }
  for (const link of root.querySelectorAll("[data-copy-link]")) {
    link.textContent = "Copy link";
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      copy(link.href, link);
    });
  }
}

async function copy(text, from) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea"); // where the page is not from a secure address
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const name = from.textContent;
  from.textContent = "Copied";
  say("Copied");
  setTimeout(() => (from.textContent = name), 1200);
}
