/** @module Questions about pieces of a syntax tree: what they assign, declare, and jump out of. */
import type * as babel from "@babel/types";

export type SyntaxNode = babel.Node;

/** The child nodes of a node. */
export function childrenOf(node: SyntaxNode): SyntaxNode[] {
  const children: SyntaxNode[] = [];
  for (const [key, value] of Object.entries(node)) {
    if (key === "loc" || key.endsWith("Comments") || key === "extra" || key === "errors") continue;
    for (const child of Array.isArray(value) ? value : [value])
      if (typeof child === "object" && child !== null && typeof (child as SyntaxNode).type === "string")
        children.push(child);
  }
  return children;
}

/** The functions of `operators.ts` that operators become. */
export const binary: { readonly [operator: string]: string } = {
  "+": "add",
  "-": "sub",
  "*": "mul",
  "/": "div",
  "%": "rem",
  "**": "pow",
  "<": "lt",
  "<=": "le",
  ">": "gt",
  ">=": "ge",
};

/** Operators that only numbers have. */
export const numericOnly: ReadonlySet<string> = new Set(["&", "|", "^", "<<", ">>", ">>>"]);
/** Operators of equality. */
export const equalities: ReadonlySet<string> = new Set(["===", "!==", "==", "!="]);

/** Statements that the transform turns into calls. */
export type Construct =
  | babel.IfStatement
  | babel.WhileStatement
  | babel.DoWhileStatement
  | babel.ForStatement
  | babel.ForOfStatement;

/** The keywords of these statements. */
export const constructs: { readonly [type: string]: string } = {
  IfStatement: "if",
  WhileStatement: "while",
  DoWhileStatement: "do",
  ForStatement: "for",
  ForOfStatement: "for",
};
export const isConstruct = (node: SyntaxNode): node is Construct => node.type in constructs;

const functions = new Set([
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
  "ObjectMethod",
  "ClassMethod",
  "ClassPrivateMethod",
]);
export const isFunction = (node: SyntaxNode): boolean => functions.has(node.type);

const loops = new Set(["WhileStatement", "DoWhileStatement", "ForStatement", "ForOfStatement", "ForInStatement"]);
export const isLoop = (node: SyntaxNode): boolean => loops.has(node.type);

const wrappers = new Set([
  "TSAsExpression",
  "TSNonNullExpression",
  "TSSatisfiesExpression",
  "TSTypeAssertion",
  "TSInstantiationExpression",
]);

/** Whether a node is there for the type checker alone. */
export const isTypeOnly = (node: SyntaxNode): boolean => node.type.startsWith("TS") && !wrappers.has(node.type);

/** Whether a node or one below it passes the test; functions inside are not searched. */
export function contains(node: SyntaxNode, is: (node: SyntaxNode) => boolean): boolean {
  if (is(node)) return true;
  return childrenOf(node).some((child) => !isFunction(child) && contains(child, is));
}

/**
 * Whether a declaration is neither `let` nor `const`: variables of `var` belong to the function, those of `using` end
 * with the block.
 */
export const isVar = (node: SyntaxNode): boolean =>
  node.type === "VariableDeclaration" && node.kind !== "let" && node.kind !== "const";

/** Whether control may leave a statement other than at its end. */
export function jumps(
  node: SyntaxNode,
  within: { loop: boolean; breakable: boolean } = { loop: false, breakable: false },
): boolean {
  if (isFunction(node) || isTypeOnly(node)) return false;
  if (node.type === "ReturnStatement") return true;
  if (node.type === "BreakStatement") return !within.breakable || node.label != null;
  if (node.type === "ContinueStatement") return !within.loop || node.label != null;
  const inner = {
    loop: within.loop || isLoop(node),
    breakable: within.breakable || isLoop(node) || node.type === "SwitchStatement",
  };
  return childrenOf(node).some((child) => jumps(child, inner));
}

