/** @module Verification of programs: the properties that lowering and every executor rely on. */

import { opNamed } from "../ir/op.ts";
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import { verifyGraph } from "../ir/verify.ts";
import { HeddleError } from "../util/errors.ts";
import type { BranchStep, CollectiveStep, LoopStep, Program, RunStep, ValueId, WorkStep } from "./program.ts";
import { programsOf, stepsWithin } from "./program.ts";

/**
 * Verifies a program: every value is defined once and before its use, freed once and after its last use; types agree
 * with regions and collectives; donated buffers fit their outputs.
 *
 * @throws HeddleError `verify` naming the program, the step and the problem.
 */
export function verifyProgram(program: Program): void {
  new ProgramVerifier(program).verify();
}

class ProgramVerifier {
  private readonly program: Program;
  private readonly state = new Map<ValueId, "defined" | "freed">();
  private where = "inputs";

  constructor(program: Program) {
    this.program = program;
  }

  verify(): void {
    const { program } = this;
    program.inputs.forEach((input, id) => {
      this.define(id, input.type);
    });
    program.steps.forEach((step, index) => {
      this.where = `step ${index} (${step.kind === "collective" ? step.op : step.kind})`;
      if (step.kind === "free") this.free(step.values);
      else this.types(step);
    });
    this.where = "outputs";
    for (const output of program.outputs) {
      this.use(output.value);
      if (!sameType(output.type, this.typeOf(output.value)))
        this.fail(`'${output.name}' is not ${formatType(this.typeOf(output.value))}`);
    }
    this.donations();
  }

  private types(step: WorkStep): void {
    for (const value of step.arguments) this.use(value);
    const argumentTypes = step.arguments.map((value) => this.typeOf(value));
    const resultTypes = this.infer(step, argumentTypes);
    if (resultTypes.length !== step.results.length)
      this.fail(`gives ${resultTypes.length} results, ${step.results.length} are named`);
    step.results.forEach((value, index) => {
      this.define(value, resultTypes[index] as TensorType);
    });
  }

  private infer(step: WorkStep, argumentTypes: readonly TensorType[]): readonly TensorType[] {
    for (const program of programsOf(step)) {
      verifyProgram(program);
      if (
        program.axes.some(
          ({ name, size }, index) => name !== this.program.axes[index]?.name || size !== this.program.axes[index]?.size,
        )
      )
        this.fail(`'${program.name}' is for a mesh with other axes`);
      if (program.donated.some((donor) => donor !== undefined)) this.fail(`'${program.name}' donates its inputs`);
    }
    switch (step.kind) {
      case "run":
        return this.region(step, argumentTypes);
      case "collective":
        return this.collective(step, argumentTypes);
      case "loop":
        return this.loop(step, argumentTypes);
      case "branch":
        return this.branch(step, argumentTypes);
    }
  }

  private loop(step: LoopStep, argumentTypes: readonly TensorType[]): TensorType[] {
    const { body, condition, length, carries, slices } = step;
    if ((length === undefined) === (condition === undefined)) this.fail("needs either a length or a condition");
    if (length !== undefined && (!Number.isInteger(length) || length < 0)) this.fail(`cannot run ${length} times`);
    if (condition !== undefined && slices > 0) this.fail("cannot slice without a length");
    const bodyTypes = argumentTypes.map((type, index): TensorType => {
      if (index < carries || index >= carries + slices) return type;
      if (type.shape[0] !== length) this.fail(`%${step.arguments[index]} ${formatType(type)} has no ${length} slices`);
      return { dtype: type.dtype, shape: type.shape.slice(1) };
    });
    const bodyArguments: TensorType[] = [{ dtype: "i32", shape: [] }, ...bodyTypes];
    this.takes(body, bodyArguments);
    const returned = body.outputs.map(({ type }) => type);
    if (returned.length < carries) this.fail(`the body returns ${returned.length} values for ${carries} carries`);
    if (condition === undefined)
      return returned.map((type, index) =>
        index < carries
          ? this.carried(type, argumentTypes, index)
          : { dtype: type.dtype, shape: [length as number, ...type.shape] },
      );
    this.takes(condition, bodyArguments);
    const [test, ...more] = condition.outputs.map(({ type }) => type);
    if (test === undefined || more.length > 0 || !sameType(test, { dtype: "bool", shape: [] }))
      this.fail("the condition does not return a bool scalar");
    if (returned.length > carries) this.fail("cannot stack values without a length");
    return returned.map((type, index) => this.carried(type, argumentTypes, index));
  }

  private carried(type: TensorType, argumentTypes: readonly TensorType[], index: number): TensorType {
    const before = argumentTypes[index] as TensorType;
    if (!sameType(type, before))
      this.fail(`carry ${index} is ${formatType(before)} before and ${formatType(type)} after`);
    return type;
  }

