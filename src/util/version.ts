/** @module The version of this package, as package.json has it: a file that a bundle lacks. */

/** The version of Heddle, such as `"0.1.0"`. */
export const version = "0.1.0";
