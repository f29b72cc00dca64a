/**
 * @module Conditions outside of "use heddle", where a tensor is an object and so true: the expressions that decide, so
 * that each can be checked at run time for being a tensor.
 */
import type * as babel from "@babel/types";
import {
  binary,
  childrenOf,
  constructs,
  declaredNames,
  equalities,
  isFunction,
  isTypeOnly,
  type SyntaxNode,
  scopeOf,
  unwrapped,
} from "./syntax.ts";

/** An expression that decides, and the construct that decides by it. */
export interface Condition {
  readonly node: SyntaxNode;
  readonly what: string;
}

/** Methods and functions whose results are bool tensors, whatever they are called on. */
const predicates: ReadonlySet<string | undefined> = new Set([
  ...["<", "<=", ">", ">="].map((operator) => binary[operator]),
  "eq",
  "ne",
  "not",
]);

/** Look-ups: a condition on their results asks whether something was found, a tensor or not. */
const lookups = new Set(["get", "at", "find", "findLast", "pop", "shift"]);

/** Methods of arrays whose callback decides: its result is a condition. */
const callbacks = new Set(["filter", "some", "every", "find", "findIndex", "findLast", "findLastIndex"]);

/** Functions whose first argument is a condition. */
const asserts = new Set(["Boolean", "assert", "assert.ok", "console.assert"]);

/** `f` of `f(…)`, `m` of `x.m(…)`. */
function calledName(node: SyntaxNode): string | undefined {
  if (node.type !== "CallExpression" && node.type !== "OptionalCallExpression") return undefined;
  const callee = unwrapped(node.callee);
  if (callee.type === "Identifier") return callee.name;
  const isMember = callee.type === "MemberExpression" || callee.type === "OptionalMemberExpression";
  return isMember && callee.property.type === "Identifier" ? callee.property.name : undefined;
}

/** The called name with its object: `assert.ok` for `assert.ok(x)`. */
const calledPath = ({ callee }: babel.CallExpression): string => memberPath(callee) || nameOf(callee);
const nameOf = (node: SyntaxNode): string => (node.type === "Identifier" ? node.name : "");

function walk(node: SyntaxNode, see: (node: SyntaxNode) => void): void {
  if (isTypeOnly(node)) return;
  see(node);
  for (const child of childrenOf(node)) walk(child, see);
}

/**
 * All expressions of a file that decide something and may be tensors: results of calls, and constants that hold the
 * result of a comparison, directly or as a member of an object literal.
 */
export function conditionsOf(program: SyntaxNode): Condition[] {
  const known: Known = { ...comparedNames(program), optional: optionalCalls(program) };
  const found = new Map<SyntaxNode, Condition>();
  const add = (test: SyntaxNode, what: string): void => {
    for (const node of leavesOf(test, known)) if (!found.has(node)) found.set(node, { node, what });
  };
  walk(program, (node) => {
    for (const { node: test, what } of deciding(node)) add(test, what);
  });
  return [...found.values()];
}

/**
 * Constants that hold the result of a comparison, and such members (`"o.done"`) of object literals without a declared
 * type. Names that the file binds twice are left out, since scopes are not followed here, and so are members that the
 * file assigns or deletes.
 */
function comparedNames(program: SyntaxNode): Pick<Known, "compared"> {
  const times = new Map<string, number>();
  const compared = new Map<string, string>();
  const changed = new Set<string>();
  walk(program, (node) => {
    for (const name of namesOf(node)) times.set(name, (times.get(name) ?? 0) + 1);
    if (node.type === "AssignmentExpression") changed.add(memberPath(node.left));
    if (node.type === "UnaryExpression" && node.operator === "delete") changed.add(memberPath(node.argument));
    if (node.type !== "VariableDeclaration" || node.kind !== "const") return;
    for (const { id, init } of node.declarations) {
      if (id.type !== "Identifier" || init == null) continue;
      if (isPredicate(init)) compared.set(id.name, id.name);
      if (id.typeAnnotation != null || init.type !== "ObjectExpression") continue;
      for (const member of init.properties)
        if (member.type === "ObjectProperty" && !member.computed && isPredicate(member.value))
          compared.set(`${id.name}.${nameOf(member.key)}`, id.name);
    }
  });
  const isSure = ([path, name]: [string, string]): boolean => times.get(name) === 1 && !changed.has(path);
  return { compared: new Set([...compared].filter(isSure).map(([path]) => path)) };
}

/** `o.done` for the member `done` of the name `o`; an empty text for other nodes. */
function memberPath(node: SyntaxNode): string {
  if (node.type !== "MemberExpression" || node.computed || node.object.type !== "Identifier") return "";
  return `${node.object.name}.${nameOf(node.property)}`;
}

