// The parts that every page has. Each module finds what it serves by its data attributes, and does nothing otherwise.
import "./theme.js";
import "./keys.js";
import { grids } from "./grid.js";
import { live } from "./live.js";
import { records } from "./records.js";
import { settings } from "./settings.js";

grids(document);
live();
records();
settings();

// Who types where to go has chosen it.
for (const field of document.querySelectorAll(".choice input:not([type])")) {
  const choice = field.closest(".choice").querySelector("[type=radio]");
  if (choice) field.addEventListener("input", () => (choice.checked = true));
}

const login = document.querySelector("[data-login]");
if (login && location.hash.length > 1) {
  // The link that the console prints has the token behind the #, where no server sees it.
  login.elements.secret.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  login.requestSubmit();
}

const menu = document.querySelector("[data-menu]");
menu?.addEventListener("click", () => {
  const open = menu.getAttribute("aria-expanded") !== "true";
  menu.setAttribute("aria-expanded", String(open));
  document.body.classList.toggle("menu-open", open);
});
