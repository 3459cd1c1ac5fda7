// One chart: its SVG, the marks of events, the read-out under the pointer.

// What the reader has chosen; all charts are drawn by it. `zoom` is [low, high] of the axis.
const view = {axis: 'tokens', logLoss: false, smoothing: 0.01, hidden: new Set(), zoom: null,
              marked: null};

// Marks of events, centred on 0 0.
const eventMarks = {
  skip: 'M-4-4L4 4M4-4L-4 4',
  rollback: 'M4-5V5L-5 0Z',
  spike: 'M-5 4H5L0-5Z',
  resume: 'M-4 0A4 4 0 1 1 4 0A4 4 0 1 1-4 0Z',
  end: 'M-4-4H4V4H-4Z',
  signal: 'M0-5L5 0L0 5L-5 0Z',
  save_failed: 'M-5-4H5L0 5Z',
  oom_fit: 'M-4-5V5L5 0Z',
};
const otherMark = 'M0-5V5M-5 0H5';
const openMarks = new Set(['resume', 'end']);

function visibleRuns() {
  return report.runs.filter((run) => !view.hidden.has(run));
}

function xRange() {
  if (view.zoom) return view.zoom;
  let high = 0;
  for (const run of visibleRuns()) {
    for (const chart of report.charts) {
      const xs = seriesOf(run, chart)?.[view.axis];
      if (xs?.length && isFinite(xs[xs.length - 1])) high = Math.max(high, xs[xs.length - 1]);
    }
  }
  return [0, high || 1];
}

const svgNumber = (value) => String(Math.round(value * 10) / 10);

class ChartView {
  constructor(figure) {
    this.figure = figure;
    this.chart = report.charts[+figure.dataset.chart];
    this.plot = figure.querySelector('.plot');
    this.tip = document.createElement('div');
    this.tip.className = 'tip';
    this.tip.hidden = true;
    this.plot.tabIndex = 0;
    this.key = document.createElement('p');
    this.key.className = 'key';
    figure.append(this.key);
    this.listen();
  }

  // The curves that are drawn: of every visible run that has the figure.
  curves() {
    const chart = this.chart, share = chart.isSmoothed ? view.smoothing : 0;
    const curves = [];
    for (const run of visibleRuns()) {
      const series = seriesOf(run, chart);
      if (series) curves.push({run, series, x: series[view.axis], y: smoothMeans(series, share)});
    }
    return curves;
  }

  isLog() {
    return this.chart.powersOfTwo || (this.chart.isLoss && view.logLoss);
  }

