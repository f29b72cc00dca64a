/** @module The rows of a batch: copies each request's values in, and cuts each result out. */
import { converted, givenNumbers, type NestedNumbers } from "../functions/create.ts";
import { isTensor, type Tensor, tensor } from "../functions/index.ts";
import { dtypes, type TypedArray } from "../ir/dtype.ts";
import { formatShape, formatType, isTensorType, sameShape, sizeOf, type TensorType } from "../ir/shape.ts";
import { checkDType, checkShape } from "../tensor/arguments.ts";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { flattenTree, isRecord, type TreeShape, unflattenTree } from "../util/tree.ts";

/** A tree of types with a tensor in place of each type. */
export type TensorsOf<Types> = Types extends TensorType
  ? Tensor
  : { readonly [Key in keyof Types]: TensorsOf<Types[Key]> };

/** The example of a request: numbers in place of each type, nested in its shape or in one row-major array. */
export type Asked<Types> = Types extends TensorType
  ? NestedNumbers
  : { readonly [Key in keyof Types]: Asked<Types[Key]> };

/** The answer to a request: its row of each tensor, in row-major order, as the typed array that {@link Tensor.data} gives. */
export type Answer<Result> = Result extends Tensor
  ? TypedArray
  : Result extends object
    ? { readonly [Key in keyof Result]: Answer<Result[Key]> }
    : Result;

/** The checked values of one request, by input. */
export type Example = readonly TypedArray[];

/** The inputs of a batcher: their types, without the batch, as a flat list and a tree. */
export class Inputs {
  private readonly types: readonly TensorType[];
  private readonly paths: readonly string[];
  private readonly shape: TreeShape;

  /** @throws HeddleError `option` for a tree that does not consist of types; `dtype` or `shape` for a malformed type. */
  constructor(types: unknown) {
    const { leaves, paths, shape } = flattenTree(types, isTensorType);
    if (leaves.length === 0 || statics(shape).length > 0)
      throw new HeddleError("option", `batcher: input is ${shown(types)}, not the type of one example`, {
        hint: 'such as { shape: [28, 28], dtype: "u8" }, without the batch; for several inputs a record of types',
      });
    for (const { dtype, shape: typeShape } of leaves) {
      checkDType("batcher: input", dtype);
      checkShape("batcher: input", typeShape);
    }
    this.types = leaves;
    this.paths = paths;
    this.shape = shape;
  }

  /** The values of a request. @throws HeddleError `shape`, `dtype` or `argument` when they do not fit the inputs. */
  example(request: unknown): Example {
    const values: unknown[] = [];
    this.gather(this.shape, request, values);
    return this.types.map((type, index) => this.row(index, type, values[index] as NestedNumbers));
  }

  /** Examples as the tensors of a batch. The last example fills the remaining rows, since the model surely takes it. */
  batch(examples: readonly Example[], size: number): unknown {
    const tensors = this.types.map(({ shape, dtype }, index) => {
      const width = sizeOf(shape);
      const data = dtypes[dtype].create(size * width);
      for (let row = 0; row < size; row++)
        data.set((examples[row] ?? (examples.at(-1) as Example))[index] as TypedArray, row * width);
      return tensor(data, { shape: [size, ...shape], dtype });
    });
    return unflattenTree(this.shape, tensors);
  }

  /** An example of zeros. */
  zeros(): Example {
    return this.types.map(({ shape, dtype }) => dtypes[dtype].create(sizeOf(shape)));
  }

  private gather(shape: TreeShape, request: unknown, values: unknown[]): void {
    if (shape.kind === "leaf") {
      values.push(request);
      return;
    }
    if (shape.kind === "static") return;
    const keys = shape.kind === "array" ? Object.keys(shape.items) : shape.keys;
    const fits = shape.kind === "array" ? Array.isArray(request) : isRecord(request);
    if (!fits || `${Object.keys(request as object).sort()}` !== `${[...keys].sort()}`)
      throw new HeddleError(
        "argument",
        `predict: a request is ${shown(request)}, but it should have ${this.paths.join(", ")}`,
      );
    for (const [index, key] of keys.entries())
      this.gather(shape.items[index] as TreeShape, (request as Record<string, unknown>)[key], values);
  }

  private row(index: number, type: TensorType, values: NestedNumbers): TypedArray {
    const path = this.paths[index] as string;
    const what = path === "" ? "predict" : `predict: ${path}`;
    const { flat, shape, natural } = givenNumbers(what, values, type.dtype);
    if (flat.length !== sizeOf(type.shape) || (shape.length !== 1 && !sameShape(shape, type.shape)))
      throw new HeddleError(
        "shape",
        `${what}: a request gives ${formatType(type)}, got ${shape.length === 0 ? shown(values) : `values of ${formatShape(shape)}`}`,
        {
          hint: "a request is one example, without the batch",
        },
      );
    const ready = ArrayBuffer.isView(values) && natural === type.dtype;
    // A request waits: the caller may overwrite the array until then.
    return ready ? (flat as TypedArray).slice() : converted(what, type.dtype, flat);
  }
}

const statics = (shape: TreeShape): unknown[] =>
  shape.kind === "static" ? [shape.value] : shape.kind === "leaf" ? [] : shape.items.flatMap(statics);

/** The first `count` rows of a batch's results. @throws HeddleError `shape` for a result without the batch as first dim. */
export async function rowsOf(result: unknown, size: number, count: number): Promise<unknown[]> {
  const { leaves, shape } = flattenTree(result, isTensor);
  const wrong = leaves.find((leaf) => leaf.shape[0] !== size);
  if (leaves.length === 0 || wrong !== undefined)
    throw new HeddleError(
      "shape",
      `batcher: for a batch of ${size} the function gives ${wrong === undefined ? shown(result) : formatType(wrong)}`,
      { hint: "results have the batch as their first dim" },
    );
  const data = await Promise.all(leaves.map((leaf) => leaf.data()));
  for (const leaf of leaves) leaf.dispose();
  // Copies, so that whoever keeps one answer does not keep the others.
  const cut = (row: number) => (values: TypedArray) => {
    const width = values.length / size;
    return values.slice(row * width, (row + 1) * width);
  };
  return Array.from({ length: count }, (_unused, row) => unflattenTree(shape, data.map(cut(row))));
}