/** The names that a node binds in its scope, or for the file. */
function namesOf(node: SyntaxNode): readonly string[] {
  if (node.type === "Program") return [...declaredNames(node.body)];
  if (node.type !== "ExportNamedDeclaration") return scopeOf(node);
  return node.declaration == null ? [] : [...declaredNames([node.declaration])];
}

/** The conditions of a node itself, without those of the nodes below. */
function deciding(node: SyntaxNode): Condition[] {
  switch (node.type) {
    case "IfStatement":
    case "WhileStatement":
    case "DoWhileStatement":
    case "ForStatement":
      return node.test == null ? [] : [{ node: node.test, what: constructs[node.type] as string }];
    case "ConditionalExpression":
      return [{ node: node.test, what: "? :" }];
    case "LogicalExpression":
      return node.operator === "??" ? [] : [{ node: node.left, what: node.operator }];
    case "UnaryExpression":
      return node.operator === "!" ? [{ node: node.argument, what: "!" }] : [];
    case "SwitchStatement":
      return [{ node: node.discriminant, what: "switch" }];
    case "BinaryExpression":
      return equalities.has(node.operator)
        ? [node.left, node.right].filter(isPredicate).map((side) => ({ node: side, what: node.operator }))
        : [];
    case "CallExpression":
    case "OptionalCallExpression":
      return decidingCall(node);
    default:
      return [];
  }
}

function decidingCall(node: babel.CallExpression | babel.OptionalCallExpression): Condition[] {
  const [first] = node.arguments;
  if (first === undefined) return [];
  if (node.type === "CallExpression" && asserts.has(calledPath(node))) return [{ node: first, what: calledPath(node) }];
  const name = calledName(node);
  if (name === undefined || node.callee.type === "Identifier" || !callbacks.has(name)) return [];
  return resultsOf(first).map((result) => ({ node: result, what: `.${name}` }));
}

/** The results of a synchronous function literal: its expression, or what its last statement returns. */
function resultsOf(callback: SyntaxNode): SyntaxNode[] {
  const isWritten = callback.type === "ArrowFunctionExpression" || callback.type === "FunctionExpression";
  if (!isWritten || callback.async || callback.generator === true) return [];
  const { body } = callback;
  if (body.type !== "BlockStatement") return [body];
  const last = body.body.at(-1);
  return last?.type === "ReturnStatement" && last.argument != null ? [last.argument] : [];
}

const isPredicate = (node: SyntaxNode): boolean => predicates.has(calledName(unwrapped(node)));

/** What is known of the names of a file. */
interface Known {
  readonly compared: ReadonlySet<string>;
  readonly optional: ReadonlySet<string>;
}

/**
 * Functions and methods of the file whose declared result may be undefined or null: a condition on their results asks
 * for that.
 */
function optionalCalls(program: SyntaxNode): ReadonlySet<string> {
  const optional = new Set<string>();
  walk(program, (node) => {
    const [key, value] =
      node.type === "VariableDeclarator" || node.type === "ClassProperty" || node.type === "ObjectProperty"
        ? [
            node.type === "VariableDeclarator" ? node.id : node.key,
            node.type === "VariableDeclarator" ? node.init : node.value,
          ]
        : [isFunction(node) && ("key" in node ? node.key : "id" in node ? node.id : undefined), node];
    if (typeof key === "object" && key?.type === "Identifier" && value != null && givesNothing(value))
      optional.add(key.name);
  });
  return optional;
}

function givesNothing(value: SyntaxNode): boolean {
  const type = "returnType" in value ? value.returnType : undefined;
  if (type?.type !== "TSTypeAnnotation" || type.typeAnnotation.type !== "TSUnionType") return false;
  return type.typeAnnotation.types.some((member) => ["TSUndefinedKeyword", "TSNullKeyword"].includes(member.type));
}

/** The parts of a condition that can be a tensor. */
function leavesOf(test: SyntaxNode, known: Known): SyntaxNode[] {
  const node = unwrapped(test);
  if (node.type === "LogicalExpression") return [node.left, node.right].flatMap((side) => leavesOf(side, known));
  if (node.type === "Identifier") return known.compared.has(node.name) ? [node] : [];
  if (node.type === "MemberExpression") return known.compared.has(memberPath(node)) ? [node] : [];
  if (node.type === "AwaitExpression") return leavesOf(node.argument, known).length === 0 ? [] : [node];
  const isCall = node.type === "CallExpression" || node.type === "OptionalCallExpression";
  const name = calledName(node) ?? "";
  return isCall && !lookups.has(name) && !known.optional.has(name) ? [node] : [];
}
