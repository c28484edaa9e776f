// The interactive chart of a series page. The server has drawn the same chart as SVG: this one replaces it when it
// comes near the screen, and if anything fails the SVG stays.

const figure = document.querySelector("figure[data-figure]");
const canvas = figure.querySelector(".canvas");
const readout = figure.querySelector(".readout");
const readoutText = readout.querySelector("p");
const coarsePointer = matchMedia("(pointer: coarse)");
const HINT = coarsePointer.matches ? "Touch a commit to read it."
  : "Point at a commit, or focus the chart and walk with ← and →; Shift jumps between changes, Enter opens.";

new IntersectionObserver((entries, observer) => {
  if (!entries.some((entry) => entry.isIntersecting)) return;
  observer.disconnect();
  (window.requestIdleCallback ?? setTimeout)(start);
}, { rootMargin: "200px" }).observe(figure);

async function start() {
  try {
    const [series] = await Promise.all([fetchJson(figure.dataset.figure), loadScript(figure.dataset.plotly)]);
    if (series.points.some((point) => point.value !== null)) await new Chart(series).begin();
  } catch (error) {
    readout.hidden = false;
    readoutText.textContent = "The interactive chart could not be loaded; the picture above shows the same.";
    readout.querySelector(".tools").hidden = true;
    console.warn("perfci: the interactive chart could not be loaded:", error);
  }
}

