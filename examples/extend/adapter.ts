/**
 * Your own adapter: reads networks of another library, here as JSON, into a model with its weights. An error names the file, the
 * mistake and a remedy. Heddle's own adapters are written in the same way.
 *
 *     npx heddle run examples/extend/adapter.ts     # reads a network for XOR, and a network with a mistake; 2 s
 */
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { io, nn, tensor } from "heddle";
import { called, checkOptions, checkRecognised, HeddleError, isRecord, nearest, readWhole, shown } from "heddle/extend";

/** The layers of the format, by type. */
const kinds: { readonly [type: string]: (layer: { readonly [field: string]: unknown }) => nn.Layer } = {
  dense: ({ units }) => nn.linear(units as number),
  tanh: () => nn.tanh(),
  sigmoid: () => nn.sigmoid(),
};

function layerOf(layer: { readonly [field: string]: unknown }, file: string): nn.Layer {
  const type = String(layer["type"]);
  const make = Object.hasOwn(kinds, type) ? kinds[type] : undefined;
  if (make !== undefined) return make(layer);
  const suggestion = nearest(type, Object.keys(kinds));
  throw new HeddleError("format", `${file}: there is no layer of type ${shown(type)}`, {
    hint: suggestion === undefined ? `types are ${Object.keys(kinds).join(", ")}` : `did you mean '${suggestion}'?`,
  });
}

/** A network of a file `{ input, layers, weights }`: a model, and its variables. */
function loadNetwork(path: string, options: { readonly name?: string } = {}) {
  return called(async () => {
    checkOptions("loadNetwork", options, ["name"]);
    const { name = path } = options;
    const bytes = await readWhole("loadNetwork", path);
    checkRecognised(bytes, name, "network", ["json"]);
    const { input, layers, weights } = JSON.parse(new TextDecoder().decode(bytes));
    if (!Array.isArray(layers) || !isRecord(weights))
      throw new HeddleError("format", `${name} is not a valid network: it has no layers, or no weights`);
    const model = nn.sequential(...layers.map((layer) => layerOf(layer, name)));
    // The format has weights as [in, out] under names of its own; what does not fit the model is told with both sides.
    const tensors = new Map(
      Object.entries(weights as { readonly [name: string]: { shape: number[]; values: number[] } }).map(
        ([key, { shape, values }]) => [key, { dtype: "f32" as const, shape, data: Float32Array.from(values) }],
      ),
    );
    const variables = await io.loadVariables(tensors, model, {
      input: [1, ...input],
      transpose: "**.weight",
      names: (parameterName) => parameterName.replace("weight", "kernel"),
    });
    return { model, variables };
  });
}

const network = {
  input: [2],
  layers: [{ type: "dense", units: 2 }, { type: "tanh" }, { type: "dense", units: 1 }, { type: "sigmoid" }],
  weights: {
    "0.kernel": { shape: [2, 2], values: [4, 4, 4, 4] },
    "0.bias": { shape: [2], values: [-2, -6] },
    "2.kernel": { shape: [2, 1], values: [8, -8] },
    "2.bias": { shape: [1], values: [-8] },
  },
};
const path = join(await mkdtemp(join(tmpdir(), "network-")), "xor.json");
await writeFile(path, JSON.stringify(network));
const { model, variables } = await loadNetwork(path);
const { y } = model.apply(
  variables,
  tensor([
    [0, 0],
    [0, 1],
    [1, 0],
    [1, 1],
  ]),
);
console.log(`xor ${(await y.round().data()).join(" ")}`);

await writeFile(path, JSON.stringify({ ...network, layers: [{ type: "dens", units: 2 }] }));
await loadNetwork(path, { name: "xor.json" }).catch((error: HeddleError) =>
  console.log(`${error.plain}: ${error.hint}`),
);
