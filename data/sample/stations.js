// Finds the way with the fewest changes between two stations of a small railway.
const lines = {
  coast: ["Harrow Point", "Saltmouth", "Brannoc", "Ferry Hill", "Quay Street"],
  valley: ["Ferry Hill", "Mill Lane", "Upper Mill", "Tollgate"],
  branch: ["Upper Mill", "Quarry", "Far Quarry"],
};

function stationsOf(name) {
  return Object.entries(lines)
    .filter(([, stops]) => stops.includes(name))
    .map(([line]) => line);
}

export function findRoute(from, to) {
  if (stationsOf(from).length === 0) throw new Error(`unknown station: ${from}`);
  if (stationsOf(to).length === 0) throw new Error(`unknown station: ${to}`);
  const queue = stationsOf(from).map((line) => [{ line, at: from }]);
  const seen = new Set(stationsOf(from));
  while (queue.length > 0) {
    const path = queue.shift();
    const { line } = path[path.length - 1];
    if (lines[line].includes(to)) return [...path, { line, at: to }];
    for (const stop of lines[line]) {
      for (const next of stationsOf(stop)) {
        if (seen.has(next)) continue;
        seen.add(next);
        queue.push([...path, { line: next, at: stop }]);
      }
    }
  }
  return null; // no line leads there
}

if (import.meta.main) {
  console.log(findRoute("Saltmouth", "Far Quarry"));
  // [ { line: "coast", at: "Saltmouth" }, { line: "valley", at: "Ferry Hill" },
  //   { line: "branch", at: "Upper Mill" }, { line: "branch", at: "Far Quarry" } ]
}
