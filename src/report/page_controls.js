// The bar above the charts, and the drawing of all of them.

const chartViews = [...document.querySelectorAll('.chart')].map((figure) => new ChartView(figure));

function hoverAll(x) {
  for (const chart of chartViews) chart.hover(x);
}

let drawingIsDue = false;
function drawAll() {
  if (drawingIsDue) return;
  drawingIsDue = true;
  requestAnimationFrame(() => {
    drawingIsDue = false;
    for (const chart of chartViews) chart.draw();
  });
}

function setZoom(zoom) {
  view.zoom = zoom;
  document.getElementById('zoom-out').hidden = zoom === null;
  drawAll();
}

function button(text, onClick, isPressed = null) {
  const element = textElement('button', text);
  element.type = 'button';
  if (isPressed !== null) element.setAttribute('aria-pressed', isPressed);
  element.addEventListener('click', onClick);
  return element;
}

// Buttons of which one is pressed.
function choice(name, options, chosen, choose) {
  const group = document.createElement('div');
  group.className = 'choice';
  group.setAttribute('role', 'group');
  group.setAttribute('aria-label', name);
  const buttons = Object.entries(options).map(([value, text]) => button(text, () => {
    for (const other of buttons) other.setAttribute('aria-pressed', other.dataset.value === value);
    choose(value);
    drawAll();
  }, value === chosen));
  Object.keys(options).forEach((value, i) => { buttons[i].dataset.value = value; });
  group.append(...buttons);
  return group;
}

// Gives runs of one group one colour, in the curves and wherever a run is named.
function colourBy(kind) {
  report.runs.forEach((run, i) => {
    run.ownClasses ??= run.classes;
    run.classes = kind === 'run' || run.group === null ? run.ownClasses
        : `c${run.group % 6} d${Math.floor(run.group / 6) % 4}`;
    for (const path of document.querySelectorAll(`.swatch[data-run="${i}"] path`))
      path.setAttribute('class', `line ${run.classes}`);
  });
}

function smoothingControl() {
  const shares = [0, 0.002, 0.005, 0.01, 0.02, 0.05];
  const label = textElement('label', 'Smoothing ', 'smoothing');
  const slider = document.createElement('input');
  slider.type = 'range';
  slider.max = shares.length - 1;
  slider.value = shares.indexOf(view.smoothing);
  const output = document.createElement('output');
  const show = () => {
    view.smoothing = shares[slider.value];
    output.textContent = view.smoothing ? `${view.smoothing * 100} % of the run` : 'off';
  };
  slider.addEventListener('input', () => {
    show();
    drawAll();
  });
  show();
  label.append(slider, output);
  return label;
}

function legend() {
  const list = document.createElement('div');
  list.className = 'legend';
  const chips = report.runs.map((run, i) => {
    const chip = button('', () => {
      if (!view.hidden.delete(run)) view.hidden.add(run);
      refresh();
    }, true);
    chip.innerHTML = swatch(run).replace('<svg', `<svg data-run="${i}"`);
    chip.append(run.label);
    chip.title = 'Show or hide; double-click: this run alone';
    chip.addEventListener('dblclick', () => {
      view.hidden = new Set(report.runs.filter((other) => other !== run));
      refresh();
    });
    chip.addEventListener('pointerenter', (event) => event.pointerType === 'mouse' && mark(run));
    chip.addEventListener('pointerleave', () => mark(null));
    return chip;
  });
  const mark = (run) => {
    if (view.marked === run || view.hidden.has(run)) return;
    view.marked = run;
    drawAll();
  };
  const refresh = () => {
    view.marked = null;
    chips.forEach((chip, i) => chip.setAttribute('aria-pressed', !view.hidden.has(report.runs[i])));
    drawAll();
  };
  list.append(...chips);
  if (report.runs.length > 4) {
    list.append(button('All', () => { view.hidden.clear(); refresh(); }),
                button('None', () => { view.hidden = new Set(report.runs); refresh(); }));
  }
  return list;
}

function buildControls(bar) {
  const row = document.createElement('div');
  row.className = 'row';
  const names = Object.fromEntries(Object.entries(axes).map(([key, axis]) => [key, axis.name]));
  row.append(choice('Horizontal axis', names, view.axis, (axis) => {
    view.axis = axis;
    setZoom(null);
  }));
  if (report.charts.some((chart) => chart.isLoss)) {
    row.append(choice('Axis of losses', {linear: 'Linear', log: 'Log'}, 'linear',
                      (kind) => { view.logLoss = kind === 'log'; }));
  }
  if (report.runs.some((run) => run.group !== null))
    row.append(choice('Colours', {run: 'Colour by run', group: 'by group'}, 'run', colourBy));
  row.append(smoothingControl());
  const out = button('Zoom out', () => setZoom(null));
  out.id = 'zoom-out';
  out.hidden = true;
  row.append(out);
  bar.append(row);
  if (report.runs.length > 1) bar.append(legend());
  bar.hidden = false;
}

const bar = document.getElementById('controls');
if (bar) {
  buildControls(bar);
  new ResizeObserver(drawAll).observe(document.querySelector('.charts'));
  drawAll();
}
