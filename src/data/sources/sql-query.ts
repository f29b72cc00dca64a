/** @module Whether a text is one SQL query: by its words, before a database sees it. */
import { HeddleError } from "../../util/errors.ts";

/** The first words of queries in DuckDB, SQLite or PostgreSQL. */
const queries = new Set([
  "select",
  "with",
  "values",
  "table",
  "from",
  "pivot",
  "unpivot",
  "summarize",
  "describe",
  "show",
]);
/** Statements that change something and may stand where queries do. */
const changes = new Set(["insert", "update", "delete", "merge", "replace"]);
/** What follows a function or a column that has such a name; after the first word of a statement comes another word, or a name. */
const afterName = /^[(),.+\-*/%=<>!|&~^:#@]/;

/**
 * The parts of a statement: comments, quoted texts and names (a text with a prefix E has backslashes, one in dollars has neither), words, and other
 * characters.
 */
const parts =
  /--[^\n]*|\/\*[\s\S]*?\*\/|\bE'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\$([a-z_]\w*)?\$[\s\S]*?\$\1\$|[a-z_][\w$]*|\S/gi;

/**
 * Refuses what is not one query: a query runs for each epoch, so it must change nothing. A function that a query calls may still do so.
 *
 * @throws HeddleError `argument` that names the statement
 */
export function checkQuery(query: string): void {
  const words = [...query.matchAll(parts)]
    .map(([part]) => part.toLowerCase())
    .filter((part) => !/^(--|\/\*)/.test(part));
  while (words.at(-1) === ";") words.pop();
  if (words.length === 0) throw new HeddleError("argument", "sql: takes a query, got comments alone");
  if (words.includes(";"))
    throw new HeddleError("argument", "sql: takes one query, got several statements", {
      hint: "run the others by the connection before",
    });
  const found = statementIn(words);
  if (found === undefined) return;
  throw new HeddleError("argument", `sql: takes a query, got ${found.toUpperCase()}: it would run in each epoch`, {
    hint: "run it by the connection, and pass a query of what it leaves, such as SELECT",
  });
}

/** The first word of a statement that is no query, if there is one. */
function statementIn(words: readonly string[]): string | undefined {
  const first = words.find((word) => word !== "(") ?? "(";
  if (!queries.has(first)) return first;
  let depth = 0;
  let isDecided = first !== "with";
  for (const [at, word] of words.entries()) {
    if (word === "(") depth++;
    else if (word === ")") depth--;
    // PostgreSQL takes a statement that changes something as a part of a query.
    else if (words[at - 1] === "(" && changes.has(word) && !afterName.test(words[at + 1] ?? ")")) return word;
    // After its parts comes what WITH is for.
    else if (!isDecided && depth === 0 && at > 0 && (changes.has(word) || queries.has(word))) {
      if (changes.has(word)) return word;
      isDecided = true;
    }
  }
  return undefined;
}
