// Light or dark: what the system prefers, until one says otherwise.

const NEXT = { auto: "light", light: "dark", dark: "auto" } as const;
type Theme = keyof typeof NEXT;

export function theme(): Theme {
  try {
    const stored = localStorage.getItem("recompose-theme");
    return stored === "light" || stored === "dark" ? stored : "auto";
  } catch {
    return "auto";
  }
}

export function applyTheme(wanted: Theme = theme()): void {
  document.documentElement.dataset.theme = wanted;
}

export function nextTheme(): Theme {
  const next = NEXT[theme()];
  try {
    localStorage.setItem("recompose-theme", next);
  } catch {
    // A browser that keeps nothing still gets the theme for now.
  }
  applyTheme(next);
  return next;
}
