/** @module Layers as data: the functions of `nn` that made them and what these were given, as plain values that a file holds, and back. */
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import type { Plain } from "../util/text.ts";
import { isRecord } from "../util/tree.ts";
import { layersWithin } from "./composite.ts";
import { isLayerLike, type Layer, recipeOf } from "./layer.ts";

/** Marks of what JSON has no value for; names of options do not begin so. */
const marks = { layer: "$layer", again: "$again", number: "$number" } as const;

/**
 * A layer as data. One that stands in several places is there once. What first values are drawn by (the option `init`) is left out:
 * whoever reads the data has values.
 *
 * @throws HeddleError `model` naming the layer that code of the user's makes
 */
export function layerAsData(what: string, layer: Layer): Plain {
  for (const [name, one] of [["", layer] as const, ...layersWithin(layer)])
    if (recipeOf(one) === undefined) throw notOurs(what, name, one);
  const known = new Map<Layer, number>();
  const encode = (value: unknown, name: string): Plain => {
    if (isLayerLike(value) && typeof value !== "function") {
      const before = known.get(value);
      if (before !== undefined) return { [marks.again]: before };
      const recipe = recipeOf(value);
      if (recipe === undefined) throw notOurs(what, name, value);
      known.set(value, known.size);
      return { [marks.layer]: recipe.make, args: recipe.args.map((one) => encode(one, recipe.make)) };
    }
    if (typeof value === "number" && !Number.isFinite(value)) return { [marks.number]: String(value) };
    if (value === undefined) return null;
    if (value === null || ["number", "string", "boolean"].includes(typeof value)) return value as Plain;
    if (Array.isArray(value)) return value.map((one: unknown) => encode(one, name));
    if (isRecord(value)) {
      const own = Object.entries(value).filter(([key, one]) => key !== "init" && one !== undefined);
      return Object.fromEntries(own.map(([key, one]) => [key, encode(one, `${name}: ${key}`)]));
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
 * The layer of data that {@link layerAsData} gave. Nothing is called but functions of `makers` that are named in the data, and what they
 * give must be a layer that says that they made it.
 *
 * @throws what `problem` makes for other data; what the functions throw
 */
export function layerOfData(data: unknown, makers: Makers, problem: (what: string) => HeddleError): Layer {
  const known: Layer[] = [];
  const decode = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(decode);
    if (!isRecord(value)) return value;
    const { [marks.layer]: make, [marks.again]: again, [marks.number]: number } = value;
    if (number !== undefined) return Number(number);
    if (again !== undefined) return known[again as number] ?? fail("a layer that is not there is named again");
    if (make === undefined) return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, decode(one)]));
    const place = known.length;
    // Its number comes before those of the layers inside.
    known.length++;
    const layer = made(make, value["args"]);
    known[place] = layer;
    return layer;
  };
  const fail = (what: string): never => {
    throw problem(what);
  };
  const made = (make: unknown, args: unknown): Layer => {
    const maker = typeof make === "string" && Object.hasOwn(makers, make) ? makers[make] : undefined;
    if (typeof maker !== "function" || !Array.isArray(args)) return fail(`there is no layer ${shown(make)}`);
    const given = args.map(decode);
    while (given.at(-1) === null) given.pop();
    const layer: unknown = maker(...given);
    const isOurs = isLayerLike(layer) && typeof layer !== "function" && recipeOf(layer)?.make === make;
    return isOurs ? (layer as Layer) : fail(`${make as string} makes no layer`);
  };
  const layer = decode(data);
  return isLayerLike(layer) && typeof layer !== "function" ? layer : fail("it holds no layer");
}
