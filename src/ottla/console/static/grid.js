// Tables that can be filtered, sorted and walked through with keys, however long they are: beyond WINDOWED rows only those
// in sight are in the document. A row is the server's own <tr>; cells that sort by something else have data-value.
const WINDOWED = 200;
const MARGIN = 20;
const all = new Map();
let current = null;

export function grids(root) {
  for (const table of root.querySelectorAll("table[data-grid]")) if (!all.has(table)) all.set(table, new Grid(table));
}

export function gridOf(table) {
  return all.get(table);
}

export function moveRow(step) {
  const grid = current && document.contains(current.table) ? current : [...all.values()].find((one) => one.shown.length);
  if (!grid) return false;
  grid.move(step);
  return true;
}

class Grid {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    this.shown = this.rows;
    this.words = "";
    this.sorted = null;
    this.at = -1;
    this.frame = table.closest(".scroll");
    this.filter = document.querySelector(`[data-filter="${CSS.escape(table.id)}"]`);
    this.count = document.getElementById(`${table.id}-count`);
    this.filter?.addEventListener("input", () => this.search(this.filter.value));
    this.filter?.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.shown.length === 1) this.open(this.shown[0]);
      if (event.key === "ArrowDown" || event.key === "Enter") {
        event.preventDefault();
        this.at = -1;
        this.move(1);
      }
    });
    this.body.addEventListener("focusin", (event) => {
      current = this;
      const row = event.target.closest("tr");
      const at = this.shown.indexOf(row);
      if (at >= 0) this.at = at;
    });
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.heads();
    this.isForm = Boolean(table.closest("form")); // its rows stay in the document, or their fields would not be sent
    this.windowed = this.rows.length > WINDOWED && this.frame && !this.isForm;
    if (this.windowed) this.beginWindow();
    this.draw();
    table.classList.add("ready");
  }

  heads() {
    for (const head of this.table.tHead?.rows[0]?.cells ?? []) {
      if (!head.hasAttribute("data-sort")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => this.sort(head));
    }
  }

  sort(head) {
    const down = head.getAttribute("aria-sort") === (head.dataset.sort === "number" ? "descending" : "ascending");
    const direction = head.dataset.sort === "number" ? (down ? 1 : -1) : down ? -1 : 1;
    for (const other of this.table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    this.sorted = { column: head.cellIndex, isNumber: head.dataset.sort === "number", direction };
    this.order();
    this.draw();
  }

  order() {
    if (!this.sorted) return;
    const { column, isNumber, direction } = this.sorted;
    const keys = new Map(this.rows.map((row) => [row, this.value(row.cells[column], isNumber)]));
    const compare = isNumber ? (a, b) => keys.get(a) - keys.get(b) : (a, b) => keys.get(a).localeCompare(keys.get(b), "en", { numeric: true });
    this.rows.sort((a, b) => direction * compare(a, b));
    this.select();
  }

  value(cell, isNumber) {
    const text = cell?.dataset.value ?? cell?.textContent.trim() ?? "";
    if (!isNumber) return text;
    const number = text === "" ? NaN : Number(text.replaceAll(",", ""));
    return Number.isNaN(number) ? -Infinity : number;
  }

  search(words) {
    this.words = words.trim().toLowerCase();
    this.select();
    if (this.frame) this.frame.scrollTop = 0;
    this.draw();
  }

  select() {
    const words = this.words.split(/\s+/).filter(Boolean);
    this.shown = words.length ? this.rows.filter((row) => words.every((word) => this.text(row).includes(word))) : this.rows;
    this.at = -1;
    if (this.count) this.count.textContent = words.length ? `${this.shown.length} of ${this.rows.length}` : "";
  }

  text(row) {
    row.searched ??= (row.dataset.text ?? row.textContent).toLowerCase();
    return row.searched;
  }

  update(other) {
    const scrolled = this.frame?.scrollTop;
    const focused = this.shown[this.at]?.dataset.key;
    const had = this.body.contains(document.activeElement);
    const before = new Map(this.rows.map((row) => [row.dataset.key, row]));
    this.rows = [...other.tBodies[0].rows].map((row) => {
      const kept = before.get(row.dataset.key);
      if (!kept) return row;
      if (kept.innerHTML !== row.innerHTML && !kept.contains(document.activeElement)) {
        kept.replaceChildren(...row.childNodes);
        kept.searched = undefined;
      }
      return kept;
    });
    this.select();
    this.order();
    if (!this.sorted) this.select();
    this.at = focused === undefined ? -1 : this.shown.findIndex((row) => row.dataset.key === focused);
    this.draw();
    if (scrolled) this.frame.scrollTop = scrolled;
    if (had && this.at >= 0 && !this.body.contains(document.activeElement)) this.shown[this.at].focus();
  }

  // -- what is in sight ------------------------------------------------------------------------------------------------

  beginWindow() {
    this.height = this.rows[0].getBoundingClientRect().height || 29;
    const columns = this.rows[0].cells.length;
    const heads = [...this.table.tHead.rows[0].cells];
    const widths = heads.map((cell) => Math.ceil(cell.getBoundingClientRect().width)); // all before the first changes: each would lay out every row again
    heads.forEach((cell, at) => (cell.width = widths[at]));
    this.above = spacer(columns);
    this.below = spacer(columns);
    this.frame.classList.add("windowed");
    this.table.setAttribute("aria-rowcount", String(this.rows.length + 1));
    let waiting = false;
    this.frame.addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        this.draw();
      });
    });
  }

  draw() {
    if (this.isForm) {
      const shown = new Set(this.shown);
      for (const row of this.rows) row.hidden = !shown.has(row);
      if (this.sorted) this.body.append(...this.rows);
      return;
    }
    if (!this.windowed) {
      this.body.replaceChildren(...this.shown);
      return;
    }
    const first = Math.max(0, Math.floor(this.frame.scrollTop / this.height) - MARGIN);
    const last = Math.min(this.shown.length, first + Math.ceil(this.frame.clientHeight / this.height) + 2 * MARGIN);
    const rows = this.shown.slice(first, last);
    const held = document.activeElement?.closest?.("tr");
    if (held && this.body.contains(held) && !rows.includes(held)) this.frame.focus({ preventScroll: true });
    rows.forEach((row, at) => row.setAttribute("aria-rowindex", String(first + at + 2)));
    this.above.firstChild.style.height = `${first * this.height}px`;
    this.below.firstChild.style.height = `${(this.shown.length - last) * this.height}px`;
    this.body.replaceChildren(this.above, ...rows, this.below);
  }

  // -- keys ------------------------------------------------------------------------------------------------------------

  move(step) {
    if (!this.shown.length) return;
    this.at = Math.min(this.shown.length - 1, Math.max(0, this.at + step));
    if (this.windowed) {
      const top = this.at * this.height;
      const { scrollTop, clientHeight } = this.frame;
      if (top < scrollTop + this.height) this.frame.scrollTop = Math.max(0, top - this.height);
      else if (top + 3 * this.height > scrollTop + clientHeight) this.frame.scrollTop = top + 3 * this.height - clientHeight;
      this.draw();
    }
    const row = this.shown[this.at];
    row.tabIndex = -1;
    row.focus();
    row.scrollIntoView({ block: "nearest" });
    current = this;
  }

  key(event) {
    if (event.target.closest("tr") !== event.target) return;
    if (event.key === "ArrowDown") this.move(1);
    else if (event.key === "ArrowUp") this.move(-1);
    else if (event.key === "Enter") this.open(event.target);
    else return;
    event.preventDefault();
  }

  open(row) {
    row.querySelector("a[href]")?.click();
  }
}

function spacer(columns) {
  const row = document.createElement("tr");
  row.className = "spacer";
  row.setAttribute("aria-hidden", "true");
  row.append(document.createElement("td"));
  row.firstChild.colSpan = columns;
  return row;
}
