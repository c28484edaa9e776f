// Incidents by keyboard: every key does what a link or a form of the page does, and "?" tells which.
const STATES = { v: "investigating", c: "culprit_found", f: "fixed", r: "reverted", e: "environment", i: "invalid", n: "new" };
const ASKING = { a: ["accepted", "reason"], s: ["snoozed", "snoozed_until"], d: ["duplicate", "duplicate_of"] };
const titles = [...document.querySelectorAll("a.title")];
const change = document.querySelector("form.change");
const byKey = document.getElementById("by-key");
const keys = document.getElementById("keys");
const off = document.getElementById("keys-off");

const place = () => titles.findIndex((title) => title.closest("li").contains(document.activeElement));
const marked = () => titles[place()];

function go(to) {
  const title = titles[Math.max(0, Math.min(titles.length - 1, to))];
  title?.focus();
  title?.closest("li").scrollIntoView({ block: "nearest" });
}

function become(state) {
  const title = marked();
  if (!byKey || !(title || change)) return;
  if (title) {
    sessionStorage.setItem("perfci-place", place());
    byKey.action = title.href;
    byKey.elements.revision.value = title.dataset.revision;
  }
  byKey.elements.state.value = state;
  byKey.submit();
}

function ask([state, field]) {
  if (change) {
    change.elements.state.value = state;
    change.elements[field].focus();
  } else if (byKey && marked()) {
    location.assign(`${marked().href}?state=${state}#change`);
  }
}

const DO = {
  j: () => go(place() + 1),
  k: () => go(place() < 0 ? 0 : place() - 1),
  x: () => marked()?.closest("li").querySelector("input[name=pick]")?.click(),
  l: () => change && document.querySelector(".kicker a")?.click(),
  u: () => document.getElementById("undo")?.requestSubmit(),
  "?": () => keys.showModal(),
};

function typing(target) {
  return target.closest("textarea, select, input:not([type=checkbox]), dialog") !== null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat && !"jk".includes(event.key) || typing(event.target)) return;
  const act = off.checked ? undefined
    : DO[event.key] ?? (STATES[event.key] && (() => become(STATES[event.key]))) ?? (ASKING[event.key] && (() => ask(ASKING[event.key])));
  if (!act) return;
  event.preventDefault();
  act();
});

const open = document.getElementById("keys-open");
open.hidden = false;
open.addEventListener("click", () => keys.showModal());
document.getElementById("keys-close").addEventListener("click", () => keys.close());
off.checked = localStorage.getItem("perfci-keys") === "off";
off.addEventListener("change", () => localStorage.setItem("perfci-keys", off.checked ? "off" : "on"));

if (new URLSearchParams(location.search).has("changed")) go(Number(sessionStorage.getItem("perfci-place") ?? 0));
