/** @module Folders of images: a folder for each class; `sharp` decodes PNG, JPEG, WebP and more. */
import { readdirSync, statSync } from "node:fs";
import { stat } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { HeddleError } from "../../util/errors.ts";
import { checkInteger, checkOptions } from "../../util/options.ts";
import { shown } from "../../util/show.ts";
import { type OnBad, treatBad } from "../records/apply.ts";
import { type Among, hashOf } from "../records/identity.ts";
import { someNode } from "../records/node.ts";
import type { Piece } from "../records/piece.ts";
import { pickedNode, Records } from "../records/records.ts";
import { packageNamed } from "./bytes.ts";

/** Options of {@link images}. */
export interface ImagesOptions {
  /** Height and width that each image is brought to, the middle of it; default the size of each image. */
  readonly size?: readonly [height: number, width: number];
  /** 1 for grey, 3 for colour; default 3. */
  readonly channels?: 1 | 3;
  /**
   * What happens to an image that cannot be decoded: `"fail"` (default), `"skip"` leaves it out, a function hears of the error and the
   * image is left out. Where images may be left out, only reading tells how many there are.
   */
  readonly onBad?: OnBad;
  /** Pixels of an image, at most; default 2^26. */
  readonly mostPixels?: number;
}

/** An image with its class. */
export interface ImageRow {
  /** u8 `[channels, height, width]`. */
  readonly x: Uint8Array;
  /** The number of the class: the place of its folder among all, by name. */
  readonly y: number;
  /** The name of the class. */
  readonly label: string;
  readonly path: string;
}

type Sharp = (path: string, options: { readonly limitInputPixels: number; readonly failOn: "error" }) => Pipeline;
interface Pipeline {
  rotate(): Pipeline;
  resize(width: number, height: number, options: { readonly fit: "cover" }): Pipeline;
  toColourspace(space: "b-w" | "srgb"): Pipeline;
  removeAlpha(): Pipeline;
  raw(): Pipeline;
  toBuffer(options: { readonly resolveWithObject: true }): Promise<{
    readonly data: Buffer;
    readonly info: { readonly width: number; readonly height: number; readonly channels: number };
  }>;
}

const isImage = /\.(png|jpe?g|webp|gif|tiff?|avif)$/i;
/** Images that are decoded at once. */
const decodedAtOnce = 16;

/**
 * The images of a folder with a folder for each class, such as `pets/cat/1.jpg`, by class and name. Images are decoded when they are
 * read, and can be picked by number: a shuffle is one of all orders. Needs the package `sharp`.
 *
 * @throws HeddleError `file` when the folder has no folder with images
 */
export function images(folder: string, options: ImagesOptions = {}): Records<ImageRow> {
  if (typeof folder !== "string" || folder === "")
    throw new HeddleError("argument", `images: takes the path of a folder, got ${shown(folder)}`);
  checkOptions("images", options, ["size", "channels", "onBad", "mostPixels"]);
  const { size, channels = 3, onBad = "fail", mostPixels = 2 ** 26 } = options;
  if (channels !== 1 && channels !== 3)
    throw new HeddleError("option", `images: channels must be 1 or 3, got ${String(channels)}`);
  if (size !== undefined && !(Array.isArray(size) && size.length === 2))
    throw new HeddleError("option", `images: size must be [height, width], got ${shown(size)}`);
  if (onBad !== "fail" && onBad !== "skip" && typeof onBad !== "function")
    throw new HeddleError("option", `images: onBad must be "fail", "skip" or a function, got ${shown(onBad)}`);
  checkInteger("images", "mostPixels", mostPixels, 1);
  size?.forEach((side, at) => {
    checkInteger("images", `size[${at}]`, side, 1, 2 ** 14);
  });
  const { classes, files } = found(folder);
  const sharp = packageNamed<Sharp>("sharp", "decode images");
  const decode = async (path: string): Promise<Uint8Array> => {
    let pipeline = sharp(path, { limitInputPixels: mostPixels, failOn: "error" }).rotate();
    if (size !== undefined) pipeline = pipeline.resize(size[1], size[0], { fit: "cover" });
    const made = pipeline
      .removeAlpha()
      .toColourspace(channels === 1 ? "b-w" : "srgb")
      .raw();
    const { data, info } = await made.toBuffer({ resolveWithObject: true });
    return Object.assign(planes(data, info.width * info.height, info.channels, channels), {
      shape: [channels, info.height, info.width],
    });
  };
  const pick = async (rows: ArrayLike<number>): Promise<Piece> => {
    const chosen = Array.from(rows, (row) => files[row] as (typeof files)[number]);
    const decoded: (Uint8Array | undefined)[] = [];
    for (let from = 0; from < chosen.length; from += decodedAtOnce)
      decoded.push(
        ...(await Promise.all(
          chosen.slice(from, from + decodedAtOnce).map(async ({ path }) => {
            try {
              return await decode(path);
            } catch (cause) {
              treatBad(onBad, new HeddleError("format", `images: ${path}: ${(cause as Error).message}`, { cause }));
              return undefined;
            }
          }),
        )),
      );
    const kept = chosen.filter((_file, at) => decoded[at] !== undefined);
    return {
      length: kept.length,
      columns: {
        x: decoded.filter((image) => image !== undefined),
        y: Int32Array.from(kept, ({ y }) => y),
        label: kept.map(({ y }) => classes[y]),
        path: kept.map(({ path }) => path),
      },
      place: (index) => kept[index]?.path ?? "",
    };
  };
  const isExact = onBad === "fail";
  const how = `${channels} ${size?.join("x") ?? ""} ${mostPixels} ${isExact ? "fail" : "skip"}`;
  const contents = async (among: Among): Promise<string> => {
    const found: string[] = [];
    for (const { path } of files) {
      const { size: bytes, mtimeMs } = await stat(path);
      found.push(`${relative(folder, path)} ${bytes} ${among === "runs" ? mtimeMs : ""}`);
    }
    return hashOf(found);
  };
  const chain = [`images ${folder} ${files.length} ${how}`, contents];
  return new Records<ImageRow>(
    isExact ? pickedNode(chain, files.length, pick) : someNode(chain, { count: files.length, pick }),
  );
}

/** Pixels as planes, one for each channel. */
function planes(data: Buffer, pixels: number, from: number, to: number): Uint8Array {
  const out = new Uint8Array(pixels * to);
  for (let channel = 0; channel < to; channel++) {
    const source = Math.min(channel, from - 1);
    for (let pixel = 0; pixel < pixels; pixel++) out[channel * pixels + pixel] = data[pixel * from + source] as number;
  }
  return out;
}

function found(folder: string): { classes: string[]; files: { path: string; y: number }[] } {
  const names = (path: string): string[] => {
    try {
      return readdirSync(path).sort();
    } catch (cause) {
      throw new HeddleError("file", `images: cannot read ${resolve(path)}: ${(cause as Error).message}`, { cause });
    }
  };
  const classes = names(folder).filter((name) => statSync(join(folder, name)).isDirectory());
  const files = classes.flatMap((name, y) =>
    names(join(folder, name))
      .filter((file) => isImage.test(file))
      .map((file) => ({ path: join(folder, name, file), y })),
  );
  if (files.length === 0)
    throw new HeddleError("file", `images: ${resolve(folder)} has no folders with images`, {
      hint: "images lie in a folder for each class: pets/cat/1.jpg",
    });
  return { classes, files };
}
