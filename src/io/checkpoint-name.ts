/** @module What checkpoints of a training are called: `step-00000468.safetensors`. */

const pattern = /^step-(\d{8,16})\.safetensors$/;

/** The name of the checkpoint of a step. */
export const checkpointFileName = (step: number): string => `step-${String(step).padStart(8, "0")}.safetensors`;

/** The step of a checkpoint by its name; undefined for another name. */
export function checkpointStep(name: string): number | undefined {
  const [, step] = pattern.exec(name) ?? [];
  return step === undefined ? undefined : Number(step);
}
