// Ticks and numbers of axes; static_chart.cpp does the same for the curves without JavaScript.

function linearTicks(low, high, count) {
  if (!(low < high) || !isFinite(high - low)) return [];
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const ratio = rough / power;
  return multiples(power * (ratio < 1.5 ? 1 : ratio < 3.5 ? 2 : ratio < 7.5 ? 5 : 10), low, high);
}

function multiples(spacing, low, high) {
  const ticks = [];
  for (let i = Math.ceil(low / spacing - 1e-9); i * spacing <= high + spacing * 1e-9; ++i) {
    ticks.push(i * spacing);
    if (ticks.length > 100) break;
  }
  return ticks;
}

function powerTicks(low, high, count) {
  if (!(low > 0 && low <= high && high < Infinity)) return [];
  const first = Math.ceil(Math.log2(low) - 1e-9), last = Math.floor(Math.log2(high) + 1e-9);
  let stride = 1;
  while ((last - first) / stride >= Math.max(1, count)) stride *= 2;
  const ticks = [];
  for (let i = first; i <= last; i += stride) ticks.push(2 ** i);
  return ticks;
}

function logTicks(low, high, count) {
  if (!(low > 0 && low <= high && high < Infinity)) return [];
  if (high / low < 5) return linearTicks(low, high, count).filter((tick) => tick > 0);
  const ticks = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const digit of [1, 2, 5])
      if (digit * power >= low && digit * power <= high) ticks.push(digit * power);
  }
  return ticks;
}

function timeTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  if (rough < 1) return linearTicks(low, high, count);
  const spacings = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
                    43200, 86400, 172800, 432000, 864000];
  const spacing = spacings.find((s) => s >= 0.7 * rough) ??
      864000 * Math.ceil(rough / 864000);
  return multiples(spacing, low, high);
}

function tickText(value, spacing) {
  if (value === 0) return '0';
  let scaled = value, step = Math.abs(spacing), suffix = 0;
  while ((Math.abs(scaled) >= 9999.5 || (suffix > 0 && Math.abs(scaled) >= 999.5)) && suffix < 4) {
    scaled /= 1000;
    step /= 1000;
    ++suffix;
  }
  if (Math.abs(scaled) < 1e-4) return shortExponent(scaled);
  const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step) - 1e-6)));
  let text = scaled.toFixed(digits);
  if (text.includes('.')) text = text.replace(/\.?0+$/, '');
  return text.replace('-', '−') + ['', 'K', 'M', 'B', 'T'][suffix];
}

function shortExponent(value) {
  return value.toExponential(2).replace(/\.?0+e/, 'e').replace('e-', 'e−').replace('e+', 'e');
}

// A value in the read-out: four significant digits, without rounding counts to them.
function valueText(value) {
  if (!isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size < 1e-3) return shortExponent(value);
  if (size < 10) return value.toFixed(4);
  if (size < 9999.5) return String(+value.toPrecision(4));
  return countText(value);
}

function countText(count) {
  let scaled = count, suffix = 0;
  while (Math.abs(scaled) >= 999.5 && suffix < 4) {
    scaled /= 1000;
    ++suffix;
  }
  return String(+scaled.toPrecision(3)) + ['', 'K', 'M', 'B', 'T'][suffix];
}

function durationText(seconds) {
  const two = (number) => String(number).padStart(2, '0');
  if (seconds < 10) return `${+seconds.toFixed(2)}s`;
  const total = Math.round(seconds);
  if (total < 60) return `${total}s`;
  if (total < 3600) return `${Math.floor(total / 60)}m${two(total % 60)}s`;
  if (total < 86400) return `${Math.floor(total / 3600)}h${two(Math.floor(total / 60) % 60)}m`;
  return `${Math.floor(total / 86400)}d${two(Math.floor(total / 3600) % 24)}h`;
}

// The three things that curves may be drawn against.
const axes = {
  tokens: {name: 'Tokens', unit: 'target tokens', ticks: linearTicks, tick: tickText,
           value: (x) => `${countText(x)} tokens`},
  step: {name: 'Steps', unit: 'steps', ticks: linearTicks, tick: tickText,
         value: (x) => `step ${Math.round(x)}`},
  elapsed: {name: 'Time', unit: 'training time', ticks: timeTicks, value: durationText,
            tick: (x) => x === 0 ? '0' : durationText(x).replace(/([hmd])0+[smh]$/, '$1')},
};