async function fetchJson(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${address} answered ${answer.status}`);
  return answer.json();
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
  constructor(series) {
    this.series = series;
    this.points = series.points;
    this.factor = series.scale.factor;
    this.startsAtZero = false;
    this.selectedIndex = null;
    this.plotElement = document.createElement("div");
    this.plotElement.className = "plot";
    this.plotElement.tabIndex = 0;
    this.plotElement.setAttribute("role", "application");
    this.plotElement.setAttribute("aria-label", `Chart: ${series.sentence} Walk through the commits with the arrow keys.`);
  }

  async begin() {
    canvas.append(this.plotElement);
    await Plotly.newPlot(this.plotElement, this.traces(), this.layout(), CONFIG);
    figure.classList.add("interactive");
    readout.hidden = false;
    readoutText.textContent = HINT;
    this.listen();
  }

  listen() {
    this.plotElement.on("plotly_hover", (event) => this.show(event.points[0].customdata));
    this.plotElement.on("plotly_click", (event) => this.show(event.points[0].customdata));
    this.plotElement.on("plotly_relayout", (change) => this.relabel(change));
    this.plotElement.addEventListener("keydown", (event) => this.handleKey(event));
    figure.querySelector("[data-tool=zero]").addEventListener("click", (event) => {
      this.startsAtZero = !this.startsAtZero;
      event.currentTarget.setAttribute("aria-pressed", String(this.startsAtZero));
      this.draw();
    });
    figure.querySelector("[data-tool=reset]").addEventListener("click", () => this.draw());
    const redraw = () => this.draw();
    new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    matchMedia("(max-width: 40rem)").addEventListener("change", redraw);
  }

  draw() {
    return Plotly.react(this.plotElement, this.traces(), this.layout(), CONFIG);
  }

  scaled(value) {
    return value / this.factor;
  }

  traces() {
    const tone = colours();
    const measured = this.points.filter((point) => point.value !== null);
    const failed = this.points.filter((point) => point.value === null);
    const ring = this.selectedIndex === null ? [] : [this.points[this.selectedIndex]];
    return [
      this.band(tone),
      ...this.levels(tone),
      scatterTrace(measured, (point) => this.scaled(point.value), { color: tone.dot, size: Math.max(4, Math.min(7, 0.75 * canvas.clientWidth / this.points.length)) }),
      scatterTrace(ring.filter((point) => point.value !== null), (point) => this.scaled(point.value), {
        symbol: "circle-open", color: tone.ink, size: 13, line: { width: 2 },
      }),
      scatterTrace(failed, () => 0, { symbol: "x-thin-open", color: failed.map((point) => point.status === "skipped" ? tone.muted : tone.worse), size: 7, line: { width: 1.5 } }, "y2"),
      scatterTrace(ring.filter((point) => point.value === null), () => 0, {
        symbol: "circle-open", color: tone.ink, size: 14, line: { width: 2 },
      }, "y2"),
      this.flags(tone),
    ];
  }

  band(tone) {
    const x = [], y = [];
    for (const run of this.levelRuns()) {
      if (x.length) { x.push(null); y.push(null); }
      const there = run.filter((point) => point.q25 !== null);
      const back = [...there].reverse();
      x.push(...there.map((point) => point.index), ...back.map((point) => point.index), there[0].index);
      y.push(...there.map((point) => this.scaled(point.q75)), ...back.map((point) => this.scaled(point.q25)), this.scaled(there[0].q75));
    }
    return { x, y, type: "scatter", mode: "lines", fill: "toself", fillcolor: tone.band, line: { width: 0, color: tone.band }, hoverinfo: "skip" };
  }

  // Runs of neighbouring measured commits that share a level.
  levelRuns() {
    const edges = new Set(this.changes().map((change) => change.index));
    const runs = [[]];
    for (const point of this.points) {
      if (point.value === null || edges.has(point.index)) runs.push([]);
      if (point.value !== null) runs.at(-1).push(point);
    }
    return runs.filter((run) => run.length);
  }

  changes() {
    return this.series.changes.filter((change) => change.state !== "refuted");
  }

  levels(tone) {
    const last = this.points.at(-1).index;
    const x = [], y = [], riseX = [], riseY = [];
    this.series.levels.forEach((level, k) => {
      const from = level.first ? level.first - 0.5 : -0.4;
      const to = level.last < last ? level.last + 0.5 : last + 0.4;
      x.push(from, to, null);
      y.push(this.scaled(level.value), this.scaled(level.end), null);
      if (k) {
        riseX.push(from, from, null);
        riseY.push(this.scaled(this.series.levels[k - 1].end), this.scaled(level.value), null);
      }
    });
    const line = { type: "scatter", mode: "lines", hoverinfo: "skip" };
    return [
      { ...line, x: riseX, y: riseY, line: { color: tone.level, width: 1, dash: "dot" } },
      { ...line, x, y, line: { color: tone.level, width: 2 } },
    ];
  }

  flags(tone) {
    const changes = this.series.changes;
    const colour = (change) => change.state === "refuted" ? tone.muted : change.kind === "regression" ? tone.worse : tone.better;
    const symbol = (change) => `triangle-${change.ratio > 1 ? "up" : "down"}${change.state === "confirmed" ? "" : "-open"}`;
    return {
      x: changes.map((change) => change.index),
      y: changes.map(() => 0),
      customdata: changes.map((change) => change.index),
      text: changes.map((change) => change.state === "refuted" ? "" : signed(change.ratio - 1)),
      type: "scatter", mode: "markers+text", textposition: "top center", yaxis: "y3", hoverinfo: "none", cliponaxis: false,
      textfont: { size: 12, color: changes.map(colour), weight: 600 },
      marker: { symbol: changes.map(symbol), color: changes.map(colour), size: 11, line: { width: 1.5, color: changes.map(colour) } },
    };
  }

  layout() {
    const tone = colours();
    const axis = { gridcolor: tone.grid, linecolor: tone.rule, zeroline: false, tickfont: { color: tone.muted, size: 11 } };
    const hidden = { ...axis, visible: false, fixedrange: true, range: [-1, 1] };
    const last = this.points.at(-1).index;
    const range = [-0.8, last + 0.8], values = this.values();
    return {
      margin: { l: 8, r: 28, t: 26, b: 44 },
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: tone.muted },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      showlegend: false, hovermode: "closest", hoverdistance: 40,
      dragmode: coarsePointer.matches ? false : "zoom",
      xaxis: { ...axis, range, showgrid: false, showline: true, ticks: "outside", ticklabeloverflow: "allow", tickcolor: tone.rule, anchor: "y2", ...this.ticks(range) },
      yaxis: { ...axis, domain: [0.1, 0.86], automargin: true, range: values, nticks: 6 },
      yaxis2: { ...hidden, domain: [0, 0.08] },
      yaxis3: { ...hidden, domain: [0.88, 0.98], range: [-1, 1] },
      shapes: this.shapes(tone),
      annotations: this.annotations(tone, values[0]),
    };
  }

  // From the server, so that both charts start their axis at the same value.
  values() {
    const [low, high] = this.series.axis;
    return [this.scaled(this.startsAtZero ? Math.min(0, low) : low), this.scaled(high)];
  }

  shapes(tone) {
    return this.changes().flatMap((change) => {
      const colour = change.kind === "regression" ? tone.worse : tone.better;
      const stem = { type: "line", xref: "x", yref: "paper", x0: change.index, x1: change.index, y0: 0.86, y1: 0.9, line: { color: colour, width: 1 } };
      const candidateRange = { type: "rect", xref: "x", yref: "paper", x0: change.last_good_index, x1: change.index, y0: 0.1, y1: 0.86, fillcolor: colour, opacity: 0.1, line: { width: 0 }, layer: "below" };
      return change.index - change.last_good_index > 1 ? [stem, candidateRange] : [stem];
    });
  }

  annotations(tone, low) {
    const { metric, unit, direction } = this.series.series;
    const better = direction === "lower" ? "lower is better ↓" : "higher is better ↑";
    const corner = { xref: "paper", yref: "paper", y: 1, yanchor: "bottom", yshift: 6, showarrow: false, font: { size: 11, color: tone.muted } };
    const values = this.series.levels.map((level) => ({
      x: Math.min(level.last, this.points.at(-1).index) - (level.last - level.first) / 2, y: this.scaled((level.value + level.end) / 2),
      text: escapeHtml(level.label), showarrow: false, yanchor: "bottom", yshift: 10, font: { size: 12, color: tone.ink, weight: 600 },
    }));
    return [
      { ...corner, x: 0, xanchor: "left", text: escapeHtml(`${this.series.scale.symbol || unit || metric} · ${better}`) },
      { ...corner, x: 1, xanchor: "right", text: `y starts at ${rounded(low, this.series.scale.symbol)}${this.series.scale.symbol ? ` ${escapeHtml(this.series.scale.symbol)}` : ""}` },
      ...values,
    ];
  }

  // As many commit labels below the axis as fit, of the commits in view.
  ticks(range) {
    const inView = this.points.filter((point) => point.index >= range[0] && point.index <= range[1]);
    const maxTicks = Math.max(2, Math.floor(canvas.clientWidth / 150));
    const chosen = [...new Set(Array.from({ length: Math.min(maxTicks, inView.length) }, (_, k) =>
      Math.round(k * (inView.length - 1) / Math.max(1, Math.min(maxTicks, inView.length) - 1))))].map((k) => inView[k]);
    return {
      tickvals: chosen.map((point) => point.index),
      ticktext: chosen.map((point) => `${escapeHtml(point.commit.slice(0, 7))}<br>${day(point.committed_at)}`),
    };
  }

  relabel(change) {
    if (!Object.keys(change).some((key) => key.startsWith("xaxis.range") || key.startsWith("yaxis.range") || key.includes("autorange"))) return;
    const { xaxis, yaxis } = this.plotElement.layout;
    const { tickvals, ticktext } = this.ticks(xaxis.range);
    Plotly.relayout(this.plotElement, { "xaxis.tickvals": tickvals, "xaxis.ticktext": ticktext, annotations: this.annotations(colours(), yaxis.range[0]) });
  }

  handleKey(event) {
    const position = this.selectedIndex ?? this.points.length;
    const marked = this.changes().map((change) => this.points.findIndex((point) => point.index === change.index)).filter((k) => k >= 0);
    const steps = {
      ArrowLeft: event.shiftKey ? marked.filter((k) => k < position).at(-1) : position - 1,
      ArrowRight: event.shiftKey ? marked.find((k) => k > position) : position + 1,
      Home: 0,
      End: this.points.length - 1,
    };
    if (event.key in steps && steps[event.key] !== undefined) {
      event.preventDefault();
      this.select(Math.max(0, Math.min(this.points.length - 1, steps[event.key])));
    } else if (event.key === "Enter" && this.selectedIndex !== null) {
      location.assign(commitPage(this.points[this.selectedIndex]));
    } else if (event.key === "Escape") {
      this.plotElement.blur();
    }
  }

  show(index) {
    const position = this.points.findIndex((point) => point.index === index);
    if (position >= 0) this.select(position);
  }

  select(position) {
    if (position === this.selectedIndex) return;
    this.selectedIndex = position;
    this.ring();
    this.showReadout(this.points[position], this.points.slice(0, position).reverse().find((point) => point.value !== null));
  }

  ring() {
    const point = this.points[this.selectedIndex];
    const [measured, failed] = point.value === null ? [[], [point]] : [[point], []];
    Plotly.restyle(this.plotElement, {
      x: [measured.map((point) => point.index), failed.map((point) => point.index)],
      y: [measured.map((point) => this.scaled(point.value)), failed.map(() => 0)],
      customdata: [measured.map((point) => point.index), failed.map((point) => point.index)],
    }, [4, 6]);
  }

  // Text that people wrote is added as text nodes, never as markup.
  showReadout(point, before) {
    const value = document.createElement("b");
    value.textContent = point.value_text;
    const change = this.changes().find((change) => change.index === point.index);
    const parts = [value, document.createTextNode(` ${describePoint(point, before, change)} · `), link(commitPage(point), `${point.commit.slice(0, 7)} ${point.subject}`)];
    const by = [point.author, day(point.committed_at)].filter(Boolean).join(", ");
    if (by) parts.push(document.createTextNode(` · ${by}`));
    if (before) parts.push(document.createTextNode(" · "), link(comparison(before, point), "compare with the commit before"));
    readoutText.replaceChildren(...parts);
  }
}

const CONFIG = {
  displayModeBar: false, displaylogo: false, responsive: true, scrollZoom: false, doubleClick: "reset", showTips: false,
  showSendToCloud: false, plotlyServerURL: "", topojsonURL: "",
};

function scatterTrace(points, height, marker, yaxis = "y") {
  return {
    x: points.map((point) => point.index), y: points.map(height), customdata: points.map((point) => point.index),
    type: "scatter", mode: "markers", hoverinfo: "none", yaxis, marker, cliponaxis: yaxis === "y",
  };
}

// At a change its size is that of the levels around it, which two points alone would give another number for.
function describePoint(point, before, change) {
  const facts = [];
  if (point.value === null) return point.reason ? `(${point.reason})` : "";
  if (point.merged > 1) facts.push(`median of ${point.merged} commits`);
  if (point.processes) facts.push(`${point.processes} process${point.processes === 1 ? "" : "es"}`);
  if (change) facts.push([change.sentence, change.levels_text].filter(Boolean).join(": "), ...(change.tail_text ? [change.tail_text] : []));
  else if (before?.value) facts.push(`${signed(point.value / before.value - 1)} against the commit before`);
  return facts.length ? `(${facts.join(", ")})` : "";
}

function link(address, text) {
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.textContent = text.trim();
  return anchor;
}

const commitPage = (point) => `${figure.dataset.project}/commit/${segment(point.commit)}`;
const comparison = (base, head) => `${figure.dataset.project}/compare/${segment(base.commit)}...${segment(head.commit)}`;

// A name as a segment of an address, as encode_segment of perfci/net/url_segments.py writes it.
function segment(name) {
  const hex = (byte) => `~${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  return name.replace(/[^A-Za-z0-9._-]/gu, (character) => character === "/" ? ":" : [...new TextEncoder().encode(character)].map(hex).join(""));
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "muted", "rule", "grid", "worse", "better", "dot", "band", "level"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// plotly.js reads a little HTML in its labels.
function escapeHtml(text) {
  return String(text).replace(/[<>&]/g, (character) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;" })[character]);
}

function signed(change) {
  const size = Math.abs(change) * 100;
  const text = size >= 100 ? Math.round(size).toLocaleString("en") : size.toFixed(1);
  return `${/[1-9]/.test(text) ? (change < 0 ? "−" : "+") : ""}${text} %`;
}

function rounded(value, symbol) {
  const digits = symbol === "%" ? 3 : 4;
  const written = new Intl.NumberFormat("en", { minimumSignificantDigits: digits, maximumSignificantDigits: digits });
  return value === 0 ? "0" : written.format(value).replace("-", "−");
}

function day(moment) {
  return moment ? new Date(moment).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" }) : "";
}
