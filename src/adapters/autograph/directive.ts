/** @module The directive alone, for code that only looks whether a file has it. */

/** The directive that asks for the transform, at the top of a file or of a function. */
export const directive = "use heddle";