  // The values that the axis spans. The first steps, and the largest hundredth of a noisy curve, do
  // not count: they would press all others together.
  yRange(curves, [x0, x1]) {
    const begin = view.zoom ? x0 : x0 + 0.02 * (x1 - x0);
    let values = this.valuesWithin(curves, begin, x1);
    if (!values.length) values = this.valuesWithin(curves, x0, x1);
    if (!values.length) return [0.5, 1];
    values = Float32Array.from(values).sort();
    const share = this.chart.evaluation || this.chart.powersOfTwo ? 1 : 0.99;
    let low = values[0], high = values[Math.floor(share * (values.length - 1))];
    if (this.isLog()) {
      low = Math.max(low, 1e-9);
      const room = this.chart.powersOfTwo ? 1.3 : Math.max(1.02, (high / low) ** 0.05);
      return [low / room, Math.max(high, low) * room];
    }
    if (this.chart.fromZero) low = Math.min(0, low);
    const pad = high > low ? 0.06 * (high - low) : Math.max(Math.abs(high) * 0.1, 1e-9);
    return [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
  }

  valuesWithin(curves, x0, x1) {
    const values = [];
    for (const {x, y} of curves) {
      // A zoomed curve goes on to the points beyond the edges.
      const margin = view.zoom ? 1 : 0;
      const end = Math.min(x.length, lowerBound(x, x1) + 1);
      for (let i = Math.max(0, lowerBound(x, x0) - margin); i < end; ++i)
        if (isFinite(y[i])) values.push(y[i]);
    }
    return values;
  }

  draw() {
    const width = Math.max(240, this.plot.clientWidth);
    const isTall = this.chart.isLoss && this.figure.classList.contains('wide');
    const height = isTall ? Math.min(380, Math.max(250, width * 0.4)) : 220;
    const frame = {left: 50, right: width - 18, top: 8, bottom: height - 34};
    const [x0, x1] = xRange();
    const curves = this.curves();
    const [y0, y1] = this.yRange(curves, [x0, x1]);
    const place = this.isLog() ? (v) => Math.log(Math.max(v, 1e-9)) : (v) => v;
    const bottomValue = place(y0), topValue = place(y1);
    this.frame = frame;
    this.shown = curves;
    this.toX = (v) => frame.left + (v - x0) / (x1 - x0) * (frame.right - frame.left);
    this.fromX = (px) => x0 + (px - frame.left) / (frame.right - frame.left) * (x1 - x0);
    this.toY = (v) => {
      const share = (place(v) - bottomValue) / (topValue - bottomValue);
      return frame.bottom - Math.min(3, Math.max(-1, share)) * (frame.bottom - frame.top);
    };
    const inner = `x="${frame.left}" y="${frame.top - 4}" width="${frame.right - frame.left}" ` +
        `height="${frame.bottom - frame.top + 6}"`;
    const box = `${frame.left} ${frame.top - 4} ${frame.right - frame.left} ` +
        `${frame.bottom - frame.top + 6}`;
    this.plot.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img">` +
        `${this.grid([x0, x1], [y0, y1])}<svg ${inner} viewBox="${box}">` +
        `${this.bands()}${this.expected()}${curves.map((curve) => this.line(curve, curve.y)).join('')}` +
        `${this.points()}</svg>${this.events()}<g class="hover"></g>` +
        `<rect class="selection" y="${frame.top}" height="${frame.bottom - frame.top}" ` +
        `width="0"/></svg>`;
    const svg = this.plot.firstChild;
    svg.setAttribute('aria-label', `${this.chart.title} against ${axes[view.axis].unit}`);
    this.plot.append(this.tip);
    this.tip.hidden = true;
  }

  grid([x0, x1], [y0, y1]) {
    const {left, right, bottom} = this.frame;
    const yTicks = this.chart.powersOfTwo ? powerTicks(y0, y1, 6)
        : this.isLog() ? logTicks(y0, y1, 6) : linearTicks(y0, y1, 5);
    const ySpacing = yTicks.length > 1 ? yTicks[1] - yTicks[0] : yTicks[0] ?? 1;
    let svg = '';
    for (const tick of yTicks) {
      const y = svgNumber(this.toY(tick));
      svg += `<path class="grid" d="M${left} ${y}H${right}"/>` +
          `<text class="ytick" x="${left - 7}" y="${+y + 4}">${tickText(tick, ySpacing)}</text>`;
    }
    const axis = axes[view.axis];
    const xTicks = axis.ticks(x0, x1, Math.max(2, (right - left) / 110));
    const xSpacing = xTicks.length > 1 ? xTicks[1] - xTicks[0] : xTicks[0] ?? 1;
    for (const tick of xTicks) {
      const x = svgNumber(this.toX(tick));
      svg += `<path class="grid" d="M${x} ${bottom}v4"/>` +
          `<text class="xtick" x="${x}" y="${bottom + 17}">${axis.tick(tick, xSpacing)}</text>`;
    }
    return svg + `<path class="axis" d="M${left} ${bottom}H${right}"/>` +
        `<text class="xname" x="${right}" y="${bottom + 31}">${axis.unit}</text>`;
  }

  // Calls visit(from, to) for the indices of points that share a pixel column, in order.
  eachColumn({x}, visit) {
    const {left, right} = this.frame;
    const end = Math.min(x.length, lowerBound(x, this.fromX(right)) + 1);
    let from = Math.max(0, lowerBound(x, this.fromX(left)) - 1);
    while (from < end) {
      const pixel = Math.floor(this.toX(x[from]) / 1.5);
      let to = from + 1;
      while (to < end && Math.floor(this.toX(x[to]) / 1.5) === pixel) ++to;
      visit(from, to);
      from = to;
    }
  }

  line(curve, values, extra = '') {
    let path = '', penIsDown = false;
    this.eachColumn(curve, (from, to) => {
      let sum = 0, count = 0;
      for (let i = from; i < to; ++i) {
        if (!isFinite(values[i])) continue;
        sum += values[i];
        ++count;
      }
      if (count && isFinite(curve.x[to - 1])) {
        const x = this.toX((curve.x[from] + curve.x[to - 1]) / 2);
        path += `${penIsDown ? 'L' : 'M'}${svgNumber(x)} ${svgNumber(this.toY(sum / count))}`;
      }
      penIsDown = count > 0;
    });
    const marked = view.marked === curve.run ? ' marked'
        : view.marked && this.shown.length > 1 ? ' faded' : '';
    return `<path class="line ${curve.run.classes}${marked}${extra}" d="${path}"/>`;
  }

  // What smoothing and means hide: lowest and highest values as a band, or each update as a thin
  // line. Only of few runs, since bands of many cover each other.
  bands() {
    const few = this.shown.length <= 3;
    let svg = '';
    for (const curve of this.shown) {
      if (!few && view.marked !== curve.run) continue;
      if (curve.series.low) svg += this.band(curve);
      else if (curve.y !== curve.series.mean) svg += this.line(curve, curve.series.mean, ' raw');
    }
    return svg;
  }

  // What was forecast: a dashed line in a band.
  expected() {
    return visibleRuns().map((run) => {
      const curve = expectedOf(run, this.chart, view.axis);
      return curve ? this.band(curve) + this.line(curve, curve.y, ' expected') : '';
    }).join('');
  }

  band(curve) {
    let there = '', back = '';
    this.eachColumn(curve, (from, to) => {
      let low = Infinity, high = -Infinity;
      for (let i = from; i < to; ++i) {
        if (curve.series.low[i] < low) low = curve.series.low[i];
        if (curve.series.high[i] > high) high = curve.series.high[i];
      }
      if (low > high) return;
      const x = svgNumber(this.toX((curve.x[from] + curve.x[to - 1]) / 2));
      there += `${there ? 'L' : 'M'}${x} ${svgNumber(this.toY(high))}`;
      back = `L${x} ${svgNumber(this.toY(low))}${back}`;
    });
    return `<path class="band ${curve.run.classes}" d="${there}${back}Z"/>`;
  }

  // Evaluations are few: each is a point.
  points() {
    if (!this.chart.evaluation) return '';
    let svg = '';
    for (const {run, x, y} of this.shown) {
      if (x.length > 60) continue;
      for (let i = 0; i < x.length; ++i) {
        if (!isFinite(y[i]) || !isFinite(x[i])) continue;
        svg += `<circle class="point ${run.classes}" r="2.5" cx="${svgNumber(this.toX(x[i]))}" ` +
            `cy="${svgNumber(this.toY(y[i]))}"/>`;
      }
    }
    return svg;
  }

  // Marks on the curves. Events of a kind that would cover each other share a mark.
  events() {
    this.marks = [];
    const kinds = new Set();
    if (!this.chart.hasEvents) return '';
    const {left, right, top, bottom} = this.frame;
    let svg = '';
    for (const {run, series, x, y} of this.shown) {
      const last = new Map();
      for (const event of run.events) {
        if (!x.length) break;
        const index = nearestIndex(series.step, event.step);
        const px = this.toX(event.step === 0 ? 0 : x[index]);
        if (!(px >= left - 1 && px <= right + 1)) continue;
        const before = last.get(event.kind);
        if (before && Math.abs(px - before.px) < 7) {
          before.events.push(event);
          continue;
        }
        const value = isFinite(y[index]) ? this.toY(y[index]) : bottom;
        // Marks of other kinds at the same place stand above each other.
        const below = this.marks.filter((m) => m.run === run && Math.abs(m.px - px) < 9).length;
        const py = Math.max(top, Math.min(bottom, Math.max(top, value)) - 11 * below);
        const mark = {run, px, py, events: [event]};
        last.set(event.kind, mark);
        kinds.add(event.kind);
        this.marks.push(mark);
        svg += this.mark(event.kind, run.classes, mark.px, mark.py);
      }
    }
    this.key.replaceChildren(...[...kinds].map((kind) => {
      const item = document.createElement('span');
      item.innerHTML = `<svg class="swatch" viewBox="-8 -8 16 16">${this.mark(kind, '', 0, 0)}</svg>`;
      item.append(kind);
      return item;
    }));
    return svg;
  }

  mark(kind, classes, x, y) {
    const path = Object.hasOwn(eventMarks, kind) ? eventMarks[kind] : otherMark;
    const open = openMarks.has(kind) ? ' open' : '';
    return `<path class="event ${classes}${open}" d="${path}" ` +
        `transform="translate(${svgNumber(x)} ${svgNumber(y)})"/>`;
  }

  // Draws the line and the points at the axis value `x`, in every chart.
  hover(x) {
    const group = this.plot.querySelector('.hover');
    if (!group) return;
    const {left, right, top, bottom} = this.frame;
    const px = x === null ? NaN : this.toX(x);
    if (!(px >= left && px <= right)) {
      group.innerHTML = '';
      return;
    }
    let svg = `<path class="cross" d="M${svgNumber(px)} ${top}V${bottom}"/>`;
    for (const {run, x: xs, y} of this.shown) {
      const value = this.valueAt(xs, y, x);
      if (value === null) continue;
      const py = this.toY(value.y);
      if (py < top - 4 || py > bottom + 4) continue;
      svg += `<circle class="point ${run.classes}" r="3.5" cx="${svgNumber(this.toX(value.x))}" ` +
          `cy="${svgNumber(py)}"/>`;
    }
    group.innerHTML = svg;
  }

  // The point of a curve nearest to `x`, or null beyond its ends.
  valueAt(xs, y, x) {
    if (!xs.length) return null;
    const slack = Math.abs(this.fromX(6) - this.fromX(0));
    const index = nearestIndex(xs, x);
    if (x > xs[xs.length - 1] + slack || x < Math.min(xs[0], 0) - slack) return null;
    return isFinite(y[index]) ? {x: xs[index], y: y[index], index} : null;
  }

  showTip(x, px, py) {
    const most = 12;
    const rows = [];
    for (const {run, series, x: xs, y} of this.shown) {
      const value = this.valueAt(xs, y, x);
      if (value) rows.push({run, series, ...value});
    }
    if (rows.length > most) {
      rows.sort((a, b) => Math.abs(this.toY(a.y) - py) - Math.abs(this.toY(b.y) - py));
      rows.length = most;
    }
    rows.sort((a, b) => b.y - a.y);
    this.tip.replaceChildren(textElement('div', axes[view.axis].value(x), 'tiphead'));
    for (const {run, series, y, index} of rows) {
      const row = document.createElement('div');
      row.className = 'tiprow';
      row.innerHTML = swatch(run);
      row.append(textElement('span', run.label, 'name'), textElement('b', valueText(y)));
      if (rows.length <= 3 && series.low) {
        row.append(textElement('small', `${valueText(series.low[index])} to ` +
                                            valueText(series.high[index])));
      }
      this.tip.append(row);
    }
    for (const mark of this.marks) {
      if (Math.abs(mark.px - px) > 8 || Math.abs(mark.py - py) > 32) continue;
      for (const event of mark.events.slice(0, 3)) {
        const text = event.text ? `: ${event.text}` : '';
        this.tip.append(textElement('div', `${mark.run.label}, step ${event.step}, ` +
                                               `${event.kind}${text}`, 'tipevent'));
      }
      if (mark.events.length > 3)
        this.tip.append(textElement('div', `and ${mark.events.length - 3} more`, 'tipevent'));
    }
    this.tip.hidden = false;
    this.tip.style.left = 0;  // where it has all the room, so that its width is its own
    const room = this.plot.clientWidth;
    const width = this.tip.offsetWidth;
    const leftSide = px + 14 + width > room && px - 14 - width > 0;
    this.tip.style.left = `${Math.max(0, Math.min(room - width,
                                                  leftSide ? px - 14 - width : px + 14))}px`;
    this.tip.style.top = `${this.frame.top + 6}px`;
  }

  listen() {
    let from = null;  // where a selection began, in pixels
    const position = (event) => {
      const box = this.plot.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const selection = () => this.plot.querySelector('.selection');
    const within = (px) => Math.min(this.frame.right, Math.max(this.frame.left, px));
    this.plot.addEventListener('pointermove', (event) => {
      const [px, py] = position(event);
      if (from !== null) {
        const [a, b] = [from, within(px)].sort((p, q) => p - q);
        selection().setAttribute('x', a);
        selection().setAttribute('width', b - a);
      }
      if (px < this.frame.left || px > this.frame.right) return leave();
      hoverAll(this.fromX(px));
      this.showTip(this.fromX(px), px, py);
    });
    this.plot.addEventListener('pointerdown', (event) => {
      if (event.pointerType !== 'mouse' || event.button !== 0) return;
      event.preventDefault();
      from = within(position(event)[0]);
      this.plot.setPointerCapture(event.pointerId);
    });
    this.plot.addEventListener('pointerup', (event) => {
      if (from === null) return;
      const to = within(position(event)[0]);
      const [a, b] = [from, to].sort((p, q) => p - q).map((px) => this.fromX(px));
      const isWide = Math.abs(to - from) > 8;
      from = null;
      selection().setAttribute('width', 0);
      if (isWide) setZoom([a, b]);
    });
    this.plot.addEventListener('dblclick', () => setZoom(null));
    const leave = () => {
      this.tip.hidden = true;
      hoverAll(null);
    };
    this.plot.addEventListener('pointerleave', leave);
    this.plot.addEventListener('pointercancel', leave);
    this.plot.addEventListener('blur', leave);
    let at = null;  // of the read-out moved by keys
    this.plot.addEventListener('keydown', (event) => {
      const {left, right, top} = this.frame;
      const way = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (event.key === 'Escape') return setZoom(null);
      if (!way) return;
      event.preventDefault();
      at = Math.min(right, Math.max(left, (at ?? (left + right) / 2) + way * 8));
      hoverAll(this.fromX(at));
      this.showTip(this.fromX(at), at, top);
    });
  }
}

function textElement(tag, text, className = '') {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = className;
  return element;
}

function swatch(run) {
  return `<svg class="swatch" viewBox="0 0 22 8"><path class="line ${run.classes}" d="M0 4H22"/></svg>`;
}
