// The interactive chart of a page. The server describes it (figure.json) and has drawn the same as SVG: this program hands
// the description to plotly.js when the chart comes near the screen, and keeps what is looked at in the address.

const figure = document.querySelector("figure[data-figure]");
const canvas = figure.querySelector(".canvas");
const readout = figure.querySelector(".readout");
const readoutText = readout.querySelector("p");
const caption = figure.querySelector(".caption");
const panel = document.querySelector(".panel");
const coarsePointer = matchMedia("(pointer: coarse)");
const narrowScreen = matchMedia("(max-width: 40rem)");
const HINT = coarsePointer.matches ? "Touch a commit to read it."
  : `Point at a commit to read it${panel ? ", click to pin it" : ""}; or focus the chart and walk with ← and →, ? lists the keys.`;
const DEFAULTS = { y: "auto", x: "commits" };
const VIEW_KEYS = ["from", "to", "x", "y", "pin"];
const REFETCH_AFTER_MS = 150;

new IntersectionObserver((entries, observer) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  observer.disconnect();
  (window.requestIdleCallback ?? setTimeout)(start);
}, { rootMargin: "200px" }).observe(figure);

async function start() {
  try {
    const chart = new Chart();
    const [drawn] = await Promise.all([chart.fetchDrawn(), loadScript(figure.dataset.plotly)]);
    if (drawn.points.length) await chart.begin(drawn);
  } catch (error) {
    readout.hidden = false;
    readoutText.textContent = "The interactive chart could not be loaded; the picture above shows the same.";
    console.warn("perfci: the interactive chart could not be loaded:", error);
  }
}