/** Names that a pattern binds. */
export function boundNames(pattern: SyntaxNode | null | undefined): string[] {
  if (pattern == null) return [];
  if (pattern.type === "Identifier") return [pattern.name];
  if (pattern.type === "ObjectPattern")
    return pattern.properties.flatMap((property) =>
      boundNames(property.type === "RestElement" ? property.argument : property.value),
    );
  if (pattern.type === "ArrayPattern") return pattern.elements.flatMap((element) => boundNames(element));
  if (pattern.type === "AssignmentPattern") return boundNames(pattern.left);
  if (pattern.type === "RestElement") return boundNames(pattern.argument);
  return pattern.type === "TSParameterProperty" ? boundNames(pattern.parameter) : [];
}

const declaredBy = (node: SyntaxNode): string[] => {
  if (node.type === "VariableDeclaration") return node.declarations.flatMap(({ id }) => boundNames(id));
  return (node.type === "FunctionDeclaration" || node.type === "ClassDeclaration") && node.id != null
    ? [node.id.name]
    : [];
};

/** Names that belong to a node's own scope. */
export function scopeOf(node: SyntaxNode): string[] {
  if (node.type === "BlockStatement") return node.body.flatMap(declaredBy);
  if (node.type === "SwitchStatement") return node.cases.flatMap((clause) => clause.consequent.flatMap(declaredBy));
  if (node.type === "ForStatement") return node.init == null ? [] : declaredBy(node.init);
  if (node.type === "ForOfStatement" || node.type === "ForInStatement") return declaredBy(node.left);
  if (node.type === "CatchClause") return boundNames(node.param);
  if (isFunction(node)) return (node as babel.Function).params.flatMap((parameter) => boundNames(parameter));
  return [];
}

/** The targets of an assignment or update: variables, members or patterns. */
function targetsOf(node: SyntaxNode): SyntaxNode[] {
  if (node.type === "UpdateExpression") return [node.argument];
  if (node.type === "AssignmentExpression") return [node.left];
  const assigns = node.type === "ForOfStatement" || node.type === "ForInStatement";
  return assigns && node.left.type !== "VariableDeclaration" ? [node.left] : [];
}

/** Names of variables that the nodes assign and that are declared outside of them, in the order of first assignment. */
export function assignedNames(nodes: readonly SyntaxNode[], local: ReadonlySet<string>): string[] {
  const found = new Set<string>();
  const visit = (node: SyntaxNode, hidden: ReadonlySet<string>): void => {
    if (isTypeOnly(node)) return;
    const bound = scopeOf(node);
    const scope = bound.length === 0 ? hidden : new Set([...hidden, ...bound]);
    for (const target of targetsOf(node)) for (const name of boundNames(target)) if (!scope.has(name)) found.add(name);
    for (const child of childrenOf(node)) visit(child, scope);
  };
  for (const node of nodes) visit(node, local);
  return [...found];
}

/** Names that the statements of a list declare. */
export const declaredNames = (nodes: readonly SyntaxNode[]): Set<string> => new Set(nodes.flatMap(declaredBy));

/** Whether an identifier with one of these names stands in a node or below it. */
export const mentions = (node: SyntaxNode, names: ReadonlySet<string>): boolean =>
  (node.type === "Identifier" && names.has(node.name)) || childrenOf(node).some((child) => mentions(child, names));

/** Whether a function inside a node closes over one of the names. */
export const closesOver = (node: SyntaxNode, names: ReadonlySet<string>): boolean =>
  childrenOf(node).some((child) => (isFunction(child) ? mentions(child, names) : closesOver(child, names)));

/** An expression without parentheses and what only the type checker reads. */
export function unwrapped(node: SyntaxNode): SyntaxNode {
  const inner = node.type === "ParenthesizedExpression" || wrappers.has(node.type);
  return inner ? unwrapped((node as babel.ParenthesizedExpression).expression) : node;
}

const calls = new Set(["CallExpression", "OptionalCallExpression", "NewExpression", "TaggedTemplateExpression"]);

/** The called member with its object: ["console", "log"] for `console.log(x)`; undefined for other calls. */
function memberOf(node: SyntaxNode): readonly [object: string | undefined, property: string] | undefined {
  if (node.type !== "CallExpression" || node.callee.type !== "MemberExpression") return undefined;
  const { object, property } = node.callee;
  if (property.type !== "Identifier") return undefined;
  return [object.type === "Identifier" ? object.name : undefined, property.name];
}

