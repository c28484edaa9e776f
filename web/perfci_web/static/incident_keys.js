// Incidents by keyboard: every key does what a link or a form of the page does, and "?" lists them.
const STATE_KEYS = { v: "investigating", c: "culprit_found", f: "fixed", r: "reverted", e: "environment", i: "invalid", n: "new" };
const FIELD_KEYS = { a: ["accepted", "reason"], s: ["snoozed", "snoozed_until"], d: ["duplicate", "duplicate_of"] };
const titles = [...document.querySelectorAll("a.title")];
const change = document.querySelector("form.change");
const byKey = document.getElementById("by-key");
const keys = document.getElementById("keys");
const disableKeys = document.getElementById("keys-off");

const focusedIndex = () => titles.findIndex((title) => title.closest("li").contains(document.activeElement));
const focusedTitle = () => titles[focusedIndex()];

function go(to) {
  const title = titles[Math.max(0, Math.min(titles.length - 1, to))];
  title?.focus();
  title?.closest("li").scrollIntoView({ block: "nearest" });
}

function submitState(state) {
  const title = focusedTitle();
  if (!byKey || !(title || change)) return;
  if (title) {
    sessionStorage.setItem("perfci-place", focusedIndex());
    byKey.action = title.href;
    byKey.elements.revision.value = title.dataset.revision;
  }
  byKey.elements.state.value = state;
  byKey.submit();
}

function focusField([state, field]) {
  if (change) {
    change.elements.state.value = state;
    change.elements[field].closest("details")?.setAttribute("open", "");
    change.elements[field].focus();
  } else if (byKey && focusedTitle()) {
    location.assign(`${focusedTitle().href}?state=${state}#change`);
  }
}

const ACTION_KEYS = {
  j: () => go(focusedIndex() + 1),
  k: () => go(focusedIndex() < 0 ? 0 : focusedIndex() - 1),
  x: () => focusedTitle()?.closest("li").querySelector("input[name=pick]")?.click(),
  l: () => change && document.querySelector(".kicker a")?.click(),
  u: () => document.getElementById("undo")?.requestSubmit(),
  "?": () => keys.showModal(),
};

function typing(target) {
  return target.closest("textarea, select, input:not([type=checkbox]), dialog") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat && !"jk".includes(event.key) || typing(event.target)) return;
  const act = disableKeys.checked ? undefined
    : ACTION_KEYS[event.key] ?? (STATE_KEYS[event.key] && (() => submitState(STATE_KEYS[event.key]))) ?? (FIELD_KEYS[event.key] && (() => focusField(FIELD_KEYS[event.key])));
  if (!act) return;
  event.preventDefault();
  act();
});

const open = document.getElementById("keys-open");
open.hidden = false;
open.addEventListener("click", () => keys.showModal());
document.getElementById("keys-close").addEventListener("click", () => keys.close());
disableKeys.checked = localStorage.getItem("perfci-keys") === "off";
disableKeys.addEventListener("change", () => localStorage.setItem("perfci-keys", disableKeys.checked ? "off" : "on"));

if (new URLSearchParams(location.search).has("changed")) go(Number(sessionStorage.getItem("perfci-place") ?? 0));
