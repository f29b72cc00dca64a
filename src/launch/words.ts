/** @module Words of options that hold several. */

/** The words of a text, separated by spaces; none of an absent text. */
export const wordsOf = (text = ""): string[] => text.split(/\s+/).filter((word) => word !== "");
