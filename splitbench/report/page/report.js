"use strict";
(() => {
  const root = document.documentElement;
  const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* a page from a file may not */ } };
  const kept = (name) => { try { return localStorage.getItem(name); } catch { return null; } };

  // Light and dark: as the system says, until somebody says otherwise.
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"}`); };
  const chosen = kept("splitbench-theme");
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; keep("splitbench-theme", root.dataset.theme); label(); });
  system.addEventListener("change", label);
  label();
  button.hidden = false;

  // Filters: what says that it is of another data set, defense or attack is hidden; inside a plot it is dimmed.
  const form = document.getElementById("filters");
  const status = document.getElementById("filtered");
  const names = ["dataset", "defense", "attack"].filter((name) => form.elements[name]);
  const filtered = [...document.querySelectorAll(names.map((name) => `[data-${name}]`).join(",") || "none")];
  const apply = () => {
    const wanted = names.map((name) => [name, form.elements[name].value]).filter(([, value]) => value);
    for (const element of filtered) {
      const other = wanted.some(([name, value]) => name in element.dataset && element.dataset[name] !== value);
      if (element.namespaceURI.endsWith("/svg")) element.classList.toggle("dim", other);
      else element.hidden = other;
    }
    const shown = (what) => document.querySelectorAll(`${what}:not([hidden])`).length;
    status.textContent = wanted.length ? `${shown(".pair")} galleries and ${shown(".run")} runs shown` : "";
    for (const section of document.querySelectorAll("#galleries, #price")) {
      const parts = [...section.querySelectorAll(".pair, .plot-card")];
      section.hidden = parts.length > 0 && parts.every((part) => part.hidden);
    }
  };
  form.addEventListener("change", apply);
  form.addEventListener("reset", () => setTimeout(apply));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = names.length === 0;

  // Hover: what a mark stands for.
  const tip = document.getElementById("tip");
  const show = (event) => {
    const mark = event.target.closest?.("[data-tip]");
    tip.hidden = !mark || !mark.dataset.tip;
    if (tip.hidden) return;
    tip.textContent = mark.dataset.tip;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const above = event.clientY - box.height - 12;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();
