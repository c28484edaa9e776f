// Incidents by keyboard: every key does what a link or a form of the page does, and "?" lists them.
// A key that answers an incident goes on to the next that nobody answered; what was answered can be undone, the last first.
const STATE_KEYS = { v: "investigating", c: "culprit_found", f: "fixed", r: "reverted", e: "environment", i: "invalid", o: "new" };
const FIELD_KEYS = { a: ["accepted", "reason"], s: ["snoozed", "snoozed_until"], d: ["duplicate", "duplicate_of"], g: ["", "assignee"], n: ["", "note"] };
const titles = [...document.querySelectorAll("a.title")];
const change = document.querySelector("form.change");
const byKey = document.getElementById("by-key");
const keys = document.getElementById("keys");
const disableKeys = document.getElementById("keys-off");
const address = new URLSearchParams(location.search);

const focusedIndex = () => titles.findIndex((title) => title.closest("li").contains(document.activeElement));
const focusedTitle = () => titles[focusedIndex()];
const indexOf = (number) => titles.findIndex((title) => title.dataset.number === number);

function go(to) {
  const title = titles[Math.max(0, Math.min(titles.length - 1, to))];
  title?.focus();
  title?.closest("li").scrollIntoView({ block: "nearest" });
}

const step = (by, link) => (change || !titles.length ? document.querySelector(`a[rel=${link}]`)?.click() : go(focusedIndex() < 0 ? 0 : focusedIndex() + by));

// The answered incidents of this session, the last at the end: number and revision as undoing needs them.
const listPath = location.pathname.replace(/(\/incidents)\/.*/, "$1");
const answered = () => JSON.parse(sessionStorage.getItem(`perfci-answered ${listPath}`) ?? "[]");
const remember = (list) => sessionStorage.setItem(`perfci-answered ${listPath}`, JSON.stringify(list.slice(-100)));

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
    if (state) {
      change.elements.state.value = state;
      change.elements.next.value ||= "queue";
    }
    change.closest("details")?.setAttribute("open", "");
    change.elements[field].closest("details")?.setAttribute("open", "");
    change.elements[field].focus();
  } else if (byKey && focusedTitle()) {
    sessionStorage.setItem("perfci-place", focusedIndex());
    location.assign(`${focusedTitle().href}?state=${state}&field=${field}&next=list`);
  }
}

function undo() {
  const list = answered();
  const last = list.pop();
  const form = document.getElementById("undo");
  if (!last) return form?.requestSubmit();
  if (!byKey) return;
  remember(list);
  byKey.action = `${last.path}/undo`;
  byKey.elements.revision.value = last.revision;
  byKey.elements.next.value = "list";
  byKey.submit();
}

const ACTION_KEYS = {
  j: () => step(1, "next"),
  k: () => step(-1, "prev"),
  x: () => focusedTitle()?.closest("li").querySelector("input[name=pick]")?.click(),
  b: () => (focusedTitle()?.closest("li") ?? document).querySelector("form[action$='/orders'] button, button.copy")?.click(),
  l: () => change && document.querySelector(".kicker a")?.click(),
  u: undo,
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

// Beside an incident the queue begins where the incident stands in it.
const pane = document.querySelector(".queue-pane");
const here = pane?.querySelector(".here");
if (here) pane.scrollTop = here.offsetTop - pane.clientHeight / 3;

const open = document.getElementById("keys-open");
open.hidden = false;
open.addEventListener("click", () => keys.showModal());
document.getElementById("keys-close").addEventListener("click", () => keys.close());
disableKeys.checked = localStorage.getItem("perfci-keys") === "off";
disableKeys.addEventListener("change", () => localStorage.setItem("perfci-keys", disableKeys.checked ? "off" : "on"));

const undoForm = document.getElementById("undo");
if (address.has("changed") && undoForm?.dataset.number) {
  const entry = { number: undoForm.dataset.number, path: undoForm.dataset.path, revision: undoForm.elements.revision.value };
  if (!answered().some((other) => other.number === entry.number && other.revision === entry.revision)) remember([...answered(), entry]);
  // Where its row stayed the next one follows; where it left its place, another has taken that.
  const place = Number(sessionStorage.getItem("perfci-place") ?? 0);
  const from = indexOf(entry.number) === place ? place + 1 : place;
  const unanswered = titles.map((title, index) => (title.dataset.state === "new" ? index : -1)).filter((index) => index >= 0);
  go(unanswered.find((index) => index >= from) ?? unanswered[0] ?? from);
}
if (address.has("undone") && undoForm) {
  // Undoing is a change as well: what is left to undo of this incident has its revision now.
  const { number, revision } = { number: undoForm.dataset.number, revision: undoForm.elements.revision.value };
  remember(answered().map((entry) => (entry.number === number ? { ...entry, revision } : entry)));
  go(Math.max(0, indexOf(number)));
}
if (change && address.has("field")) focusField([address.get("state"), address.get("field")]);
