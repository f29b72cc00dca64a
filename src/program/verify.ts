/** @module Checks that a program is whole: what lowering and every executor may rely on. */

import { opNamed } from "../ir/op.ts";
import { formatType, sameType, type TensorType } from "../ir/shape.ts";
import { verifyGraph } from "../ir/verify.ts";
import { HeddleError } from "../util/errors.ts";
import type { BranchStep, CollectiveStep, LoopStep, Program, RunStep, ValueId, WorkStep } from "./program.ts";
import { programsOf, stepsWithin } from "./program.ts";

/**
 * Verifies a program: every value is defined once and before its use, freed once and after its last use; types agree
 * with regions and collectives; donated buffers fit.
 *
 * @throws HeddleError `verify` naming the program, the step and what is wrong.
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
    const given = step.arguments.map((value) => this.typeOf(value));
    const made = this.made(step, given);
    if (made.length !== step.results.length)
      this.fail(`gives ${made.length} results, ${step.results.length} are named`);
    step.results.forEach((value, index) => {
      this.define(value, made[index] as TensorType);
    });
  }

  private made(step: WorkStep, given: readonly TensorType[]): readonly TensorType[] {
    for (const program of programsOf(step)) {
      verifyProgram(program);
      if (
        program.axes.some(
          ({ name, size }, index) => name !== this.program.axes[index]?.name || size !== this.program.axes[index]?.size,
        )
      )
        this.fail(`'${program.name}' is for other axes`);
      if (program.donated.some((donor) => donor !== undefined)) this.fail(`'${program.name}' donates its inputs`);
    }
    switch (step.kind) {
      case "run":
        return this.region(step, given);
      case "collective":
        return this.collective(step, given);
      case "loop":
        return this.loop(step, given);
      case "branch":
        return this.branch(step, given);
    }
  }

  private loop(step: LoopStep, given: readonly TensorType[]): TensorType[] {
    const { body, condition, length, carries, slices } = step;
    if ((length === undefined) === (condition === undefined)) this.fail("needs either a length or a condition");
    if (length !== undefined && (!Number.isInteger(length) || length < 0)) this.fail(`cannot run ${length} times`);
    if (condition !== undefined && slices > 0) this.fail("cannot slice without a length");
    const taken = given.map((type, place): TensorType => {
      if (place < carries || place >= carries + slices) return type;
      if (type.shape[0] !== length) this.fail(`%${step.arguments[place]} ${formatType(type)} has no ${length} slices`);
      return { dtype: type.dtype, shape: type.shape.slice(1) };
    });
    const all: TensorType[] = [{ dtype: "i32", shape: [] }, ...taken];
    this.takes(body, all);
    const made = body.outputs.map(({ type }) => type);
    if (made.length < carries) this.fail(`the body gives ${made.length} values for ${carries} carries`);
    if (condition === undefined)
      return made.map((type, place) =>
        place < carries
          ? this.carried(type, given, place)
          : { dtype: type.dtype, shape: [length as number, ...type.shape] },
      );
    this.takes(condition, all);
    const [test, ...more] = condition.outputs.map(({ type }) => type);
    if (test === undefined || more.length > 0 || !sameType(test, { dtype: "bool", shape: [] }))
      this.fail("the condition does not give a bool scalar");
    if (made.length > carries) this.fail("cannot stack values without a length");
    return made.map((type, place) => this.carried(type, given, place));
  }

  private carried(type: TensorType, given: readonly TensorType[], place: number): TensorType {
    const before = given[place] as TensorType;
    if (!sameType(type, before))
      this.fail(`carry ${place} is ${formatType(before)} before and ${formatType(type)} after`);
    return type;
  }

  private branch({ branches }: BranchStep, given: readonly TensorType[]): TensorType[] {
    const [test, ...operands] = given;
    if (test === undefined || !sameType(test, { dtype: "bool", shape: [] }))
      this.fail("the first argument is no bool scalar");
    const [left, right] = branches.map((program) => {
      this.takes(program, operands);
      return program.outputs.map(({ type }) => type);
    }) as [TensorType[], TensorType[]];
    if (left.length !== right.length || !left.every((type, place) => sameType(type, right[place] as TensorType)))
      this.fail(`the branches give ${left.map(formatType).join(", ")} and ${right.map(formatType).join(", ")}`);
    return left;
  }

  private takes(program: Program, given: readonly TensorType[]): void {
    const wanted = program.inputs.map(({ type }) => type);
    if (wanted.length !== given.length || !wanted.every((type, index) => sameType(type, given[index] as TensorType)))
      this.fail(
        `'${program.name}' takes ${wanted.map(formatType).join(", ")}, gets ${given.map(formatType).join(", ")}`,
      );
  }

  private region({ region }: RunStep, given: readonly TensorType[]): TensorType[] {
    verifyGraph(region);
    const wanted = region.inputs.map((input) => input.types[0] as TensorType);
    if (wanted.length !== given.length || !wanted.every((type, index) => sameType(type, given[index] as TensorType))) {
      this.fail(`region takes ${wanted.map(formatType).join(", ")}, gets ${given.map(formatType).join(", ")}`);
    }
    return region.outputs.map((output) => output.types[0] as TensorType);
  }

  private collective(step: CollectiveStep, given: readonly TensorType[]): readonly TensorType[] {
    const axis = this.program.axes.find((one) => one.name === step.axis);
    if (axis === undefined) this.fail(`there is no axis '${step.axis}'`);
    if (step.attrs["parts"] !== axis?.size)
      this.fail(`has ${String(step.attrs["parts"])} parts on an axis of ${axis?.size}`);
    const made: TensorType | readonly TensorType[] = opNamed(step.op).infer(given, step.attrs);
    return Array.isArray(made) ? (made as readonly TensorType[]) : [made as TensorType];
  }

  private define(value: ValueId, type: TensorType): void {
    if (this.state.has(value)) this.fail(`%${value} is defined twice`);
    const said = this.program.values[value];
    if (said === undefined || !sameType(said, type))
      this.fail(`%${value} is ${formatType(type)}, not ${said === undefined ? "listed" : formatType(said)}`);
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
    const taken = new Set<number>();
    donated.forEach((donor, index) => {
      if (donor === undefined) return;
      const [input, output] = [inputs[donor], outputs[index] as (typeof outputs)[number]];
      if (input === undefined) this.fail(`output '${output.name}' takes over input ${donor}, which does not exist`);
      else if (!sameType(input.type, output.type)) {
        this.fail(
          `output '${output.name}' ${formatType(output.type)} cannot take over '${input.name}' ${formatType(input.type)}`,
        );
      }
      if (taken.has(donor)) this.fail(`two outputs take over input ${donor}`);
      taken.add(donor);
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
 * Verifies that the programs of several classes of devices meet in the same collectives in the same order.
 *
 * @throws HeddleError `verify` naming the first collective in which two differ.
 */
export function verifyTogether([first, ...others]: readonly Program[]): void {
  const meetings = (program: Program | undefined): string[] =>
    (program === undefined ? [] : stepsWithin(program)).flatMap((step) =>
      step.kind === "collective" ? [`${step.op} '${step.label}' on ${step.axis} of ${step.arguments.length}`] : [],
    );
  const expected = meetings(first);
  for (const other of others) {
    const found = meetings(other);
    const at = expected.findIndex((one, index) => one !== found[index]);
    if (at < 0 && found.length === expected.length) continue;
    const place = at < 0 ? expected.length : at;
    throw new HeddleError(
      "verify",
      `program '${other.name}': one class of devices is in ${expected[place] ?? "nothing"}, another in ${found[place] ?? "nothing"}`,
    );
  }
}
