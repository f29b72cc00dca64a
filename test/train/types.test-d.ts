/** What must not compile. Nothing here is run: `tsc` fails when an expected error is missing. */
import { data, grad, jit, jvp, losses, nn, optim, type Tensor, tensor, train, vjp, vmap } from "heddle";

const model = nn.sequential(nn.flatten(), nn.linear(10), (x) => x.relu());
const batches = data.mnist("train").batch(128);
const loss = losses.softmaxCrossEntropy;
const optimizer = optim.sgd({ learningRate: 0.01 });
const x = tensor([1, 2]);

export async function training(): Promise<void> {
  const result = await train({ model, data: batches, loss, optimizer, epochs: 1 });
  result.accuracy satisfies number | undefined;
  result.history.map((record) => record.validation?.loss satisfies number | undefined);
  (await result.predict(batches)) satisfies Tensor;

  // @ts-expect-error there is no option 'epoch'
  await train({ model, data: batches, loss, optimizer, epochs: 1, epoch: 1 });
  // @ts-expect-error epochs are missing
  await train({ model, data: batches, loss, optimizer });
  // @ts-expect-error a loss is a function of two tensors
  await train({ model, data: batches, loss: "mse", optimizer, epochs: 1 });
  // @ts-expect-error a loss returns a tensor
  await train({ model, data: batches, loss: () => 1, optimizer, epochs: 1 });
  // @ts-expect-error the dtype of a run is f32 or f64
  await train({ model, data: batches, loss, optimizer, epochs: 1, dtype: "i32" });
  // @ts-expect-error a result is not changed
  result.steps = 1;
  // @ts-expect-error predictions are of datasets and tensors
  await result.predict([1, 2]);
}

export function layers(): void {
  // @ts-expect-error the option is called strides
  nn.conv2d({ out: 1, kernel: 3, stride: 2 });
  // @ts-expect-error a kernel has a size
  nn.conv2d({ out: 1 });
  // @ts-expect-error padding is a size, "same" or "valid"
  nn.conv2d({ out: 1, kernel: 3, padding: "full" });
  // @ts-expect-error layers, not numbers
  nn.sequential(nn.linear(3), 4);
  // @ts-expect-error a function layer returns a tensor
  nn.sequential((y: Tensor) => y.shape);
  // @ts-expect-error parameters are not changed
  nn.linear(1).init(x, { shape: [1, 1], dtype: "f32" }).params["weight"] = x;
}

export function optimizers(): void {
  // @ts-expect-error a learning rate is needed
  optim.adam({});
  // @ts-expect-error two betas
  optim.adam({ learningRate: 1, betas: [0.9] });
  const params = { w: x };
  optimizer.update(params, {}, params, { step: 0 }).params.w satisfies Tensor;
  // @ts-expect-error gradients have the form of the parameters
  optimizer.update({ v: x }, {}, params, { step: 0 });
  // @ts-expect-error the step is needed
  optimizer.update(params, {}, params, {});
}

export function transforms(): void {
  const pair = (a: Tensor, b: { c: Tensor }): { y: Tensor } => ({ y: a.mul(b.c) });
  vmap(pair, { inDims: [0, { c: null }], outDims: { y: 1 } })(x, { c: x }).y satisfies Tensor;
  jvp(pair, [x, { c: x }], [x, { c: x }]).tangent.y satisfies Tensor;
  vjp(pair, x, { c: x }).pullback({ y: x })[1].c satisfies Tensor;
  // @ts-expect-error the batched function takes what the function takes
  vmap(pair)(x, x);
  // @ts-expect-error dims are numbers or null
  vmap(pair, { inDims: "0" });
  // @ts-expect-error there is no option inAxes
  vmap(pair, { inAxes: 0 });
  // @ts-expect-error a tangent for each argument
  jvp(pair, [x, { c: x }], [x]);
  // @ts-expect-error a cotangent has the form of the result
  vjp(pair, x, { c: x }).pullback(x);
  // @ts-expect-error arguments of the function
  vjp(pair, x);
}

export function tensors(): void {
  // @ts-expect-error there is no dtype f128
  tensor([1], { dtype: "f128" });
  // @ts-expect-error strings are no numbers
  tensor(["1"]);
  // @ts-expect-error the shape of a tensor is fixed
  x.shape = [1];
  // @ts-expect-error a matrix product is of tensors
  x.matmul(2);
  // @ts-expect-error the function's argument is a tensor
  grad((y: Tensor) => y.sum())(3);
  // @ts-expect-error what is compiled keeps its type
  jit((y: Tensor) => y.add(1))(x) satisfies number;
  // @ts-expect-error reductions are known by name
  losses.mse(x, x, { reduction: "max" });
  // @ts-expect-error a batch has a size
  data.mnist("train").batch();
}
