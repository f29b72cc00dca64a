/**
 * @module Programs that copy a value at one coordinate of an axis to all devices: the holder sends it to the others in turn.
 */
import { traceGraph } from "../ir/graph.ts";
import { range, type TensorType } from "../ir/shape.ts";
import { type Layout, localType, replicate, withPlacement } from "../plan/layout.ts";
import { coordinatesOf, deviceCount, type Mesh, type MeshAxis } from "../plan/mesh.ts";
import type { PlannedValue } from "../plan/plan.ts";
import { ProgramBuilder } from "../program/builder.ts";
import type { DeviceProgram } from "../program/index.ts";
import type { Runtime } from "../runtime/devices.ts";
import { meshOf } from "../runtime/mesh.ts";
import { type Compiled, loadPlanned, type PlannedPrograms } from "./compile.ts";

/** Compiles the copy of a value in a layout such as `O(1)` to all devices of that axis; its other placements stay. */
export const compileSpread = (type: TensorType, layout: Layout, axis: number, runtime: Runtime): Compiled =>
  loadPlanned(planSpread(type, layout, axis, meshOf(runtime)), runtime);

function planSpread(type: TensorType, layout: Layout, axis: number, mesh: Mesh): PlannedPrograms {
  const { name: stageAxis, size } = mesh.axes[axis] as MeshAxis;
  const { coordinate: holder } = layout[axis] as Layout[number] & { readonly kind: "only" };
  const everywhere = withPlacement(layout, axis, replicate);
  const name = "replicate";
  const local = { name: "x", type: localType(type, everywhere, mesh) };
  const value = { key: "input 0", type: local.type };
  const source = { name, axes: mesh.axes, stageAxis, inputs: [local], outputs: [local], donated: [undefined] };
  const builders = range(size).map(() => new ProgramBuilder(source));
  builders.forEach((builder, peer) => {
    if (peer === holder) return;
    builders[holder]?.send(peer, [value], name);
    builder.receive(holder, [value], name);
  });
  const keyOf = (): string => value.key;
  const programs = builders.map((builder, coordinate): DeviceProgram => {
    const devices = range(deviceCount(mesh)).filter((device) => coordinatesOf(mesh, device)[axis] === coordinate);
    return { ...builder.finish(keyOf, () => true), devices };
  });
  const input: PlannedValue = { name: "x", type, layout };
  const graph = traceGraph(name, [local], (x) => [x]);
  const plan = { name, mesh, formats: [], inputs: [input], outputs: [{ ...input, layout: everywhere }], local: graph };
  // The messages are steps of the programs, not nodes of a graph.
  return { plan: { ...plan, classes: [] }, programs, program: (programs[holder] as DeviceProgram).program };
}