  private branch({ branches }: BranchStep, argumentTypes: readonly TensorType[]): TensorType[] {
    const [test, ...operands] = argumentTypes;
    if (test === undefined || !sameType(test, { dtype: "bool", shape: [] }))
      this.fail("the first argument is not a bool scalar");
    const [left, right] = branches.map((program) => {
      this.takes(program, operands);
      return program.outputs.map(({ type }) => type);
    }) as [TensorType[], TensorType[]];
    if (left.length !== right.length || !left.every((type, index) => sameType(type, right[index] as TensorType)))
      this.fail(`the branches return ${left.map(formatType).join(", ")} and ${right.map(formatType).join(", ")}`);
    return left;
  }

  private takes(program: Program, argumentTypes: readonly TensorType[]): void {
    const inputTypes = program.inputs.map(({ type }) => type);
    if (
      inputTypes.length !== argumentTypes.length ||
      !inputTypes.every((type, index) => sameType(type, argumentTypes[index] as TensorType))
    )
      this.fail(
        `'${program.name}' takes ${inputTypes.map(formatType).join(", ")}, gets ${argumentTypes.map(formatType).join(", ")}`,
      );
  }

  private region({ region }: RunStep, argumentTypes: readonly TensorType[]): TensorType[] {
    verifyGraph(region);
    const inputTypes = region.inputs.map((input) => input.types[0] as TensorType);
    if (
      inputTypes.length !== argumentTypes.length ||
      !inputTypes.every((type, index) => sameType(type, argumentTypes[index] as TensorType))
    ) {
      this.fail(
        `region takes ${inputTypes.map(formatType).join(", ")}, gets ${argumentTypes.map(formatType).join(", ")}`,
      );
    }
    return region.outputs.map((output) => output.types[0] as TensorType);
  }

  private collective(step: CollectiveStep, argumentTypes: readonly TensorType[]): readonly TensorType[] {
    const axis = this.program.axes.find((candidate) => candidate.name === step.axis);
    if (axis === undefined) this.fail(`there is no axis '${step.axis}'`);
    if (step.attrs["parts"] !== axis?.size)
      this.fail(`has ${String(step.attrs["parts"])} parts on an axis of ${axis?.size}`);
    const inferred: TensorType | readonly TensorType[] = opNamed(step.op).infer(argumentTypes, step.attrs);
    return Array.isArray(inferred) ? (inferred as readonly TensorType[]) : [inferred as TensorType];
  }

  private define(value: ValueId, type: TensorType): void {
    if (this.state.has(value)) this.fail(`%${value} is defined twice`);
    const listed = this.program.values[value];
    if (listed === undefined || !sameType(listed, type))
      this.fail(`%${value} is ${formatType(type)}, not ${listed === undefined ? "listed" : formatType(listed)}`);
    this.state.set(value, "defined");
  }

  private use(value: ValueId): void {
    if (!this.state.has(value)) this.fail(`%${value} is used before it is defined`);
    if (this.state.get(value) === "freed") this.fail(`%${value} is used after it is freed`);
  }

  private free(values: readonly ValueId[]): void {
    for (const value of values) {
      this.use(value);
      if (value < this.program.inputs.length) this.fail(`%${value} is an input: its buffer belongs to the caller`);
      this.state.set(value, "freed");
    }
  }

  private donations(): void {
    const { donated, inputs, outputs } = this.program;
    if (donated.length !== outputs.length)
      this.fail(`there are ${outputs.length} outputs but ${donated.length} donations`);
    const donors = new Set<number>();
    donated.forEach((donor, index) => {
      if (donor === undefined) return;
      const [input, output] = [inputs[donor], outputs[index] as (typeof outputs)[number]];
      if (input === undefined) this.fail(`output '${output.name}' takes over input ${donor}, which does not exist`);
      else if (!sameType(input.type, output.type)) {
        this.fail(
          `output '${output.name}' ${formatType(output.type)} cannot take over '${input.name}' ${formatType(input.type)}`,
        );
      }
      if (donors.has(donor)) this.fail(`two outputs take over input ${donor}`);
      donors.add(donor);
    });
  }

  private typeOf(value: ValueId): TensorType {
    return this.program.values[value] as TensorType;
  }

  private fail(message: string): never {
    throw new HeddleError("verify", `program '${this.program.name}', ${this.where}: ${message}`);
  }
}

/**
 * Verifies that the programs of several classes of devices run the same collectives in the same order.
 *
 * @throws HeddleError `verify` naming the first collective in which two differ.
 */
export function verifySameCollectives([first, ...others]: readonly Program[]): void {
  const collectives = (program: Program | undefined): string[] =>
    (program === undefined ? [] : stepsWithin(program)).flatMap((step) =>
      step.kind === "collective" ? [`${step.op} '${step.label}' on ${step.axis} of ${step.arguments.length}`] : [],
    );
  const expected = collectives(first);
  for (const program of others) {
    const actual = collectives(program);
    const differing = expected.findIndex((collective, index) => collective !== actual[index]);
    if (differing < 0 && actual.length === expected.length) continue;
    const index = differing < 0 ? expected.length : differing;
    throw new HeddleError(
      "verify",
      `program '${program.name}': one class of devices runs ${expected[index] ?? "nothing"}, another ${actual[index] ?? "nothing"}`,
    );
  }
}
