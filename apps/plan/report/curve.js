// Predicted speed against budget, one line for each policy. Budgets rise by about the same ratio, so the axis is
// logarithmic, and its marks are the budgets that were planned.
const gibText = (bytes) => `${Number((bytes / 2 ** 30).toPrecision(4))}`;
const speedText = (speed) => (speed === null ? "does not fit" : `${Number(speed.toPrecision(4))} images/s`);

class CurveChart extends Lines {
  left = 82;
  right = 24;
  upper = 12;
  bottom = 44;
  height = 320;

  constructor(id, hidden) {
    super();
    Object.assign(this, { chart: byId(id), hidden, budgets: report.curve.budgets_bytes });
    this.start();
  }

  x(bytes) {
    const [first, last] = [this.budgets[0], this.budgets[this.budgets.length - 1]].map(Math.log);
    return this.left + (this.plot * (Math.log(bytes) - first)) / Math.max(last - first, 1e-9);
  }
  shown() { return report.curve.policies.map((line, k) => [line, k]).filter(([line]) => !this.hidden.has(line)); }

  draw() {
    this.plot = Math.max(300, this.chart.clientWidth) - this.left - this.right;
    this.top = 1.08 * Math.max(1e-9, ...this.shown().flatMap(([line]) => line.points.map((p) => p.images_per_second)));
    const root = svg("svg", { height: this.height, role: "img", "aria-label": "predicted images/s against budget" });
    this.drawAxes(root);
    for (const [line, k] of this.shown()) this.drawLine(root, line, k);
    root.append(this.marker);
    this.chart.replaceChildren(root);
  }

  drawAxes(root) {
    for (const mark of ticks(0, this.top, 5)) {
      const y = this.y(mark);
      root.append(svg("line", { class: "grid", x1: this.left, x2: this.left + this.plot, y1: y, y2: y }),
        svg("text", { x: this.left - 8, y: y + 4, "text-anchor": "end" }, grouped(mark)));
    }
    let end = -Infinity;  // of the last label
    for (const bytes of this.budgets) {
      const x = this.x(bytes);
      root.append(svg("line", { class: "grid", x1: x, x2: x, y1: this.upper, y2: this.height - this.bottom }));
      if (x - end < 40) continue;
      end = x;
      root.append(svg("text", { x, y: this.height - 26, "text-anchor": "middle" }, gibText(bytes)));
    }
    const middle = this.upper + (this.height - this.upper - this.bottom) / 2;
    root.append(
      svg("text", { x: this.left + this.plot / 2, y: this.height - 6, "text-anchor": "middle" }, "budget, GiB"),
      svg("text", { transform: `translate(14 ${middle}) rotate(-90)`, "text-anchor": "middle" }, "predicted images/s"));
  }

  drawLine(root, line, k) {
    const points = line.points.filter((point) => point.images_per_second !== null)
      .map((point) => [this.x(point.budget_bytes), this.y(point.images_per_second)]);
    root.append(svg("polyline", { points: points.map((at) => at.map((v) => v.toFixed(1)).join(",")).join(" "),
      ...lineStyle(k), "data-curve": line.policy, "data-points": points.length }));
    for (const [cx, cy] of points) root.append(svg("circle", { cx, cy, r: 2.5, fill: color(lineColor(k)) }));
  }

  describe(event) {
    const at = event.clientX - this.chart.getBoundingClientRect().left;
    const distance = (bytes) => Math.abs(this.x(bytes) - at);
    const i = this.budgets.reduce((best, bytes, j) => (distance(bytes) < distance(this.budgets[best]) ? j : best), 0);
    this.mark(this.x(this.budgets[i]));
    tip.show(event, `a budget of ${bytesText(this.budgets[i])}`,
      this.shown().map(([line, k]) => [line.policy, speedText(line.points[i].images_per_second), lineColor(k)]));
  }
}

function drawCurve() {
  if (report.curve === null) return;
  byId("curve").hidden = false;
  const hidden = new Set();
  const chart = new CurveChart("curve-chart", hidden);
  lineLegend("curve-legend", report.curve.policies.map((line) =>
    [line, `${line.policy}: from ${bytesText(line.minimum_budget_bytes)}`]), hidden, () => chart.draw());
}