function loadScript(address) {
  nonceForStyles();
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${address} did not load`));
    document.head.append(script);
  });
}

// plotly.js writes its style sheet while it runs; the page's policy lets in only what carries this page's nonce.
function nonceForStyles() {
  const nonce = document.querySelector("meta[name=style-nonce]").nonce;
  const create = document.createElement.bind(document);
  document.createElement = (name, ...rest) => {
    const element = create(name, ...rest);
    if (String(name).toLowerCase() === "style") element.nonce = nonce;
    return element;
  };
}

class Chart {
  constructor() {
    this.selected = null;
    this.request = 0;
    this.plot = document.createElement("div");
    this.plot.className = "plot";
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "application");
  }

  async begin(drawn) {
    this.drawn = drawn;
    this.plot.setAttribute("aria-label", `Chart: ${drawn.description} Walk through the commits with the arrow keys.`);
    canvas.append(this.plot);
    await Plotly.newPlot(this.plot, ...this.figure(), CONFIG);
    figure.classList.add("interactive");
    readout.hidden = false;
    readoutText.textContent = HINT;
    for (const element of document.querySelectorAll(".script-only")) element.hidden = false;
    if (!coarsePointer.matches) document.querySelector(".zoom-hint")?.classList.add("ready");
    this.plot.on("plotly_hover", (event) => this.hover(event.points[0].customdata));
    this.plot.on("plotly_click", (event) => this.pin(event.points[0].customdata));
    this.plot.on("plotly_relayout", (change) => this.relayout(change));
    this.plot.on("plotly_doubleclick", () => this.look({ from: "", to: "" }));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("wheel", (event) => this.wheel(event), { passive: false, capture: true });
    document.addEventListener("click", (event) => this.click(event));
    document.addEventListener("keydown", (event) => { if (event.key === "Escape" && panel && this.pinned()) this.unpin(); });
    addEventListener("popstate", () => this.reload());
    new MutationObserver(() => this.draw()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    let width = canvas.clientWidth;
    new ResizeObserver(() => {
      if (canvas.clientWidth === width) return;
      width = canvas.clientWidth;
      this.later(() => this.reload());
    }).observe(canvas);
    this.ringAt(this.indexOf(this.pinned()));
  }

  // What is looked at is the query of the address; only the width is the browser's own.
  async fetchDrawn() {
    const mine = ++this.request;
    const address = new URL(figure.dataset.figure, location.href);
    for (const name of VIEW_KEYS) {
      const value = new URLSearchParams(location.search).get(name);
      if (value) address.searchParams.set(name, value);
    }
    for (const [name, value] of new URLSearchParams(location.search)) {
      if (figure.dataset.query?.split(" ").includes(name)) address.searchParams.append(name, value);
    }
    address.searchParams.set("width", String(Math.round(canvas.clientWidth)));
    address.searchParams.set("height", String(Math.round(canvas.clientHeight)));
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`${address.pathname} answered ${answer.status}`);
    const drawn = await answer.json();
    if (mine !== this.request) throw new Stale();
    return drawn;
  }

  async reload() {
    canvas.classList.add("loading");
    try {
      this.drawn = await this.fetchDrawn();
      await this.draw();
      if (caption) caption.textContent = this.drawn.caption;
      this.markControls();
    } catch (error) {
      if (error instanceof Stale) return;
      readoutText.textContent = "The chart could not be loaded for this range; what is drawn is the last one.";
      console.warn("perfci:", error);
    }
    canvas.classList.remove("loading");
  }

  later(action) {
    clearTimeout(this.timer);
    this.timer = setTimeout(action, REFETCH_AFTER_MS);
  }

  look(changes) {
    const address = new URL(location.href);
    for (const [name, value] of Object.entries(changes)) {
      if (value && value !== DEFAULTS[name]) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    history.replaceState(history.state, "", readable(address));
    this.markControls();
    this.carryView();
    return this.reload();
  }

  // Links to this page in other formats or with an overlay, and what is shared of it, show what is looked at now.
  carryView() {
    const view = new URLSearchParams(location.search);
    for (const anchor of document.querySelectorAll("a[href]:not([data-view])")) {
      const address = new URL(anchor.href, location.href);
      if (!isOfThisPage(address)) continue;
      for (const name of VIEW_KEYS) {
        if (view.has(name)) address.searchParams.set(name, view.get(name));
        else address.searchParams.delete(name);
      }
      anchor.href = readable(address);
    }
    const shared = document.querySelector(".share code");
    if (shared) shared.textContent = location.href;
    const target = document.querySelector(".share input[name=target]");
    if (target) target.value = `${location.pathname}${location.search}`;
  }

  markControls() {
    const query = new URLSearchParams(location.search);
    for (const link of document.querySelectorAll("[data-view]")) {
      const { view, value } = link.dataset;
      const current = query.get(view) ?? DEFAULTS[view] ?? "";
      const isCurrent = view === "from" ? current === value && !query.get("to") : current === value;
      if (isCurrent) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  draw() {
    return Plotly.react(this.plot, ...this.figure(), CONFIG).then(() => this.ringAt(this.selected ?? this.indexOf(this.pinned())));
  }

  figure() {
    const tone = paletteReader();
    const { data, layout } = resolveColours(this.drawn.figure, tone);
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 11 };
    layout.dragmode = coarsePointer.matches ? false : "zoom";
    return [data, layout];
  }

  trace(name) {
    return this.drawn.figure.names.indexOf(name);
  }

  // The place of a point: dots first, failures after them.
  place(index) {
    for (const [k, name] of this.drawn.figure.names.entries()) {
      if (name !== "dots" && name !== "failures") continue;
      const trace = this.drawn.figure.data[k];
      const at = trace.customdata.indexOf(index);
      if (at >= 0) return { x: trace.x[at], y: trace.y[at], yaxis: name === "failures" ? "y2" : "y" };
    }
    return null;
  }

  ringAt(index) {
    const place = index === null || index < 0 ? null : this.place(index);
    const ring = { x: [place ? [place.x] : []], y: [place ? [place.y] : []], yaxis: place?.yaxis ?? "y" };
    return Plotly.restyle(this.plot, ring, [this.trace("ring")]);
  }

  indexOf(sha) {
    return sha ? this.drawn.points.findIndex((point) => point.sha.startsWith(sha)) : -1;
  }

  pinned() {
    return new URLSearchParams(location.search).get("pin");
  }

  hover(index) {
    if (index === undefined || index < 0) return;
    this.read(index, !this.pinned());
  }

  read(index, withRing = true) {
    const point = this.drawn.points[index];
    if (!point) return;
    if (withRing) { this.selected = index; this.ringAt(index); }
    const value = document.createElement("b");
    value.textContent = point.text;
    const name = this.drawn.lines[point.line];
    const parts = [document.createTextNode(name ? `${name}: ` : ""), value, document.createTextNode(point.facts ? ` (${point.facts}) · ` : " · "), link(commitPage(point.sha), `${point.sha.slice(0, 7)} ${point.subject}`)];
    if (point.by) parts.push(document.createTextNode(` · ${point.by}`));
    readoutText.replaceChildren(...parts);
  }

  async pin(index) {
    const point = this.drawn.points[index];
    if (!point || !panel || point.line) return; // the panel is of the first line
    this.selected = index;
    this.setPin(point.sha.slice(0, 10));
    this.read(index);
    const mine = this.pinning = (this.pinning ?? 0) + 1;
    const address = new URL(figure.dataset.panel, location.href);
    address.searchParams.set("pin", point.sha);
    try {
      const answer = await fetch(address);
      if (!answer.ok) throw new Error(`${address.pathname} answered ${answer.status}`);
      const html = await answer.text();
      if (mine !== this.pinning) return;
      // our own template, which escapes what people wrote
      panel.innerHTML = html;
      for (const element of panel.querySelectorAll(".script-only")) element.hidden = false;
    } catch (error) {
      panel.textContent = "This commit could not be loaded.";
      console.warn("perfci:", error);
    }
  }

  setPin(sha) {
    const address = new URL(location.href);
    if (sha) address.searchParams.set("pin", sha);
    else address.searchParams.delete("pin");
    history.replaceState(history.state, "", readable(address));
    this.carryView();
  }

  unpin() {
    this.pinning = (this.pinning ?? 0) + 1;
    this.setPin("");
    this.selected = null;
    this.ringAt(null);
    const hint = document.createElement("p");
    hint.className = "muted hint";
    hint.textContent = "Click a commit to pin it here.";
    panel?.replaceChildren(hint);
  }

  relayout(change) {
    const range = change["xaxis.range"] ?? ("xaxis.range[0]" in change ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : null);
    if (range) this.zoom(range);
  }

  // The commits at the ends of a range become those of the address.
  zoom([low, high]) {
    const inside = [], near = 3 * (high - low) / this.plot._fullLayout.xaxis._length;
    for (const [index, point] of this.drawn.points.entries()) {
      const place = this.place(index);
      if (place && place.x >= low - near && place.x <= high + near) inside.push({ x: place.x, point });
    }
    if (!inside.length) return this.later(() => this.reload());
    inside.sort((one, other) => one.x - other.x);
    const [first, last] = [inside[0].point, inside.at(-1).point];
    this.later(() => this.look({ from: first.first ?? first.sha.slice(0, 10), to: last.last ?? last.sha.slice(0, 10) }));
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    const { xaxis } = this.plot._fullLayout;
    const [low, high] = xaxis.range;
    const at = xaxis.p2l(event.clientX - this.plot.getBoundingClientRect().left - xaxis._offset);
    const factor = event.deltaY < 0 ? 0.7 : 1 / 0.7;
    const range = [at - (at - low) * factor, at + (high - at) * factor];
    if (factor > 1 && !new URLSearchParams(location.search).get("from")) return;
    if (factor > 1) return this.zoomOut();
    Plotly.relayout(this.plot, { "xaxis.range": range });
  }

  // Further out than what is loaded only the server can look: it shows all.
  zoomOut() {
    this.later(() => this.look({ from: "", to: "" }));
  }

  click(event) {
    const view = event.target.closest?.("a[data-view]");
    if (view && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      const changes = view.dataset.view === "from" ? { from: view.dataset.value, to: "" } : { [view.dataset.view]: view.dataset.value };
      this.look(changes);
    }
    if (event.target.closest?.("[data-tool=unpin]")) this.unpin();
    if (event.target.closest?.("[data-tool=help]")) document.querySelector("#chart-keys").showModal();
  }

  order() {
    return this.drawn.points.map((point, index) => ({ index, x: this.place(index)?.x ?? 0 })).sort((one, other) => one.x - other.x).map((entry) => entry.index);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const order = this.order();
    const at = this.selected === null ? order.length : order.indexOf(this.selected);
    const isChange = (k) => this.drawn.changes.includes(this.drawn.points[order[k]]?.sha);
    const changes = order.map((_, k) => k).filter(isChange);
    const steps = {
      ArrowLeft: event.shiftKey ? changes.filter((k) => k < at).at(-1) : at - 1,
      ArrowRight: event.shiftKey ? changes.find((k) => k > at) : at + 1,
      Home: 0,
      End: order.length - 1,
    };
    const query = new URLSearchParams(location.search);
    const toggles = { l: "log", z: "zero" };
    const name = event.key.toLowerCase();
    if (event.key in steps && steps[event.key] !== undefined) {
      event.preventDefault();
      this.read(order[Math.max(0, Math.min(order.length - 1, steps[event.key]))]);
    } else if (event.key === "Enter" && this.selected !== null) {
      location.assign(commitPage(this.drawn.points[this.selected].sha));
    } else if (name === "p" && this.selected !== null) {
      this.pin(this.selected);
    } else if (name in toggles && document.querySelector(`[data-view=y][data-value=${toggles[name]}]`)) {
      this.look({ y: query.get("y") === toggles[name] ? "" : toggles[name] });
    } else if (event.key === "0") {
      this.look({ from: "", to: "" });
    } else if (event.key === "?") {
      document.querySelector("#chart-keys")?.showModal();
    } else if (event.key === "Escape" && !this.pinned()) {
      this.plot.blur();
    }
  }
}

class Stale extends Error {}

const CONFIG = {
  displayModeBar: false, displaylogo: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false,
  showSendToCloud: false, plotlyServerURL: "", topojsonURL: "",
};

// Whether an address is that of this page, perhaps in another format, and means the same series.
function isOfThisPage(address) {
  const { origin, pathname } = location;
  if (address.origin !== origin || !address.pathname.startsWith(pathname)) return false;
  if (!/^(\.[a-z]+)?$/.test(address.pathname.slice(pathname.length))) return false;
  const identity = (query) => [...query].filter(([name]) => !VIEW_KEYS.includes(name) && name !== "overlay").map(String).sort().join("&");
  return identity(address.searchParams) === identity(new URLSearchParams(location.search));
}

// Slashes, colons and commas may stand in a query as they are, and read better.
function readable(address) {
  return address.href.replace(/%2F/g, "/").replace(/%3A/g, ":").replace(/%2C/g, ",");
}

function link(address, text) {
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.textContent = text.trim();
  return anchor;
}

const commitPage = (sha) => `${figure.dataset.project}/commit/${segment(sha)}`;

// A name as a segment of an address, as encode_segment of perfci/net/url_segments.py writes it.
function segment(name) {
  const hex = (byte) => `~${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  return name.replace(/[^A-Za-z0-9._-]/gu, (character) => character === "/" ? ":" : [...new TextEncoder().encode(character)].map(hex).join(""));
}

// Colours of the description are names of the palette: "$worse".
function paletteReader() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

function resolveColours(value, tone) {
  if (Array.isArray(value)) return value.map((item) => resolveColours(item, tone));
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, key === "text" ? item : resolveColours(item, tone)]));
  return typeof value === "string" && value.startsWith("$") ? tone(value.slice(1)) : value;
}
