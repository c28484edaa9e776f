// "/" goes to the search box, unless single keys are off in this browser; a changed lens shows its page at once.
const find = document.getElementById("find");
const isTyping = (target) => target.closest("textarea, select, input:not([type=checkbox]), dialog") !== null;

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || !find || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (localStorage.getItem("perfci-keys") === "off") return;
  event.preventDefault();
  find.select();
});

const more = document.querySelector("details.more");
document.addEventListener("click", (event) => {
  if (more && !more.contains(event.target)) more.open = false;
});
more?.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  more.open = false;
  more.querySelector("summary").focus();
});

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "Copied";
  });
}
