// Prints what gym_recording.js reads of a recording, in the form that tests/dumping.py says. Judges nothing.
//
//     node tests/drivers/dump.mjs [--skip] DIRECTORY
//
// With `--each` in front: any number of directories, a line for each; of one that cannot be read, {"error": text}.

import {
  DictColumns,
  open,
  nodeSource,
  TraceArray,
  TraceError,
  Tuple,
  TupleColumns,
} from "../../gym_recording/readers/gym_recording.js";

async function dump(directory, skip) {
  const recording = await open(nodeSource(directory), { bigint: true });
  const episodes = [];
  const errors = [];
  if (!skip) {
    for await (const one of recording) episodes.push(episode(one));
    return { episodes, errors };
  }
  for (const { error } of recording.traces) if (error) errors.push(error.message);
  for (const batch of recording.traces.flatMap(({ batches }) => batches)) {
    try {
      const good = [];
      for await (const one of recording.episodes(batch)) good.push(episode(one));
      episodes.push(...good);
    } catch (error) {
      if (!(error instanceof TraceError)) throw error;
      errors.push(error.message);
    }
  }
  return { episodes, errors };
}

function episode(one) {
  const { terminated, truncated, ended_by, started, headless } = one;
  return {
    observations: value(one.observations),
    actions: value(one.actions),
    rewards: value(one.rewards),
    terminated,
    truncated,
    ended_by,
    seed: one.seed === null ? null : String(one.seed),
    options: one.options === null ? null : value(one.options),
    started,
    lane: one.lane === null ? null : Number(one.lane),
    headless,
    gaps: one.gaps.map(Number),
    timestamps: one.timestamps === null ? null : value(one.timestamps),
    infos: one.infos === null ? null : infos(one.infos),
    frames: one.frames === null ? null : value(one.frames),
  };
}

function infos({ columns, length }) {
  const rows = Array.from({ length }, () => ({ dict: [] }));
  for (const { key, rows: places, values } of columns) {
    places.data.forEach((row, i) => rows[Number(row)].dict.push([value(key), value(rowOf(values, i))]));
  }
  return rows;
}

/** A row with its dtype, which `row(t)` of the module gives up for a plain number. */
function rowOf(column, t) {
  if (column instanceof TraceArray) return column.at(t);
  if (column instanceof DictColumns) return new Map([...column.columns].map(([key, inner]) => [key, rowOf(inner, t)]));
  if (column instanceof TupleColumns) return Tuple.from(column.columns, (inner) => rowOf(inner, t));
  return column[t];
}

function value(item) {
  if (item instanceof TraceArray) return { array: array(item) };
  if (item instanceof DictColumns) return value(item.columns);
  if (item instanceof Map) return { dict: [...item].map(([key, inner]) => [value(key), value(inner)]) };
  if (item instanceof TupleColumns) return { tuple: item.columns.map(value) };
  if (item instanceof Tuple) return { tuple: Array.from(item, value) };
  if (Array.isArray(item)) return { list: item.map(value) };
  if (item === null) return { null: true };
  if (typeof item === "boolean") return { bool: item };
  if (typeof item === "bigint") return { int: String(item) };
  if (typeof item === "number") return { float: hex(new Uint8Array(Float64Array.of(item).buffer)) };
  return { text: item };
}

function array(item) {
  const { code, view, shape } = item;
  let { bytes } = item;
  if (code === "|b1") bytes = item.data; // 0 and 1, whatever other bytes there are
  if (/^.[US]/.test(code) && !shape.length) {
    // as a scalar of NumPy: without the NULs at its end, but for one character
    const unit = code[1] === "U" ? 4 : 1;
    let count = bytes.length / unit;
    while (count > 1 && bytes.subarray((count - 1) * unit, count * unit).every((byte) => !byte)) count--;
    return { dtype: `${code.slice(0, 2)}${count}`, shape, hex: hex(bytes.subarray(0, count * unit)) };
  }
  return { dtype: code, ...(view && { view }), shape, hex: hex(bytes) };
}

function hex(bytes) {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("hex");
}

const flags = process.argv.slice(2).filter((argument) => argument.startsWith("--"));
const directories = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
for (const directory of directories) {
  try {
    console.log(JSON.stringify(await dump(directory, flags.includes("--skip"))));
  } catch (error) {
    if (!(error instanceof TraceError)) throw error;
    if (flags.includes("--each")) {
      console.log(JSON.stringify({ error: error.message }));
    } else {
      console.error(error.message);
      process.exitCode = 1;
    }
  }
}