/**
 * Calls in an expression statement, which are made for their effects alone. Printing is allowed: it may happen twice.
 */
function idleCalls(expression: SyntaxNode): SyntaxNode[] {
  const node = unwrapped(expression);
  if (node.type === "SequenceExpression") return node.expressions.flatMap(idleCalls);
  if (node.type === "LogicalExpression") return idleCalls(node.right);
  if (node.type === "ConditionalExpression") return [node.consequent, node.alternate].flatMap(idleCalls);
  if (node.type === "UnaryExpression") return idleCalls(node.argument);
  if (!calls.has(node.type)) return [];
  const member = memberOf(node);
  if (member !== undefined && (member[0] === "console" || mutators.has(member[1]))) return [];
  return calledName(node) === boundCall ? [] : [node];
}

/** The expressions that a node evaluates for their effects alone. */
function idleExpressions(node: SyntaxNode): SyntaxNode[] {
  if (node.type === "ExpressionStatement") return [node.expression];
  if (node.type !== "ForStatement") return [];
  return [node.init, node.update].filter((part) => part != null && part.type !== "VariableDeclaration") as SyntaxNode[];
}

const mutators = new Set(["push", "pop", "shift", "unshift", "splice"]);
/** Methods of maps, sets and arrays that change what they are called on; their results may be used all the same. */
const changing = new Set(["set", "delete", "clear", "copyWithin"]);

/** The call that bounds a loop: it changes no value of the program. */
const boundCall = "maxIterations";

/** The name of a called function or method. */
const calledName = (node: SyntaxNode): string | undefined =>
  node.type === "CallExpression" && node.callee.type === "Identifier" ? node.callee.name : memberOf(node)?.[1];

/**
 * The names that a function or a program declares (not those of functions inside), each with the outside variables that
 * a call of it changes. The list is empty for a name that is not a function, or is declared more than once.
 */
export function closureEffects(scope: SyntaxNode): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  const note = (name: string, changed: readonly string[]): void => {
    found.set(name, found.has(name) ? [] : changed);
  };
  const visit = (node: SyntaxNode): void => {
    if (node.type === "FunctionDeclaration" && node.id != null) note(node.id.name, assignedNames([node], new Set()));
    if (isFunction(node)) return;
    if (node.type === "VariableDeclarator") {
      const value = node.init == null ? node : unwrapped(node.init);
      const changed = node.id.type === "Identifier" && isFunction(value) ? assignedNames([value], new Set()) : [];
      for (const name of boundNames(node.id)) note(name, changed);
    }
    for (const child of childrenOf(node)) visit(child);
  };
  if (isFunction(scope)) for (const name of scopeOf(scope)) note(name, []);
  for (const child of childrenOf(scope)) visit(child);
  return found;
}

/**
 * Effects that cannot be undone for the branch that is not taken: writes to members such as `obj.x = …`, calls whose
 * results are not used, and calls of functions that change variables other than `merged`.
 */
export function mutations(
  nodes: readonly SyntaxNode[],
  effects: ReadonlyMap<string, readonly string[]>,
  merged: readonly string[],
): { readonly node: SyntaxNode; readonly what: string }[] {
  const found: { node: SyntaxNode; what: string }[] = [];
  const idle = new Set<SyntaxNode>();
  const visit = (node: SyntaxNode): void => {
    if (isTypeOnly(node) || isFunction(node)) return;
    const targets = targetsOf(node);
    if (targets.some((target) => contains(target, ({ type }) => type === "MemberExpression")))
      found.push({ node, what: "a write to a property or an element" });
    if (node.type === "UnaryExpression" && node.operator === "delete") found.push({ node, what: "delete" });
    const [, property = ""] = memberOf(node) ?? [];
    if (mutators.has(property)) found.push({ node, what: `${property}()` });
    for (const call of idleExpressions(node).flatMap(idleCalls)) {
      idle.add(call);
      found.push({ node: call, what: "a call whose result is not used" });
    }
    if (changing.has(property) && !idle.has(node)) found.push({ node, what: `${property}()` });
    const name = node.type === "CallExpression" && node.callee.type === "Identifier" ? node.callee.name : "";
    const changed = (effects.get(name) ?? []).filter((variable) => !merged.includes(variable));
    if (changed.length > 0 && !idle.has(node))
      found.push({ node, what: `${name}(), which changes ${changed.join(" and ")}` });
    for (const child of childrenOf(node)) visit(child);
  };
  for (const node of nodes) visit(node);
  return found;
}

