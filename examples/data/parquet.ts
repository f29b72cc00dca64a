/**
 * A Parquet file that is larger than the memory that training may keep for data: row groups are read one at a time, ahead of the step. It
 * needs the packages hyparquet, hyparquet-compressors and, to make the file, hyparquet-writer.
 *
 *     npx heddle run examples/data/parquet.ts                40 s
 *     npx heddle run examples/data/parquet.ts -- --small     a smaller file; 4 s
 */
import { existsSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { data, losses, nn, optim, type Tensor, train } from "heddle";
import { parquetWriteFile } from "hyparquet-writer";

const count = process.argv.includes("--small") ? 40_000 : 1_000_000;
const path = join(tmpdir(), `heddle-example-${count}.parquet`);
// Sixteen features; y is a sum of them.
const weights = Array.from({ length: 16 }, (_, at) => Math.sin(at + 1));
if (!existsSync(path)) {
  const columns = weights.map(() => new Float32Array(count));
  const y = new Float32Array(count);
  for (let row = 0; row < count; row++)
    for (let at = 0; at < 16; at++) {
      const value = Math.sin(row * (at + 1) * 0.7) + Math.cos(row * 0.013 * at);
      columns[at]![row] = value;
      y[row]! += weights[at]! * value;
    }
  const columnData = [...columns, y].map((values, at) => ({
    name: at < 16 ? `f${at}` : "y",
    data: values,
    type: "FLOAT" as const,
  }));
  parquetWriteFile({ filename: path, columnData, rowGroupSize: 10_000 });
}

type Row = { readonly [feature: `f${number}`]: number; readonly y: number };
const rows = await data.openParquet<Row>(path);
const examples = rows
  .shuffle({ window: 20_000 })
  .map((row) => ({ x: Float32Array.from(weights, (_, at) => row[`f${at}`]!), y: Float32Array.of(row.y) }));
const result = await train({
  model: nn.linear(1),
  data: (await data.streamed(examples)).batch(500),
  loss: losses.mse,
  optimizer: optim.adam({ learningRate: 0.02 }),
  epochs: 2,
  dataMemory: 2 ** 20,
});
const learned = await (result.params.weight as Tensor).data();
const error = Math.max(...weights.map((weight, at) => Math.abs(weight - learned[at]!)));
result.print(
  `${rows.length} rows, ${(statSync(path).size / 2 ** 20).toFixed(0)} MiB of Parquet within 1 MiB for data; weights within ${error.toFixed(2)}`,
);
