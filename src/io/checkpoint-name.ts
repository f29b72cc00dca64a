/** @module What checkpoints of a training are called: `step-00000468.safetensors`, or in parts the folder `step-00000468`. */

const pattern = /^step-(\d{8,16})(\.safetensors)?$/;

const stem = (step: number): string => `step-${String(step).padStart(8, "0")}`;

/** The name of the checkpoint of a step in one file. */
export const checkpointFileName = (step: number): string => `${stem(step)}.safetensors`;

/** The name of the folder of a step's checkpoint in parts. */
export const checkpointFolderName = stem;

/** The step of a checkpoint in one file by its name; undefined for another name. */
export function checkpointStep(name: string): number | undefined {
  const [, step, ending] = pattern.exec(name) ?? [];
  return step === undefined || ending === undefined ? undefined : Number(step);
}

/** The step of a checkpoint in parts by the name of its folder; undefined for another name. */
export function checkpointFolderStep(name: string): number | undefined {
  const [, step, ending] = pattern.exec(name) ?? [];
  return step === undefined || ending !== undefined ? undefined : Number(step);
}

/** The file by which such a folder is a checkpoint. */
export const manifestName = "manifest.json";
