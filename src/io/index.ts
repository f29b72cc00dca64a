/** @module Files that other programs read and write: safetensors, npy and npz, ONNX, Caffe's networks. */
import "../checkpoints/weights.ts";

export {
  type CaffeNet,
  type CaffePhase,
  type CaffeTraining,
  loadCaffe,
  parseCaffeNet,
  parseCaffeSolver,
} from "../adapters/caffe/net.ts";
export type { CaffeSolver, Multipliers } from "../adapters/caffe/solver.ts";
export { type ExportableFunction, type ExportOnnxOptions, exportOnnx, saveOnnx } from "../adapters/onnx/export.ts";
export type { OpenType } from "../adapters/onnx/export-open.ts";
export {
  loadOnnx,
  type OnnxInputs,
  OnnxModel,
  type OnnxOptions,
  type OnnxPort,
  parseOnnx,
} from "../adapters/onnx/import.ts";
export { onnxOps } from "../adapters/onnx/ops.ts";
export { type TensorOrHost, toHost, toTensor } from "./host-tensors.ts";
export { type LoadPyTorchOptions, type LoadVariablesOptions, loadPyTorch, loadVariables } from "./load-variables.ts";
export { type ReadMatrixOptions, readMatrix } from "./matrices.ts";
export {
  decodeNpy,
  encodeNpy,
  type NpyColumnOptions,
  npyColumn,
  type ReadNpyOptions,
  readNpy,
  writeNpy,
} from "./npy.ts";
export {
  decodeNpz,
  encodeNpz,
  type ReadNpzOptions,
  readNpz,
  type WriteNpzOptions,
  writeNpz,
} from "./npz.ts";
export {
  decodeSafetensors,
  encodeSafetensors,
  type HostTensor,
  type HostTensors,
  openSafetensors,
  type ReadSafetensorsOptions,
  readSafetensors,
  type SafetensorsEntry,
  type SafetensorsFile,
  type SafetensorsMetadata,
  type SaveSafetensorsOptions,
  saveSafetensors,
} from "./safetensors.ts";
export { loadFrame, type SavedFrame } from "./saved-frame.ts";
export {
  type LoadedModel,
  loadModel,
  modelMetadata,
  type SavedInput,
  type SaveModelOptions,
  saveModel,
} from "./saved-model.ts";
export { loadTensors, saveTensors } from "./state-dict.ts";
