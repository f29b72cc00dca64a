/** @module Layers as data: writes the functions of `nn` that made layers, and their arguments, as plain values for a file, and reads them. */
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import type { Plain } from "../util/text.ts";
import { isRecord } from "../util/tree.ts";
import { layersWithin } from "./composite.ts";
import { isLayerLike, type Layer, recipeOf } from "./layer.ts";

/** Marks for values that JSON lacks. No option's name begins with a dollar. */
const marks = { layer: "$layer", again: "$again", number: "$number" } as const;

/**
 * A layer as data. A layer that stands in several places is written once. The option `init` is left out: whoever reads the data has
 * values for the parameters.
 *
 * @throws HeddleError `model` that names a layer made by the user's code
 */
export function layerAsData(what: string, layer: Layer): Plain {
  for (const [name, inner] of [["", layer] as const, ...layersWithin(layer)])
    if (recipeOf(inner) === undefined) throw notOurs(what, name, inner);
  const ordinals = new Map<Layer, number>();
  const encode = (value: unknown, name: string): Plain => {
    if (isLayerLike(value) && typeof value !== "function") {
      const ordinal = ordinals.get(value);
      if (ordinal !== undefined) return { [marks.again]: ordinal };
      const recipe = recipeOf(value);
      if (recipe === undefined) throw notOurs(what, name, value);
      ordinals.set(value, ordinals.size);
      return { [marks.layer]: recipe.make, args: recipe.args.map((argument) => encode(argument, recipe.make)) };
    }
    if (typeof value === "number" && !Number.isFinite(value)) return { [marks.number]: String(value) };
    if (value === undefined) return null;
    if (value === null || ["number", "string", "boolean"].includes(typeof value)) return value as Plain;
    if (Array.isArray(value)) return value.map((element: unknown) => encode(element, name));
    if (isRecord(value)) {
      const fields = Object.entries(value).filter(([key, field]) => key !== "init" && field !== undefined);
      return Object.fromEntries(fields.map(([key, field]) => [key, encode(field, `${name}: ${key}`)]));
    }
    throw new HeddleError("model", `${what}: ${name} is ${shown(value)}, which a file of layers cannot hold`, { hint });
  };
  return encode(layer, layer.kind);
}

const hint =
  "keep the code that makes the model, write its variables alone (io.saveTensors, checkpoints), and read them by io.loadVariables(path, model)";

function notOurs(what: string, name: string, layer: Layer): HeddleError {
  const which = name === "" ? `this ${layer.kind}` : `layer ${name} (${layer.kind})`;
  return new HeddleError(
    "model",
    `${what}: ${which} is made by code of yours (a function, nn.module, a layer of your own), which a file cannot hold`,
    { hint },
  );
}

/** The functions that make layers, by name. */
export type Makers = { readonly [name: string]: unknown };

/**
 * Makes the layer from data of {@link layerAsData}. Only functions of `makers` are called, and each must return a layer whose recipe
 * names that function.
 *
 * @throws the error of `problem` for malformed data; errors of the functions
 */
export function layerOfData(data: unknown, makers: Makers, problem: (what: string) => HeddleError): Layer {
  const decodedLayers: Layer[] = [];
  const decode = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(decode);
    if (!isRecord(value)) return value;
    const { [marks.layer]: make, [marks.again]: ordinal, [marks.number]: number } = value;
    if (number !== undefined) return Number(number);
    if (ordinal !== undefined)
      return decodedLayers[ordinal as number] ?? fail("it refers to a layer that it does not hold");
    if (make === undefined)
      return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, decode(field)]));
    const index = decodedLayers.length;
    // A layer is numbered before the layers inside it.
    decodedLayers.length++;
    const layer = makeLayer(make, value["args"]);
    decodedLayers[index] = layer;
    return layer;
  };
  const fail = (what: string): never => {
    throw problem(what);
  };
  const makeLayer = (make: unknown, args: unknown): Layer => {
    const maker = typeof make === "string" && Object.hasOwn(makers, make) ? makers[make] : undefined;
    if (typeof maker !== "function" || !Array.isArray(args)) return fail(`there is no layer ${shown(make)}`);
    const decodedArgs = args.map(decode);
    while (decodedArgs.at(-1) === null) decodedArgs.pop();
    const layer: unknown = maker(...decodedArgs);
    const isOurs = isLayerLike(layer) && typeof layer !== "function" && recipeOf(layer)?.make === make;
    return isOurs ? (layer as Layer) : fail(`${make as string} makes no layer`);
  };
  const layer = decode(data);
  return isLayerLike(layer) && typeof layer !== "function" ? layer : fail("it holds no layer");
}
