/**
 * @module Heddle: define a model once; train it on one core or in many processes.
 *
 *     import { nn, optim, losses, data, train } from "heddle";
 */

export * as keras from "./adapters/keras/index.ts";
export * from "./browser.ts";
// With what reads files, in the place of that of a browser.
export * as data from "./data/index.ts";
export * as io from "./io/index.ts";
