/** @module Source as a syntax tree, and the directive that asks for its transform. */
import { type ParserPlugin, parse } from "@babel/parser";
import type * as babel from "@babel/types";
import { HeddleError } from "../../extend/browser.ts";
import { directive } from "./directive.ts";

export { directive };

/** Whether the directives of a file or a function include {@link directive}. */
export const hasDirective = (directives: readonly babel.Directive[]): boolean =>
  directives.some(({ value }) => value.value === directive);

function pluginsOf(file: string): ParserPlugin[] {
  const typed = /\.[cm]?tsx?$/.test(file);
  return [
    ...(typed ? (["typescript"] as const) : []),
    ...(/\.[jt]sx$|\.[cm]?js$/.test(file) ? (["jsx"] as const) : []),
  ];
}

/**
 * The syntax tree of a file.
 *
 * @throws HeddleError `syntax` with the place where it cannot be parsed.
 */
export function parsed(source: string, file: string): babel.File {
  try {
    return parse(source, {
      sourceType: "module",
      plugins: [...pluginsOf(file), "explicitResourceManagement"],
      createParenthesizedExpressions: true,
      allowReturnOutsideFunction: true,
    });
  } catch (error) {
    const { loc, message } = error as { loc?: { line: number; column: number }; message: string };
    throw new HeddleError("syntax", message.replace(/ \(\d+:\d+\)$/, ""), {
      where: loc === undefined ? file : `${file}:${loc.line}:${loc.column + 1}`,
    });
  }
}
