/** @module The version of this package, as in package.json, which a bundle lacks. */

/** The version of Heddle, such as `"0.1.0"`. */
export const version = "0.1.0";
