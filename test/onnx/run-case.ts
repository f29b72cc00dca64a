/** @module One node test of the package onnx: its model, read and run on its inputs, against its outputs. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isTensor, random, type Tensor } from "heddle";
import { type OnnxModel, parseOnnx } from "../../src/adapters/onnx/import.ts";
import { readTensorProto } from "../../src/adapters/onnx/messages.ts";
import { hostOfProto } from "../../src/adapters/onnx/tensors.ts";
import { toTensor } from "../../src/io/host-tensors.ts";
import { isFloat, isHalf } from "../../src/ir/dtype.ts";
import type { HostTensor } from "../../src/ir/node.ts";
import { HeddleError } from "../../src/util/errors.ts";

export interface Outcome {
  readonly kind: "passed" | "skipped" | "failed";
  /** Why it was skipped, or what differs. */
  readonly reason: string;
  readonly ops: readonly string[];
}

/** Why a case cannot be run, for errors that say what Heddle lacks; undefined for errors that are failures. */
function whySkipped(error: unknown): string | undefined {
  if (!(error instanceof HeddleError)) return undefined;
  const text = error.plain;
  const missing = / is ([\w.]+), which is not imported/.exec(text)?.[1];
  if (missing !== undefined) return `op not in the table: ${missing}`;
  const version = / is (\w+) of opset (\d+), of which versions/.exec(text);
  if (version !== null) return `version of opset ${version[2]}: ${version[1]}`;
  const dtype = / is ([\w ]+), which Heddle has no dtype for/.exec(text)?.[1] ?? /texts, which Heddle/.exec(text)?.[0];
  if (dtype !== undefined) return `dtype: ${dtype}`;
  if (text.includes("is not a tensor")) return "sequences and optional values";
  if (/uses opset (\d+)/.test(text)) return "opset below 7";
  const kernel = /no native kernel for (.*)/.exec(text)?.[1];
  if (kernel !== undefined) return `no native kernel: ${kernel}`;
  if (error.code === "dynamic") return "a shape that depends on values";
  return (
    /: ((?!.*: ).* not imported)/.exec(text)?.[1] ?? (text.includes("gives no result") ? "a second result" : undefined)
  );
}

function tensorsOf(folder: string, kind: "input" | "output", set: number): HostTensor[] {
  const names = readdirSync(folder).filter((name) => name.startsWith(`${set}-${kind}-`));
  return names.map((_name, index) => {
    const file = join(folder, `${set}-${kind}-${index}.pb`);
    return hostOfProto(readTensorProto(readFileSync(file), file), file);
  });
}

/** Runs a model; where a shape depends on an input, with the inputs that are small or whole numbers known. */
function outputsOf(model: OnnxModel, given: readonly HostTensor[]): Record<string, Tensor> {
  const named = (known: (host: HostTensor) => boolean) =>
    Object.fromEntries(
      model.inputs.map(({ name }, index) => {
        const host = given[index] as HostTensor;
        return [name, known(host) ? host : toTensor(host)];
      }),
    );
  const attempts = [
    () => false,
    ({ dtype }: HostTensor) => !isFloat(dtype),
    ({ data }: HostTensor) => data.length < 64,
  ];
  for (const [index, known] of attempts.entries()) {
    try {
      return model.run(named(known), { key: random.key(1) });
    } catch (error) {
      if (!(error instanceof HeddleError) || error.code !== "dynamic" || index === attempts.length - 1) throw error;
    }
  }
  throw new Error("unreachable");
}

/** What differs between two tensors; undefined where nothing does. */
function difference(
  got: HostTensor,
  wanted: HostTensor,
  [relative, absolute]: readonly [number, number],
): string | undefined {
  if (got.dtype !== wanted.dtype || got.shape.join() !== wanted.shape.join())
    return `${got.dtype}[${got.shape.join()}] instead of ${wanted.dtype}[${wanted.shape.join()}]`;
  for (let index = 0; index < wanted.data.length; index++) {
    const [left, right] = [Number(got.data[index]), Number(wanted.data[index])];
    if (Object.is(left, right) || left === right) continue;
    if (!(Number.isFinite(right) && Math.abs(left - right) <= absolute + relative * Math.abs(right)))
      return `[${index}] ${left} instead of ${right}`;
  }
  return undefined;
}

/**
 * The tolerances of a test. Values of 16-bit floats may differ by two in their last place: the package rounds a softmax at each of
 * its steps, Heddle once. A transform's values, those that ought to be 0 too, are rounded like its greatest one, in what the package holds for
 * right as well.
 */
function tolerances(folder: string, ops: readonly string[], { dtype, data }: HostTensor): [number, number] {
  const [given, absolute] = readFileSync(join(folder, "tolerance.txt"), "utf8").split(" ").map(Number) as [
    number,
    number,
  ];
  const twoPlaces = { bf16: 2 ** -6, f16: 2 ** -9 };
  const relative = isHalf(dtype) ? Math.max(given, twoPlaces[dtype]) : given;
  if (!ops.includes("DFT")) return [relative, absolute];
  return [relative, Math.max(absolute, 2 ** -23 * Math.max(...Array.from(data, (value) => Math.abs(Number(value)))))];
}

/** Ops whose numbers are another generator's in the package: of these, dtype, shape and range are compared. */
const drawing = ["Bernoulli", "RandomUniformLike"];

function outOfRange(got: HostTensor, wanted: HostTensor): string | undefined {
  const numbers = ({ data }: HostTensor): number[] => Array.from(data as ArrayLike<number>, Number);
  const [low, high] = [Math.min(...numbers(wanted)), Math.max(...numbers(wanted))];
  const typed = difference({ ...got, data: wanted.data }, wanted, [0, 0]);
  return typed ?? (numbers(got).some((value) => !(value >= low && value <= high)) ? "values out of range" : undefined);
}

/** Runs the case of a folder. */
export async function runCase(folder: string): Promise<Outcome> {
  const ops: string[] = [];
  try {
    const model = parseOnnx(readFileSync(join(folder, "model.onnx")), { file: "model.onnx" });
    ops.push(...model.ops);
    for (let set = 0; existsSync(join(folder, `${set}-output-0.pb`)); set++) {
      const outputs = outputsOf(model, tensorsOf(folder, "input", set));
      const wanted = tensorsOf(folder, "output", set);
      for (const [index, host] of wanted.entries()) {
        const name = model.outputs[index]?.name as string;
        const tensor = outputs[name];
        if (!isTensor(tensor)) return { kind: "failed", reason: `no output "${name}"`, ops };
        const { dtype, shape } = tensor;
        const got = { dtype, shape, data: await tensor.data() };
        const problem = ops.some((op) => drawing.includes(op))
          ? outOfRange(got, host)
          : difference(got, host, tolerances(folder, ops, host));
        if (problem !== undefined) return { kind: "failed", reason: `"${name}": ${problem}`, ops };
      }
    }
    return { kind: "passed", reason: "", ops };
  } catch (error) {
    const why = whySkipped(error);
    if (why !== undefined) return { kind: "skipped", reason: why, ops };
    return { kind: "failed", reason: (error as Error).message.split("\n")[0] as string, ops };
  }
}
