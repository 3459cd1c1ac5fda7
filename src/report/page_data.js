'use strict';
// The figures of the page, and what is computed from them. Columns of numbers are base64 of
// little-endian binary32 and are decoded when they are first needed.

const report = JSON.parse(document.getElementById('report-data').textContent);

function decodeFloats(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

// The curve of a run in a chart: {step, tokens, elapsed, mean, low, high}, where low and high are
// null for points that stand for one update each. Null: the run has no such figure.
function seriesOf(run, chart) {
  run.decoded ??= new Map();
  const name = `${chart.evaluation} ${chart.key}`;
  if (!run.decoded.has(name)) run.decoded.set(name, decodeSeries(run, chart));
  return run.decoded.get(name);
}

function decodeSeries(run, chart) {
  const column = chart.evaluation ? run.evaluations[chart.key] : run.updates.columns[chart.key];
  if (!column) return null;
  const x = chart.evaluation ? column : run.updates;
  return {
    step: decodeFloats(x.step),
    tokens: decodeFloats(x.tokens),
    elapsed: decodeFloats(x.elapsed),
    mean: decodeFloats(column.mean),
    low: column.low ? decodeFloats(column.low) : null,
    high: column.high ? decodeFloats(column.high) : null,
    smooth: new Map(),
  };
}

// What was forecast of a run, as a curve against tokens; null: nothing was, or another chart or axis
// is drawn.
function expectedOf(run, chart, axis) {
  if (!run.expected || chart.key !== 'eval_loss' || axis !== 'tokens') return null;
  run.expected.curve ??= {
    run,
    x: decodeFloats(run.expected.tokens),
    y: decodeFloats(run.expected.mean),
    series: {low: decodeFloats(run.expected.low), high: decodeFloats(run.expected.high)},
  };
  return run.expected.curve;
}

// The curve under a window whose standard deviation is `share` of it. The window is centred, so a
// curve is not delayed. Three moving means in a row are close to a Gaussian.
function smoothMeans(series, share) {
  const sigma = share * series.mean.length;
  if (sigma < 0.4) return series.mean;
  if (!series.smooth.has(share)) {
    const radius = Math.max(1, Math.round((Math.sqrt(4 * sigma ** 2 + 1) - 1) / 2));
    let values = series.mean;
    for (let pass = 0; pass < 3; ++pass) values = movingMean(values, radius);
    series.smooth.set(share, values);
  }
  return series.smooth.get(share);
}

// Values that are not finite stay gaps. Near the beginning, where curves are steep, the window is
// made narrower, since a one-sided one would bend the curve; at the end it is cut.
function movingMean(values, radius) {
  const count = values.length;
  const sums = new Float64Array(count + 1), counts = new Float64Array(count + 1);
  for (let i = 0; i < count; ++i) {
    const isThere = isFinite(values[i]);
    sums[i + 1] = sums[i] + (isThere ? values[i] : 0);
    counts[i + 1] = counts[i] + (isThere ? 1 : 0);
  }
  return values.map((value, i) => {
    if (!isFinite(value)) return NaN;
    const reach = Math.min(radius, i);
    const from = i - reach, to = Math.min(count, i + reach + 1);
    return (sums[to] - sums[from]) / (counts[to] - counts[from]);
  });
}

// The first index whose value is not below `value`; `values` ascend.
function lowerBound(values, value) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

function nearestIndex(values, value) {
  const i = lowerBound(values, value);
  if (i === 0) return 0;
  return i === values.length || value - values[i - 1] < values[i] - value ? i - 1 : i;
}
