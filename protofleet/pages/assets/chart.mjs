// Small charts of our own: lines over time, a share as a bar, who is taken for whom.

import { h, s } from "./page.mjs";

const WIDTH = 560, LEFT = 44, RIGHT = 12, TOP = 10, BOTTOM = 22;

// `series`: {name, points: [[x, y], ...]}; `label` says in words what is to be seen.
// A single moment has `around` on both sides of it.
export function lines({ series, label, height = 190, form = String, formX = String, low, high, around = 60 }) {
  const points = series.flatMap((one) => one.points);
  if (!points.length) return h("p", { class: "soft" }, "Nothing yet.");
  const [x0, x1] = range(points.map(([x]) => x), around);
  const [y0, y1] = range([...points.map(([, y]) => y), ...[low, high].filter((y) => y !== undefined)], 1);
  const x = (value) => LEFT + ((value - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - ((value - y0) / (y1 - y0)) * (height - TOP - BOTTOM);
  const marks = [0, 0.5, 1].map((share) => y0 + share * (y1 - y0));
  const drawing = s("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label },
    marks.map((value) => [
      s("path", { class: "axis", d: `M${LEFT} ${y(value)}H${WIDTH - RIGHT}` }),
      s("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, form(value))]),
    s("text", { x: LEFT, y: height - 5 }, formX(x0)),
    s("text", { x: WIDTH - RIGHT, y: height - 5, "text-anchor": "end" }, formX(x1)),
    series.map(({ points: own, name }, index) => [
      s("path", { class: `line s${1 + (index % 6)}`, d: own.map(([a, b], i) => `${i ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("") }),
      own.length < 40 && own.map(([a, b]) => s("circle", { class: `s${1 + (index % 6)}`, cx: x(a), cy: y(b), r: 3 },
        s("title", {}, `${name} ${formX(a)}: ${form(b)}`)))]));
  const legend = series.length > 1 && h("ul", { class: "legend" }, series.map(({ name }, index) => h("li", { class: `s${1 + (index % 6)}` }, name)));
  return h("div", {}, drawing, legend);
}

function range(values, around) {
  const low = Math.min(...values), high = Math.max(...values);
  return low === high ? [low - around, high + around] : [low, high];
}

export function meter(share, label, low = 0.6) {
  return s("svg", { class: `meter${share < low ? " low" : ""}`, viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label },
    s("rect", { x: 0, y: 0, width: Math.max(0, Math.min(100, 100 * share)), height: 6 }));
}

// Rows are what things are, columns what they are taken for.
export function matrix(names, counts, caption) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, h("table", { class: "matrix" },
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, counts.map((row, i) => {
      const sum = row.reduce((a, b) => a + b, 0);
      return h("tr", {}, h("th", { scope: "row" }, names[i]), row.map((count, j) => {
        const share = sum ? count / sum : 0;
        const look = i === j ? "right" : !count ? "m0" : share >= 0.15 ? "m2" : "m1";
        return h("td", { class: look }, String(count));
      }));
    }))));
}
