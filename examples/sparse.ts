/**
 * A sparse matrix: least squares with 3 of 500 features in each row. Products and gradients work on the stored entries, split over
 * the workers by rows of the matrix.
 *
 *     npx heddle run examples/sparse.ts               # 200 steps: an error of 4e-12, 3 s
 *     npx heddle run examples/sparse.ts --workers 2
 */
import { connect, distribute, jit, sparse, sub, type Tensor, tensor, valueAndGrad, zeros } from "heddle";
import { parseLayout } from "heddle/plan";

const [rows, columns, perRow] = [4000, 500, 3];
const entries = rows * perRow;
const values = Float32Array.from({ length: entries }, (_unused, index) => Math.sin(index));
const rowOf = Int32Array.from({ length: entries }, (_unused, index) => Math.floor(index / perRow));
const columnOf = Int32Array.from(
  { length: entries },
  (_unused, index) => (Math.imul(index, 2654435761) >>> 8) % columns,
);
const truth = Float32Array.from({ length: columns }, (_unused, index) => Math.cos(index));

const runtime = await connect();
const put = (data: Float32Array | Int32Array, dtype: "f32" | "i32"): Tensor =>
  distribute(runtime, data, { dtype, shape: [data.length] }, parseLayout("S(0)"));
const matrix = { values: put(values, "f32"), rows: put(rowOf, "i32"), columns: put(columnOf, "i32") };
type Matrix = typeof matrix;

const times = ({ values, rows: where, columns: at }: Matrix, x: Tensor): Tensor =>
  sparse(values, where, at, [rows, columns]).matmul(x);
const target = jit(times)(matrix, tensor(truth, { shape: [columns, 1] }));

const error = (x: Tensor, a: Matrix, y: Tensor): Tensor => sub(times(a, x), y).pow(2).mean();
const step = jit(
  (x: Tensor, a: Matrix, y: Tensor) => {
    const { value, grad } = valueAndGrad(error)(x, a, y);
    return { x: x.sub(grad.mul(100)), value };
  },
  { donate: [0] },
);

let x = zeros([columns, 1]);
for (let count = 0; count <= 200; count++) {
  const updated = step(x, matrix, target);
  ({ x } = updated);
  const value = count % 50 === 0 ? await updated.value.item() : 0;
  if (count % 50 === 0 && runtime.rank === 0) console.log(`step ${count}: error ${value.toExponential(1)}`);
}
if (runtime.rank === 0) console.log(`of ${rows * columns} elements ${entries} are stored`);
