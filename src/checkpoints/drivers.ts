/** @module The drivers of places for checkpoints, by the scheme of an address. A path without a scheme is a folder of this machine. */
import { resolve } from "node:path";
import { HeddleError } from "../util/errors.ts";
import { shown } from "../util/show.ts";
import { listed } from "../util/text.ts";
import { localStorage } from "./local.ts";
import { s3Driver } from "./s3.ts";
import type { Storage, StorageDriver } from "./storage.ts";

const drivers = new Map<string, StorageDriver>([[s3Driver.scheme, s3Driver]]);

/** Adds a driver; a driver of the same scheme is replaced. @throws HeddleError `option` for a malformed scheme */
export function registerStorage(driver: StorageDriver): void {
  if (!/^[a-z][a-z0-9+.-]*$/.test(driver?.scheme) || typeof driver.open !== "function")
    throw new HeddleError(
      "option",
      "registerStorage: takes { scheme, open }, with a scheme of small letters such as s3",
    );
  drivers.set(driver.scheme, driver);
}

const schemeOf = (place: string): string | undefined => /^([a-z][a-z0-9+.-]*):\/\//.exec(place)?.[1];

/** Whether a place is a folder or file of this machine. */
export const isLocal = (place: string): boolean => schemeOf(place) === undefined;

/** The absolute form of a place: the path of a folder, or an address without slashes at its end. */
export const absolutePlace = (place: string): string => (isLocal(place) ? resolve(place) : place.replace(/\/+$/, ""));

/** Opens a place. @throws HeddleError `option` for a scheme without a driver */
export async function openStorage(place: string): Promise<Storage> {
  if (typeof place !== "string" || place === "" || place.includes("\0"))
    throw new HeddleError("argument", `openStorage: takes a folder or an address, got ${shown(place)}`);
  const scheme = schemeOf(place);
  if (scheme === undefined) return localStorage(place);
  const driver = drivers.get(scheme);
  if (driver !== undefined) return driver.open(absolutePlace(place));
  throw new HeddleError("option", `checkpoints cannot be kept at ${place}: no driver for ${scheme}://`, {
    hint: `schemes are ${listed([...drivers.keys()])}; registerStorage adds one`,
  });
}
