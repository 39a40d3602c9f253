// Several plans of the same program, one line each: memory and live tensors step by step, as in the
// SuperNeurons paper's Figure 10. A click on a policy hides its line or shows it again.
const kLineColors = 9;
const lineColor = (k) => `line-${k % kLineColors}`;
const lineStyle = (k) => ({ fill: "none", stroke: color(lineColor(k)), "stroke-width": 2, "stroke-linejoin": "round",
  "stroke-dasharray": k < kLineColors ? "none" : "6 3" });
const dashedSwatch = (name) => el("i", { class: "swatch thin",
  style: `background:repeating-linear-gradient(90deg, ${color(name)} 0 6px, transparent 6px 9px)` });

// A chart of lines, whose draw() draws it, and whose describe(event) tells what is under the pointer and marks it.
class Lines {
  start() {
    this.marker = svg("line", { class: "cursor", y1: this.upper, y2: this.height - this.bottom, visibility: "hidden" });
    this.chart.addEventListener("pointermove", (event) => this.describe(event));
    this.chart.addEventListener("pointerleave", () => {
      tip.hide();
      this.marker.setAttribute("visibility", "hidden");
    });
    new ResizeObserver(() => this.draw()).observe(this.chart);
    this.draw();
  }

  mark(x) {
    for (const end of ["x1", "x2"]) this.marker.setAttribute(end, x);
    this.marker.setAttribute("visibility", "visible");
  }

  y(value) { return this.upper + (this.height - this.upper - this.bottom) * (1 - value / this.top); }
}

class LineChart extends Lines {
  left = 66;
  right = 12;
  upper = 12;
  bottom = 26;
  height = 250;

  constructor(id, hidden, valuesOf, text, binary) {
    super();
    Object.assign(this, { chart: byId(id), hidden, valuesOf, text, binary });
    this.steps = report.steps.length;
    this.start();
  }

  x(step) { return this.left + ((step + 0.5) / this.steps) * this.plot; }
  shown() { return report.comparison.map((plan, k) => [plan, k]).filter(([plan]) => !this.hidden.has(plan)); }

  draw() {
    this.plot = Math.max(300, this.chart.clientWidth) - this.left - this.right;
    this.top = 1.08 * this.shown().reduce((top, [plan]) => Math.max(top, ...this.valuesOf(plan)), 1);
    const root = svg("svg", { height: this.height, role: "img", "aria-label": "policies compared" });
    for (const mark of ticks(0, this.top, 5, this.binary)) {
      const y = this.y(mark);
      root.append(svg("line", { class: "grid", x1: this.left, x2: this.left + this.plot, y1: y, y2: y }),
        svg("text", { x: this.left - 8, y: y + 4, "text-anchor": "end" }, this.text(mark, 1)));
    }
    for (const mark of ticks(1, this.steps, 8)) {
      root.append(svg("text", { x: this.x(mark - 1), y: this.height - 8, "text-anchor": "middle" }, mark));
    }
    for (const [plan, k] of this.shown()) this.drawLine(root, plan, k);
    root.append(this.marker);
    this.chart.replaceChildren(root);
  }

  drawLine(root, plan, k) {
    const values = this.valuesOf(plan);
    const peak = values.indexOf(Math.max(...values));
    const points = values.map((value, i) => `${this.x(i).toFixed(1)},${this.y(value).toFixed(1)}`).join(" ");
    root.append(svg("polyline", { points, ...lineStyle(k), "data-policy": plan.policy }),
    svg("circle", { cx: this.x(peak), cy: this.y(values[peak]), r: 4, fill: color(lineColor(k)),
      stroke: color("card"), "stroke-width": 1.5 }));
  }

  describe(event) {
    const x = event.clientX - this.chart.getBoundingClientRect().left - this.left;
    const step = Math.min(this.steps - 1, Math.max(0, Math.floor((x / this.plot) * this.steps)));
    this.mark(this.x(step));
    const { layer, phase } = report.steps[step];
    tip.show(event, `step ${step + 1}: ${layer} ${phase}`,
      this.shown().map(([plan, k]) => [plan.policy, this.text(this.valuesOf(plan)[step], 3), lineColor(k)]));
  }
}

function peakText(plan) {
  const peak = Math.max(...plan.live_bytes);
  const bytes = report.plan.accounting === "paper" ? `${(peak / 2 ** 20).toFixed(3)} MiB` : bytesText(peak);
  const over = plan.over_budget ? ", over the budget" : "";
  return `${plan.policy}: ${bytes} at step ${plan.live_bytes.indexOf(peak) + 1}${over}`;
}

// Entries are [line, text], one for each line of a chart. `hidden` has the lines that are not drawn; a click hides a
// line or shows it again.
function lineLegend(id, entries, hidden, draw) {
  byId(id).replaceChildren(...entries.map(([line, text], k) => {
    const entry = el("button", { type: "button", class: "entry", "aria-pressed": "true" },
      k < kLineColors ? swatch(lineColor(k), true) : dashedSwatch(lineColor(k)), text);
    entry.addEventListener("click", () => {
      if (!hidden.delete(line)) hidden.add(line);
      entry.setAttribute("aria-pressed", !hidden.has(line));
      draw();
    });
    return entry;
  }));
}

function drawComparison() {
  if (report.comparison.length < 2 || report.steps.length === 0) return;
  byId("compare").hidden = false;
  byId("compare-note").textContent = "The same steps under each policy" + (report.plan.accounting === "paper"
    ? ", counted as the SuperNeurons paper counts (its Figure 10)." : ".") +
    " A step includes what is recomputed for it. Dots mark the peaks; click a policy to hide or show its line.";
  const hidden = new Set();
  const charts = [new LineChart("compare-bytes", hidden, (plan) => plan.live_bytes, bytesText, true),
    new LineChart("compare-tensors", hidden, (plan) => plan.live_tensors, (n) => grouped(n), false)];
  lineLegend("compare-legend", report.comparison.map((plan) => [plan, peakText(plan)]), hidden,
    () => charts.forEach((chart) => chart.draw()));
}
