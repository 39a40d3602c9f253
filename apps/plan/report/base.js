// Shared by all parts of the page: the data, element builders, number formats, the tooltip.
const report = JSON.parse(document.getElementById("report-data").textContent);
const byId = (id) => document.getElementById(id);

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  for (const child of children) if (child !== null) node.append(child);
  return node;
}
const el = (name, attributes, ...children) => build(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const color = (name) => `var(--${name})`;
const swatch = (name, thin) =>
  el("i", { class: thin ? "swatch thin" : "swatch", style: `background:${color(name)}` });
const legend = (id, entries) => byId(id).replaceChildren(
  ...entries.map(([name, text, thin]) => el("span", {}, swatch(name, thin), text)));

const grouped = (n) => Math.round(n).toLocaleString("en-US");
function bytesText(bytes, digits = 3) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let value = bytes;
  for (; Math.abs(value) >= 1024 && unit + 1 < units.length; unit++) value /= 1024;
  return `${unit === 0 ? value : value.toFixed(digits)} ${units[unit]}`;
}
function timeText(us) {
  if (us === 0) return "0";
  if (us >= 1e6) return `${(us / 1e6).toFixed(3)} s`;
  return us >= 1e3 ? `${(us / 1e3).toFixed(3)} ms` : `${us.toFixed(us >= 10 ? 1 : 2)} µs`;
}
const percentText = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(1)}%` : "0%");
const plural = (n, one, many = one + "s") => `${grouped(n)} ${n === 1 ? one : many}`;

// Round numbers that divide [from, to] into about `count` parts; for bytes, multiples of a power of two.
function ticks(from, to, count, binary = false) {
  const raw = Math.max((to - from) / count, Number.MIN_VALUE);
  let step;
  if (binary) {
    step = 2 ** Math.ceil(Math.log2(raw));
  } else {
    const power = 10 ** Math.floor(Math.log10(raw));
    step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  }
  const marks = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) marks.push(i * step);
  return marks;
}

// Rows are [label, value] or [label, value, color]; null is a line between them.
const tip = {
  show(event, title, rows) {
    const box = byId("tip");
    box.replaceChildren(el("b", {}, title), ...rows.map((row) => (row === null ? el("hr") : el("div", {},
      el("span", {}, row[2] ? swatch(row[2]) : null, row[0]), el("span", {}, row[1])))));
    box.hidden = false;
    const right = event.clientX + 18 + box.offsetWidth > innerWidth;
    box.style.left = `${Math.max(4, right ? event.clientX - box.offsetWidth - 18 : event.clientX + 18)}px`;
    box.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8))}px`;
  },
  hide() { byId("tip").hidden = true; },
};

const stepOf = (run) => report.steps[run.step];
const runName = (run) => `${stepOf(run).layer} ${stepOf(run).phase}`;
const runTitle = (run) => (run.recompute ? `${runName(run)} again, for step ${run.serves + 1}`
  : `step ${run.step + 1}: ${runName(run)}`);
function runKind(run) {
  if (run.recompute) return "again";
  const phase = stepOf(run).phase;
  return phase === "forward" || phase === "update" ? phase : "backward";
}

// Legend entries for the kinds of steps that occur.
const kKinds = [["forward", "forward"], ["backward", "backward"], ["update", "update"], ["again", "recomputation"]];
const kindEntries = (thin) => kKinds
  .filter(([kind]) => report.runs.some((run) => runKind(run) === kind)).map(([kind, text]) => [kind, text, thin]);

// The step under the mouse, marked in every chart; listeners are called with a run index or null.
const cursor = {
  listeners: [],
  set(run) { for (const listener of this.listeners) listener(run); },
};
