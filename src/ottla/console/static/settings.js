// Settings: only what was changed is sent, and only what was set is shown if somebody wants that.
export function settings() {
  const form = document.querySelector("[data-settings]");
  if (!form) return;
  const foot = form.querySelector("[data-settings-foot]");
  const count = form.querySelector("[data-settings-count]");
  const mark = (field) => {
    const changed = field.value !== field.defaultValue;
    if (changed) field.name = `set:${field.dataset.setting}`;
    else field.removeAttribute("name");
    field.classList.toggle("changed", changed);
  };
  const total = () => {
    const number = form.querySelectorAll("input.changed").length;
    if (foot) foot.hidden = number === 0;
    if (count) count.textContent = number === 1 ? "1 setting is changed" : `${number} settings are changed`;
  };
  form.querySelectorAll("[data-setting]").forEach(mark); // somebody may have been quicker than this module
  total();
  form.addEventListener("input", (event) => {
    if (!event.target.dataset.setting) return;
    mark(event.target);
    total();
  });
  const hide = document.querySelector("[data-hide-default]");
  hide?.addEventListener("change", () => form.classList.toggle("only-own", hide.checked));
}
