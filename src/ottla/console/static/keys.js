// Keys: / to search, ? for help, g and a letter to go somewhere, j and k in tables (grid.js), t and p.
import { switchTheme } from "./theme.js";
import { togglePause } from "./live.js";
import { moveRow } from "./grid.js";

const help = document.getElementById("help");
let going = 0;

function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function search() {
  const field = document.querySelector("[data-filter]") || document.querySelector("[data-find]");
  if (!field) return false;
  field.focus();
  field.select();
  return true;
}

function go(letter) {
  const link = document.querySelector(`#nav a[data-key="${CSS.escape(letter)}"]`);
  if (link) link.click();
  return Boolean(link);
}

function act(event) {
  if (Date.now() - going < 1500) {
    going = 0;
    return go(event.key);
  }
  switch (event.key) {
    case "/": return search();
    case "?": help?.showModal(); return Boolean(help);
    case "g": going = Date.now(); return true;
    case "t": switchTheme(); return true;
    case "p": togglePause(); return true;
    case "j": return moveRow(1);
    case "k": return moveRow(-1);
    default: return false;
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && isTyping(event.target)) {
    event.target.blur();
    return;
  }
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (act(event)) event.preventDefault();
});

document.querySelector("[data-help]")?.addEventListener("click", () => help?.showModal());
