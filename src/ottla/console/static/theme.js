// Light or dark: what the system has, until somebody chooses. The choice is a cookie, so that the server draws the first page in it.
const dark = matchMedia("(prefers-color-scheme: dark)");

export function switchTheme() {
  const root = document.documentElement;
  const now = root.dataset.theme || (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  document.cookie = `ottla_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=strict`;
}

document.querySelector("[data-theme-switch]")?.addEventListener("click", switchTheme);
