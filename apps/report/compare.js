// Several plans of the same program, a line each: memory and live tensors step by step, as in the
// SuperNeurons paper's Figure 10.
function drawLines(id, series, valuesOf, text, binary) {
  const chart = byId(id);
  const left = 66, right = 12, height = 250, upper = 12, bottom = 26;
  const steps = Math.max(...series.map((plan) => valuesOf(plan).length));
  const top = 1.08 * Math.max(1, ...series.map((plan) => Math.max(...valuesOf(plan))));
  let width = 0;
  const xOf = (i) => left + ((i + 0.5) / steps) * (width - left - right);
  const yOf = (value) => upper + (height - upper - bottom) * (1 - value / top);
  const marker = svg("line", { class: "cursor", y1: upper, y2: height - bottom, visibility: "hidden" });

  function draw() {
    width = Math.max(300, chart.clientWidth);
    const root = svg("svg", { height, role: "img" });
    for (const mark of ticks(0, top, 5, binary)) {
      root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: yOf(mark), y2: yOf(mark) }),
        svg("text", { x: left - 8, y: yOf(mark) + 4, "text-anchor": "end" }, text(mark, 1)));
    }
    for (const mark of ticks(1, steps, 8)) {
      root.append(svg("text", { x: xOf(mark - 1), y: height - 8, "text-anchor": "middle" }, mark));
    }
    series.forEach((plan, k) => {
      const values = valuesOf(plan);
      const points = values.map((value, i) => `${xOf(i).toFixed(1)},${yOf(value).toFixed(1)}`);
      const peak = values.indexOf(Math.max(...values));
      root.append(svg("polyline", { points: points.join(" "), fill: "none", stroke: color(`line-${k % 9}`),
        "stroke-width": 2, "stroke-linejoin": "round", "data-policy": plan.policy }),
      svg("circle", { cx: xOf(peak), cy: yOf(values[peak]), r: 4, fill: color(`line-${k % 9}`),
        stroke: color("card"), "stroke-width": 1.5 }));
    });
    root.append(marker);
    chart.replaceChildren(root);
  }
  chart.addEventListener("pointermove", (event) => {
    const x = event.clientX - chart.getBoundingClientRect().left;
    const i = Math.min(steps - 1, Math.max(0, Math.floor(((x - left) / (width - left - right)) * steps)));
    for (const end of ["x1", "x2"]) marker.setAttribute(end, xOf(i));
    marker.setAttribute("visibility", "visible");
    const { layer, phase } = report.steps[i];
    tip.show(event, `step ${i + 1}: ${layer} ${phase}`, series.map((plan, k) =>
      [plan.policy, text(valuesOf(plan)[i], 3), `line-${k % 9}`]));
  });
  chart.addEventListener("pointerleave", () => { tip.hide(); marker.setAttribute("visibility", "hidden"); });
  new ResizeObserver(draw).observe(chart);
  draw();
}

function drawComparison() {
  const series = report.comparison;
  if (series.length < 2) return;
  byId("compare").hidden = false;
  byId("compare-note").textContent = report.plan.accounting === "paper"
    ? "The same steps under each policy, counted as the SuperNeurons paper counts (its Figure 10). Dots mark the peaks."
    : "The same steps under each policy. Dots mark the peaks. A step counts what is rebuilt for it.";
  const peakText = (plan) => {
    const peak = Math.max(...plan.live_bytes);
    const bytes = report.plan.accounting === "paper" ? `${(peak / 2 ** 20).toFixed(3)} MiB` : bytesText(peak);
    return `${bytes} at step ${plan.live_bytes.indexOf(peak) + 1}`;
  };
  legend("compare-legend", series.map((plan, k) => [`line-${k % 9}`, `${plan.policy}: ${peakText(plan)}` +
    (plan.peak_bytes > report.plan.budget_bytes ? ", over the budget" : ""), true]));
  drawLines("compare-bytes", series, (plan) => plan.live_bytes, bytesText, true);
  drawLines("compare-tensors", series, (plan) => plan.live_tensors, (n) => grouped(n), false);
}
