// SPDX-License-Identifier: BSD-3-Clause
// Shows the value of a mark by pointer or arrow keys, and zooms. Without this script the browser shows the titles of
// the marks.
(() => {
  "use strict";
  const NEAR_PX = 28, STEP = 1.5, MOST = 12;
  const HINT = "Point at a mark, or go from mark to mark with the arrow keys. + and \u2212 zoom, 0 shows all.";
  const made = (name, props) => Object.assign(document.createElement(name), props);

  for (const box of document.querySelectorAll("figure .wide")) {
    const svg = box.querySelector("svg");
    if (!svg) continue;
    const marks = [...svg.querySelectorAll("use > title")].map(title => ({ at: title.parentNode, text: title.textContent }));
    marks.forEach(mark => mark.at.querySelector("title").remove()); // or the browser shows them a second time
    const whole = svg.getAttribute("viewBox").split(/[ ,]+/).map(Number);
    const name = svg.getAttribute("aria-label");
    const readout = made("p", { className: "readout", textContent: marks.length ? HINT : HINT.replace(/^.*keys. /, "") });
    readout.setAttribute("role", "status");
    let view = whole, current = -1;

    const show = next => { view = next; svg.setAttribute("viewBox", view.join(" ")); svg.classList.toggle("zoomed", view !== whole); };
    const zoom = (factor, x = view[0] + view[2] / 2, y = view[1] + view[3] / 2) => {
      const width = Math.max(whole[2] / MOST, view[2] / factor);
      if (width >= whole[2]) return show(whole);
      const by = width / view[2];
      move(x - (x - view[0]) * by, y - (y - view[1]) * by, width, view[3] * by);
    };
    const move = (x, y, width = view[2], height = view[3]) => show([
      Math.min(Math.max(x, whole[0]), whole[0] + whole[2] - width),
      Math.min(Math.max(y, whole[1]), whole[1] + whole[3] - height), width, height]);
    const place = event => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const middle = mark => {
      const area = mark.at.getBoundingClientRect();
      return [area.x + area.width / 2, area.y + area.height / 2];
    };
    const select = index => {
      if (current >= 0) marks[current].at.classList.remove("current-mark");
      current = index;
      readout.textContent = index < 0 ? HINT : marks[index].text;
      if (index >= 0) marks[index].at.classList.add("current-mark");
    };

    svg.addEventListener("pointermove", event => {
      if (event.buttons && view !== whole) {
        const scale = view[2] / svg.getBoundingClientRect().width;
        return move(view[0] - event.movementX * scale, view[1] - event.movementY * scale);
      }
      const far = marks.map(mark => Math.hypot(middle(mark)[0] - event.clientX, middle(mark)[1] - event.clientY));
      const nearest = far.indexOf(Math.min(...far));
      if (nearest >= 0 && far[nearest] <= NEAR_PX && nearest !== current) select(nearest);
    });
    svg.addEventListener("dblclick", event => { const at = place(event); zoom(STEP * STEP, at.x, at.y); });
    svg.addEventListener("wheel", event => {
      if (!event.ctrlKey) return; // the wheel by itself scrolls the page
      event.preventDefault();
      const at = place(event);
      zoom(event.deltaY < 0 ? STEP : 1 / STEP, at.x, at.y);
    }, { passive: false });
    box.addEventListener("keydown", event => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const steps = { ArrowRight: 1, ArrowLeft: -1 };
      if (event.key in steps && marks.length) {
        select((current + steps[event.key] + (current < 0 && steps[event.key] < 0 ? 1 : 0) + marks.length) % marks.length);
        marks[current].at.scrollIntoView({ block: "nearest", inline: "center" });
      } else if (event.key === "+" || event.key === "=") zoom(STEP);
      else if (event.key === "-") zoom(1 / STEP);
      else if (event.key === "0") show(whole);
      else return;
      event.preventDefault();
    });

    const tools = made("div", { className: "tools" });
    const act = [["+", "Zoom in", () => zoom(STEP)], ["\u2212", "Zoom out", () => zoom(1 / STEP)], ["0", "Show all", () => show(whole)]];
    for (const [sign, words, does] of act) {
      const button = made("button", { type: "button", textContent: sign, title: words, onclick: does });
      button.setAttribute("aria-label", `${words}: ${name}`);
      tools.append(button);
    }
    tools.append(readout);
    box.after(tools);
  }
})();