/** What keeps a statement from being turned, as text for the error. */
export function hindrance(node: Construct): string {
  if (contains(node, (inner) => inner.type === "AwaitExpression" || inner.type === "YieldExpression"))
    return " with await or yield inside";
  return contains(node, (inner) => inner.type === "VariableDeclaration" && inner.kind === "var")
    ? " with var inside, where let could be turned,"
    : "";
}

/** Whether the pieces of a statement can become functions. */
export function canTurn(node: Construct): boolean {
  if (node.type === "ForOfStatement" && (node.await || node.left.type !== "VariableDeclaration")) return false;
  return !contains(
    node,
    (inner) =>
      inner.type === "AwaitExpression" ||
      inner.type === "YieldExpression" ||
      inner.type === "LabeledStatement" ||
      (inner.type === "ForOfStatement" && inner.await) ||
      isVar(inner) ||
      ((inner.type === "BreakStatement" || inner.type === "ContinueStatement") && inner.label != null),
  );
}

/**
 * Whether the statements after a construct can become a function: they use no variable of the construct's header, and
 * no code outside uses theirs.
 */
export function canFollow(node: babel.Statement, rest: readonly babel.Statement[]): boolean {
  if (rest.some((statement) => statement.type === "FunctionDeclaration" || statement.type === "ExportNamedDeclaration"))
    return false;
  const unmovable = (inner: SyntaxNode): boolean =>
    inner.type === "AwaitExpression" ||
    inner.type === "YieldExpression" ||
    isVar(inner) ||
    ((inner.type === "BreakStatement" || inner.type === "ContinueStatement") && inner.label != null);
  if (rest.some((statement) => contains(statement, unmovable))) return false;
  const header =
    node.type === "ForStatement" && node.init?.type === "VariableDeclaration" ? node.init.declarations : [];
  const names = new Set(header.flatMap(({ id }) => boundNames(id)));
  return names.size === 0 || !rest.some((statement) => mentions(statement, names));
}

/** Variables of a `for` that functions in it close over. */
export function freshNames({ init, body, test, update }: babel.ForStatement): string[] {
  if (init?.type !== "VariableDeclaration" || init.kind !== "let") return [];
  const names = init.declarations.flatMap(({ id }) => boundNames(id));
  const parts = [body, test, update].filter((part) => part != null);
  return parts.some((part) => closesOver(part, new Set(names))) ? names : [];
}

/** Whether an expression neither assigns nor awaits. */
export const isPure = (node: SyntaxNode): boolean =>
  !contains(node, ({ type }) =>
    ["AwaitExpression", "YieldExpression", "AssignmentExpression", "UpdateExpression"].includes(type),
  );

/** A literal that an operator of JavaScript may keep. */
export const isLiteral = ({ type }: SyntaxNode): boolean =>
  type === "NumericLiteral" || type === "StringLiteral" || type === "BigIntLiteral" || type === "TemplateLiteral";

/** Whether the condition of a loop is literally true, or left out. */
export function isEndless({ test }: babel.WhileStatement | babel.DoWhileStatement | babel.ForStatement): boolean {
  const literal = test == null ? undefined : unwrapped(test);
  if (literal === undefined) return true;
  return (
    (literal.type === "BooleanLiteral" && literal.value) || (literal.type === "NumericLiteral" && literal.value !== 0)
  );
}

/** Whether an expression can never equal a tensor by value. */
export const isNoValue = (node: SyntaxNode): boolean =>
  ["StringLiteral", "NullLiteral", "TemplateLiteral", "ObjectExpression", "ArrayExpression"].includes(node.type) ||
  (node.type === "Identifier" && node.name === "undefined") ||
  (node.type === "UnaryExpression" && (node.operator === "typeof" || node.operator === "void"));
