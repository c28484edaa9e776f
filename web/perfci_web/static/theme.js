// Light or dark: the system decides until the reader does; the choice is a cookie, so the server can draw it at once.
const root = document.documentElement;
const button = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");

const current = () => root.dataset.theme || (system.matches ? "dark" : "light");

function label() {
  button.textContent = current() === "dark" ? "Light" : "Dark";
  button.setAttribute("aria-label", `Switch to ${current() === "dark" ? "light" : "dark"} colours`);
}

button.addEventListener("click", () => {
  root.dataset.theme = current() === "dark" ? "light" : "dark";
  document.cookie = `perfci-theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
  label();
});
system.addEventListener("change", label);
label();
button.hidden = false;
