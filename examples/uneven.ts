/**
 * An image split by rows over three devices that do not divide their number: a convolution fetches the rows it needs from the
 * neighbours (a halo) and nothing else; slices and concatenations stay split.
 *
 *     npx heddle run examples/uneven.ts                   # three devices of one process: no bit differs from one device's, 2 s
 *     npx heddle run examples/uneven.ts --workers 3       # three processes
 */
import { concat, connect, conv2d, distribute, jit, mesh, replicate, reverse, slice, type Tensor, tensor } from "heddle";
import { formatLayout, parseLayout } from "heddle/plan";

const [height, width] = [10, 8];
const image = Float32Array.from({ length: height * width }, (_unused, index) => Math.sin(index * index));
const kernel = tensor([1, 2, 1, 2, 4, 2, 1, 2, 1], { shape: [1, 1, 3, 3] }).div(16);

/** The blurred image above its mirror image without the first row. */
const blurred = jit((x: Tensor) => {
  const y = conv2d(x, kernel, { padding: "same" });
  return concat([y, reverse(slice(y, [0, 0, 1, 0], [1, 1, height, width]), [2])], 2);
});

// The second device is twice as fast as the others, so it gets twice the rows.
for (const axes of [mesh({ rows: 3 }), mesh({ rows: 3 }, { shares: { rows: [1, 2, 1] } })]) {
  const runtime = await connect(axes);
  const x = distribute(runtime, image, { dtype: "f32", shape: [1, 1, height, width] }, parseLayout("S(2)"));
  const y = blurred(x);
  const split = await replicate(y).data();
  const whole = await blurred(tensor(image, { shape: [1, 1, height, width] })).data();
  const difference = Math.max(...whole.map((value, index) => Math.abs(value - split[index]!)));
  if (runtime.rank === 0)
    console.log(`x ${formatLayout(x.value.layout)}, y ${formatLayout(y.value.layout)}: differs by ${difference}`);
}
