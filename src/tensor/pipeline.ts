/** @module Which stage of a pipeline has which of a function's values, by their names. */
import type { Graph, Node } from "../ir/node.ts";
import { sameType, type TensorType } from "../ir/shape.ts";
import type { PipelineOptions as PlannedBy } from "../plan/index.ts";
import { asRecord } from "../util/options.ts";

/** What makes a function a pipeline. */
export interface FunctionPipeline extends Pick<PlannedBy, "microBatches" | "schedule" | "costs"> {
  /**
   * Stage of an input by its dotted path (`"params.0.weight"`); undefined: every stage holds it. What an optimizer keeps
   * for a parameter follows it: an input whose path ends in that of a parameter is where the parameter is.
   */
  readonly stages: (path: string) => number | undefined;
  /** Whether dim 0 of an input is cut into micro-batches. */
  readonly batch: (path: string) => boolean;
}

/** What the planner is told of a pipeline's inputs, whose last ones may be captured values, and outputs. */
export function pipelineOf(
  { inputs, outputs }: Graph,
  paths: readonly string[],
  outputPaths: readonly string[],
  options: FunctionPipeline,
): PlannedBy {
  asRecord("compilePipeline", options);
  const { microBatches, schedule, costs } = options;
  const types = (nodes: readonly Node[]): TensorType[] => nodes.map((node) => node.types[0] as TensorType);
  const captured = inputs.slice(paths.length);
  return {
    ...{ microBatches, schedule, costs },
    stages: [...stagesOf(paths, options.stages), ...captured.map(() => undefined)],
    batch: [...paths.map(options.batch), ...captured.map(() => false)],
    updates: updatesOf(paths, outputPaths, types(inputs), types(outputs)),
  };
}

/** The path without the argument that it is in. */
const tailOf = (path: string): string => path.split(".").slice(1).join(".");

/** A parameter's stage, and for what ends in a parameter's path (an optimizer's velocity) that of the parameter. */
function stagesOf(paths: readonly string[], given: (path: string) => number | undefined): (number | undefined)[] {
  const said = paths.map(given);
  const parameters = paths.flatMap((path, index) =>
    said[index] === undefined || tailOf(path) === "" ? [] : [{ tail: tailOf(path), stage: said[index] }],
  );
  return paths.map((path, index) => {
    const owner = parameters
      .filter(({ tail }) => path.endsWith(`.${tail}`))
      .sort((one, other) => other.tail.length - one.tail.length)[0];
    return said[index] ?? owner?.stage;
  });
}

/** For each output the input of the same path (whatever the argument is called) and type. */
function updatesOf(
  inputs: readonly string[],
  outputs: readonly string[],
  inputTypes: readonly TensorType[],
  outputTypes: readonly TensorType[],
): (number | undefined)[] {
  const free = new Set(inputs.keys());
  const fits = (input: number, output: number): boolean =>
    sameType(inputTypes[input] as TensorType, outputTypes[output] as TensorType);
  const result = new Array<number | undefined>(outputs.length).fill(undefined);
  const same: ((input: string, output: string) => boolean)[] = [
    (input, output) => input === output,
    (input, output) => tailOf(output) !== "" && tailOf(input) === tailOf(output),
    (input, output) => tailOf(input) === output,
  ];
  for (const matches of same)
    outputs.forEach((path, output) => {
      if (result[output] !== undefined) return;
      const found = [...free].find((input) => matches(inputs[input] as string, path) && fits(input, output));
      if (found === undefined) return;
      result[output] = found;
      free.delete(found);
    });
  return result;
}
