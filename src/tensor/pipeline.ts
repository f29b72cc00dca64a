/** @module The stages of a pipeline's values, by the names of the values. */
import type { Graph, Node } from "../ir/node.ts";
import { sameType, type TensorType } from "../ir/shape.ts";
import type { PipelineOptions as PlannedBy } from "../plan/index.ts";
import { asRecord } from "../util/options.ts";

/** Options that make a function a pipeline. */
export interface FunctionPipeline extends Pick<PlannedBy, "microBatches" | "schedule" | "costs" | "gatherEach"> {
  /**
   * The stage of an input by its dotted path (`"params.0.weight"`); undefined: every stage holds it. Optimizer state
   * follows its parameter: an input whose path ends in a parameter's path is on the parameter's stage.
   */
  readonly stages: (path: string) => number | undefined;
  /** Whether dim 0 of an input is cut into micro-batches. */
  readonly batch: (path: string) => boolean;
}

/** The planner's options for a pipeline's inputs, the last of which may be captured values, and its outputs. */
export function pipelineOf(
  { inputs, outputs }: Graph,
  paths: readonly string[],
  outputPaths: readonly string[],
  options: FunctionPipeline,
): PlannedBy {
  asRecord("compilePipeline", options);
  const { microBatches, schedule, costs, gatherEach } = options;
  const types = (nodes: readonly Node[]): TensorType[] => nodes.map((node) => node.types[0] as TensorType);
  const captured = inputs.slice(paths.length);
  return {
    ...{ microBatches, schedule, costs, gatherEach },
    stages: [...stagesOf(paths, options.stages), ...captured.map(() => undefined)],
    batch: [...paths.map(options.batch), ...captured.map(() => false)],
    updates: updatesOf(paths, outputPaths, types(inputs), types(outputs)),
  };
}

/** The path without the argument's name. */
const tailOf = (path: string): string => path.split(".").slice(1).join(".");

/** The stages of inputs: as the user says, or that of the parameter in whose path the input's path ends (optimizer state). */
function stagesOf(paths: readonly string[], stageOf: (path: string) => number | undefined): (number | undefined)[] {
  const stages = paths.map(stageOf);
  const parameters = paths.flatMap((path, index) =>
    stages[index] === undefined || tailOf(path) === "" ? [] : [{ tail: tailOf(path), stage: stages[index] }],
  );
  return paths.map((path, index) => {
    const owner = parameters
      .filter(({ tail }) => path.endsWith(`.${tail}`))
      .sort((a, b) => b.tail.length - a.tail.length)[0];
    return stages[index] ?? owner?.stage;
  });
}

/** For each output, the input with the same path (apart from the argument's name) and type. */
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
  const rules: ((input: string, output: string) => boolean)[] = [
    (input, output) => input === output,
    (input, output) => tailOf(output) !== "" && tailOf(input) === tailOf(output),
    (input, output) => tailOf(input) === output,
  ];
  for (const matches of rules)
    outputs.forEach((path, output) => {
      if (result[output] !== undefined) return;
      const found = [...free].find((input) => matches(inputs[input] as string, path) && fits(input, output));
      if (found === undefined) return;
      result[output] = found;
      free.delete(found);
    });
  return result;
}
