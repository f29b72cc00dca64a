/** @module Source text under change: text is put around its pieces, and no piece moves to another line. */
import type * as babel from "@babel/types";
import MagicString from "magic-string";
import type { SyntaxNode } from "./syntax.ts";

export interface Transformed {
  readonly code: string;
  /** A source map of version 3 as JSON, with lines and columns of the user's file. */
  readonly map: string;
}

/** The text of a file, with the changes to it. */
export class Edited {
  protected readonly source: string;
  protected readonly file: string;
  private readonly text: MagicString;
  protected changed = false;
  /** Functions and imports that are appended to a file that was changed. */
  protected readonly helpers: Set<string> = new Set();

  constructor(source: string, file: string) {
    this.source = source;
    this.file = file;
    this.text = new MagicString(source);
  }

  result(): Transformed {
    const helper = `function $at(place) { return ${JSON.stringify(`${this.file}:`)} + place; }`;
    this.text.append(`\n${[...this.helpers, helper].join(" ")}\n`);
    const map = this.text.generateMap({ source: this.file, includeContent: true, hires: true });
    return { code: this.text.toString(), map: map.toString() };
  }

  /** Replaces the text between two pieces; its line ends stay. */
  protected between(start: number, end: number, text: string): void {
    this.changed = true;
    const lines = "\n".repeat(this.source.slice(start, end).split("\n").length - 1);
    if (start === end) this.text.appendLeft(start, text);
    else this.text.overwrite(start, end, text + lines);
  }

  protected before(node: SyntaxNode, text: string): void {
    this.changed = true;
    this.text.prependRight(node.start as number, text);
  }

  protected after(node: SyntaxNode, text: string): void {
    this.changed = true;
    this.text.appendLeft(node.end as number, text);
  }

  protected location(node: SyntaxNode): string {
    const { line, column } = (node.loc as babel.SourceLocation).start;
    return `${line}:${column + 1}`;
  }

  protected at = (node: SyntaxNode): string => `$at("${this.location(node)}")`;
}
