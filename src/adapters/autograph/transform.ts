/**
 * @module The transform of source: control flow of functions that say "use heddle" becomes calls of helpers, which
 * decide at run time whether JavaScript or the graph branches. Nothing moves to another line, so lines of errors are
 * those of the user's file.
 */
import type * as babel from "@babel/types";
import { type Condition, conditionsOf } from "./conditions.ts";
import { type Context, closing, pieceOf } from "./context.ts";
import { Edited, type Transformed } from "./edited.ts";
import { directive, hasDirective, parsed } from "./parse.ts";
import {
  assignedNames,
  binary,
  type Construct,
  canFollow,
  canTurn,
  childrenOf,
  closureEffects,
  constructs,
  declaredNames,
  equalities,
  freshNames,
  hindrance,
  isConstruct,
  isEndless,
  isFunction,
  isLiteral,
  isNoValue,
  isPure,
  isTypeOnly,
  jumps,
  mutations,
  numericOnly,
  type SyntaxNode,
  unwrapped,
} from "./syntax.ts";

export type { Transformed };

const operators = 'import * as $heddle from "heddle/autograph";';
// A tensor refuses to be a condition by a method under a global symbol, so that the file needs no import.
const condition =
  "function $condition(x, what, where) " +
  '{ if (typeof x === "object" && x !== null) x[Symbol.for("heddle.condition")]?.(what, where); return x; }';

/** Whether a file names the package and is short enough not to be generated. */
const mayHoldTensors = (source: string): boolean => source.length < 1e6 && /["']heddle["'/]/.test(source);

/**
 * Transforms a file: the functions that say `"use heddle"`, and the conditions of all other functions in a file that
 * imports from heddle, which then refuse tensors. Undefined where nothing changes.
 *
 * @param file its path: how it is parsed follows from its ending (`.ts`, `.tsx`, `.js`, …), and errors name it
 * @throws HeddleError `syntax` with the place where a file with the directive cannot be parsed.
 */
export function transformSource(source: string, file: string): Transformed | undefined {
  const directed = source.includes(directive);
  if (!directed && !mayHoldTensors(source)) return undefined;
  try {
    const transformer = new Transformer(source, file);
    return transformer.run() ? transformer.result() : undefined;
  } catch (error) {
    // Without the directive, Node reports the syntax error itself.
    if (directed) throw error;
    return undefined;
  }
}

class Transformer extends Edited {
  private effects: ReturnType<typeof closureEffects> = new Map();
  private conditions: ReadonlyMap<SyntaxNode, Condition> = new Map();

  run(): boolean {
    const { program } = parsed(this.source, this.file);
    this.effects = closureEffects(program);
    this.conditions = new Map(conditionsOf(program).map((found) => [found.node, found]));
    const on = hasDirective(program.directives);
    if (on) this.helpers.add(operators);
    const context: Context = { on, piece: false, plainBreak: true, plainContinue: true };
    this.list(program.body, context, false);
    return this.changed;
  }

  /** Transforms statements one after the other. `tail`: nothing of the function (or of the piece) follows them. */
  private list(statements: readonly babel.Statement[], context: Context, tail: boolean): void {
    for (const [index, statement] of statements.entries()) {
      if (!context.on || !isConstruct(statement)) {
        this.visit(statement, context);
        continue;
      }
      const rest = statements.slice(index + 1);
      const leaves = jumps(statement);
      if (!canTurn(statement) || (leaves && !(tail && canFollow(statement, rest)))) {
        this.guard(statement, context);
        continue;
      }
      if (!leaves) {
        this.turn(statement, [], context, false);
        continue;
      }
      this.turn(statement, rest, context, true);
      const last = rest.at(-1);
      this.list(rest, pieceOf(context), true);
      if (last !== undefined)
        this.after(last, ` })${context.piece ? "" : `, ${this.at(statement)})`}; ${closing(statement)}`);
      return;
    }
  }

  /** Leaves a statement to JavaScript; a condition that is a tensor is then an error that names it. */
  private guard(node: Construct, context: Context): void {
    const inner = node.type === "IfStatement" ? context : { ...context, plainBreak: true, plainContinue: true };
    const test = node.type === "ForOfStatement" ? undefined : node.test;
    for (const child of childrenOf(node)) this.visit(child, inner);
    if (test == null) return;
    // After the visit, so that this call encloses what the test has become.
    this.before(test, "$heddle.plain(");
    this.after(test, `, "this ${constructs[node.type]}${hindrance(node)}", ${this.at(node)})`);
  }

  /** `switch` stays JavaScript's, which compares identity: a tensor in it is an error, unless no case can equal a tensor. */
  private guardSwitch({ discriminant, cases }: babel.SwitchStatement): void {
    const tests = cases.flatMap(({ test }) => (test == null || isNoValue(unwrapped(test)) ? [] : [test]));
    if (tests.length === 0) return;
    for (const value of [discriminant, ...tests]) {
      if (isLiteral(value) || value.type === "BooleanLiteral") continue;
      // After the visit, so that this call encloses what the value has become.
      this.before(value, "$heddle.compared(");
      this.after(value, `, ${this.at(value)})`);
    }
  }

  /** The variables that a construct and the statements after it change, as source text. */
  private state(nodes: readonly SyntaxNode[], at: SyntaxNode, rest: readonly SyntaxNode[]): string {
    const inside = assignedNames(nodes, new Set());
    const later = assignedNames(rest, declaredNames(rest));
    const names = [...new Set([...inside, ...later])];
    const refused = mutations([...nodes, ...rest], this.effects, names).map(
      ({ node, what }) => `[${JSON.stringify(`${what} (line ${node.loc?.start.line})`)}, ${this.at(node)}]`,
    );
    const set = names.length === 0 ? "{}" : `{ [${names.join(", ")}] = $values; }`;
    const list = refused.length === 0 ? "" : `, refused: [${refused.join(", ")}]`;
    return `{ get: () => [${names.join(", ")}], set: ($values) => ${set}, names: ${JSON.stringify(names)}, where: ${this.at(at)}${list} }`;
  }

  /** Turns a construct into a call; where the construct may jump, the statements after it are the last argument. */
  private turn(node: Construct, rest: readonly babel.Statement[], context: Context, leaves: boolean): void {
    const head = !leaves ? "" : context.piece ? "return " : "return $heddle.leave(";
    // The variables of a `for` itself change too, and its initializer is not part of the loop.
    const changing = node.type === "ForStatement" ? { ...node, init: null } : node;
    const state = this.state([changing], node, rest);
    const open = rest.length > 0 ? `, ${state}, () => {` : undefined;
    const end = open ?? `, ${state})${leaves && !context.piece ? `, ${this.at(node)})` : ""};${closing(node)}`;
    const piece = pieceOf(context);
    if (node.type === "IfStatement") this.turnIf(node, head, end, context, piece);
    else if (node.type === "ForOfStatement") this.turnEach(node, head, end, context, piece);
    else this.turnLoop(node, head, end, context, piece);
  }

  private turnIf(node: babel.IfStatement, head: string, end: string, context: Context, piece: Context): void {
    const { test, consequent, alternate } = node;
    this.between(node.start as number, test.start as number, `${head}$heddle.branch(`);
    this.visit(test, context);
    this.between(test.end as number, consequent.start as number, ", () => ");
    this.body(consequent, piece);
    if (alternate != null) {
      this.between(consequent.end as number, alternate.start as number, ", () => ");
      this.body(alternate, piece);
    } else this.after(node, ", undefined");
    this.after(node, end);
  }

  private turnLoop(
    node: babel.WhileStatement | babel.DoWhileStatement | babel.ForStatement,
    head: string,
    end: string,
    context: Context,
    piece: Context,
  ): void {
    if (node.type === "DoWhileStatement") {
      this.between(
        node.start as number,
        node.body.start as number,
        `${head}$heddle.loop({ ${isEndless(node) ? "endless: true, " : ""}bodyFirst: true, body: () => `,
      );
      this.body(node.body, piece);
      this.between(node.body.end as number, node.test.start as number, ", test: () => (");
      this.visit(node.test, context);
      this.between(node.test.end as number, node.end as number, `) }${end}`);
      return;
    }
    const { test, body } = node;
    const endless = isEndless(node) ? "endless: true, " : "";
    let from = node.start as number;
    let text = "";
    if (node.type === "ForStatement") {
      text = "{ ";
      if (node.init != null) {
        this.between(from, node.init.start as number, text);
        this.visit(node.init, context);
        from = node.init.end as number;
        text = "; ";
      }
    }
    text += `${head}$heddle.loop({ ${endless}test: () => (`;
    if (test == null) text += "true)";
    else {
      this.between(from, test.start as number, text);
      this.visit(test, context);
      from = test.end as number;
      text = ")";
    }
    if (node.type === "ForStatement" && node.update != null) {
      this.between(from, node.update.start as number, `${text}, update: () => { `);
      this.visit(node.update, { ...context });
      from = node.update.end as number;
      text = "; }";
    }
    this.between(from, body.start as number, `${text}, body: () => `);
    this.body(body, piece);
    const fresh = node.type === "ForStatement" ? freshNames(node) : [];
    if (fresh.length > 0) {
      // Each iteration has its own variables, which functions may close over.
      const list = `[${fresh.join(", ")}]`;
      this.before(body, `{ let $own = ${list}; try { let ${list} = $own; try `);
      this.after(body, ` finally { $own = ${list}; } } finally { ${list} = $own; } }`);
    }
    this.after(node, ` }${end}`);
  }

  private turnEach(node: babel.ForOfStatement, head: string, end: string, context: Context, piece: Context): void {
    const { left, right, body } = node;
    const pattern = (left as babel.VariableDeclaration).declarations[0]?.id as SyntaxNode;
    const name = this.source.slice(pattern.start as number, pattern.end as number).replaceAll(/\s*\n\s*/g, " ");
    this.between(node.start as number, right.start as number, `${head}$heddle.each(`);
    this.visit(right, context);
    this.between(right.end as number, body.start as number, `, (${name}) => `);
    this.body(body, piece);
    this.after(node, end);
  }

  /** Turns a statement into the body of a function. */
  private body(node: babel.Statement, piece: Context): void {
    if (node.type === "BlockStatement") {
      this.list(node.body, piece, true);
      return;
    }
    // Before the braces, which enclose what the statement becomes.
    this.list([node], piece, true);
    this.before(node, "{ ");
    this.after(node, " }");
  }

  private visit(node: SyntaxNode, context: Context): void {
    if (isTypeOnly(node)) return;
    if (isFunction(node)) {
      this.function(node as babel.Function, context);
      return;
    }
    if (node.type === "BlockStatement") {
      this.list(node.body, context, false);
      return;
    }
    if (context.on) {
      if (isConstruct(node)) {
        // Not in a list: the single statement of a construct that is not turned.
        if (canTurn(node) && !jumps(node)) this.turn(node, [], context, false);
        else this.guard(node, context);
        return;
      }
      if (node.type === "ExpressionStatement" && this.unused(node.expression, context)) return;
      if (this.expression(node, context) || this.jump(node, context)) return;
      if (this.throwing(node, context)) return;
    }
    this.children(node, context);
    if (context.on && node.type === "SwitchStatement") this.guardSwitch(node);
    if (!context.on) this.ask(node);
  }

  /** Wraps a condition of JavaScript in a check for a tensor. */
  private ask(node: SyntaxNode): void {
    const found = this.conditions.get(node);
    if (found === undefined) return;
    this.helpers.add(condition);
    this.before(node, "$condition(");
    this.after(node, `, "${found.what}", ${this.at(node)})`);
  }

  private children(node: SyntaxNode, context: Context): void {
    const inner = {
      ...context,
      plainBreak: context.plainBreak || node.type === "SwitchStatement" || node.type === "ForInStatement",
      plainContinue: context.plainContinue || node.type === "ForInStatement",
    };
    for (const child of childrenOf(node)) this.visit(child, inner);
  }

  private function(node: babel.Function, context: Context): void {
    const { body } = node;
    const on = context.on || (body.type === "BlockStatement" && hasDirective(body.directives));
    if (on) this.helpers.add(operators);
    const inner: Context = { on, piece: false, plainBreak: true, plainContinue: true };
    const around = this.effects;
    this.effects = new Map([...around, ...closureEffects(node)]);
    for (const child of childrenOf(node)) if (child !== body) this.visit(child, inner);
    if (body.type === "BlockStatement") this.list(body.body, inner, true);
    else this.visit(body, inner);
    this.effects = around;
  }

  /** Turns a jump out of a piece into the piece's result; whether the node was such a jump. */
  private jump(node: SyntaxNode, context: Context): boolean {
    if (!context.piece) return false;
    if (node.type === "BreakStatement" && !context.plainBreak) {
      this.between(node.start as number, node.end as number, "return $heddle.broke();");
      return true;
    }
    if (node.type === "ContinueStatement" && !context.plainContinue) {
      this.between(node.start as number, node.end as number, "return $heddle.continued();");
      return true;
    }
    if (node.type !== "ReturnStatement") return false;
    const { argument } = node;
    if (argument == null) this.between(node.start as number, node.end as number, "return $heddle.returned();");
    else {
      this.visit(argument, context);
      this.before(argument, "$heddle.returned(");
      this.after(argument, ")");
    }
    return true;
  }

  /** Transforms an expression that only chooses between effects, which JavaScript must do; whether the node was one. */
  private unused(expression: babel.Expression, context: Context): boolean {
    const node = unwrapped(expression);
    if (node.type !== "ConditionalExpression" && node.type !== "LogicalExpression") return false;
    if (node.type === "LogicalExpression" && node.operator === "??") return false;
    const [test, ...parts] =
      node.type === "ConditionalExpression" ? [node.test, node.consequent, node.alternate] : [node.left, node.right];
    this.visit(test, context);
    for (const part of parts) if (!this.unused(part, context)) this.visit(part, context);
    this.before(test, "$heddle.plain(");
    this.after(test, `, "an expression whose value is not used", ${this.at(node)})`);
    return true;
  }

  /** Transforms `throw`, and `catch`, which passes errors of tracing on; whether the node was one of the two. */
  private throwing(node: SyntaxNode, context: Context): boolean {
    if (node.type === "ThrowStatement") {
      this.visit(node.argument, context);
      this.before(node.argument, "$heddle.thrown(");
      this.after(node.argument, `, ${this.at(node)})`);
      return true;
    }
    if (node.type !== "CatchClause") return false;
    const { param, body } = node;
    this.visit(body, context);
    const text = param == null ? "" : this.source.slice(param.start as number, param.end as number);
    const pattern = text.replaceAll(/\s*\n\s*/g, " ");
    const simple = param?.type === "Identifier";
    const name = simple ? param.name : "$error";
    const bound = simple || param == null ? "" : ` let ${pattern} = $error;`;
    const head = `catch (${simple ? pattern : name}) { $heddle.rethrow(${name});${bound}`;
    this.between(node.start as number, (body.start as number) + 1, head);
    return true;
  }

  /** Transforms an operator; whether the node was one. */
  private expression(node: SyntaxNode, context: Context): boolean {
    switch (node.type) {
      case "ConditionalExpression":
        return this.conditional(node, context);
      case "LogicalExpression":
        return this.logical(node, context);
      case "UnaryExpression":
        return this.unary(node, context);
      case "BinaryExpression":
        return this.binaryOperator(node, context);
      case "UpdateExpression":
        return this.update(node);
      case "AssignmentExpression":
        return this.compound(node, context);
      default:
        return false;
    }
  }

  private conditional({ test, consequent, alternate }: babel.ConditionalExpression, context: Context): boolean {
    for (const part of [test, consequent, alternate]) this.visit(part, context);
    const node = { start: test.start, loc: test.loc } as SyntaxNode;
    if (![consequent, alternate].every(isPure)) {
      this.before(test, "$heddle.plain(");
      this.after(test, `, "a conditional expression that assigns or awaits", ${this.at(node)})`);
      return true;
    }
    this.before(test, "$heddle.choose(");
    this.between(test.end as number, consequent.start as number, ", () => (");
    this.between(consequent.end as number, alternate.start as number, "), () => (");
    this.after(alternate, `), ${this.at(node)})`);
    return true;
  }

  private logical(node: babel.LogicalExpression, context: Context): boolean {
    const { left, right, operator } = node;
    if (operator === "??") return false;
    this.visit(left, context);
    this.visit(right, context);
    if (!isPure(right)) {
      this.before(left, "$heddle.plain(");
      this.after(left, `, "${operator} that assigns or awaits", ${this.at(node)})`);
      return true;
    }
    this.before(left, operator === "&&" ? "$heddle.and(" : "$heddle.or(");
    this.between(left.end as number, right.start as number, ", () => (");
    this.after(right, `), ${this.at(node)})`);
    return true;
  }

  private unary(node: babel.UnaryExpression, context: Context): boolean {
    const { operator, argument } = node;
    if (!["!", "-", "+", "~"].includes(operator) || isLiteral(argument)) return false;
    this.visit(argument, context);
    if (operator === "+" || operator === "~") this.numeric(argument, operator, node);
    else {
      this.between(node.start as number, argument.start as number, operator === "!" ? "$heddle.not(" : "$heddle.neg(");
      this.after(argument, ")");
    }
    return true;
  }

  /** Wraps an operand that has to be a number. */
  private numeric(operand: SyntaxNode, operator: string, node: SyntaxNode): void {
    if (isLiteral(operand)) return;
    this.before(operand, "$heddle.numeric(");
    this.after(operand, `, "${operator}", ${this.at(node)})`);
  }

  private binaryOperator(node: babel.BinaryExpression, context: Context): boolean {
    const { left, right, operator } = node;
    if (left.type === "PrivateName" || (isLiteral(left) && isLiteral(right))) return false;
    if (equalities.has(operator)) return this.equality(node, left, context);
    const name = binary[operator];
    if (name === undefined && !numericOnly.has(operator)) return false;
    this.visit(left, context);
    this.visit(right, context);
    if (name === undefined) for (const operand of [left, right]) this.numeric(operand, operator, node);
    else {
      this.before(left, `$heddle.${name}(`);
      this.between(left.end as number, right.start as number, ", ");
      this.after(right, ")");
    }
    return true;
  }

  private equality(node: babel.BinaryExpression, left: babel.Expression, context: Context): boolean {
    const { right, operator } = node;
    if ([left, right].some(isNoValue)) return false;
    this.visit(left, context);
    this.visit(right, context);
    const [x, y] = [unwrapped(left), unwrapped(right)];
    const self = x.type === "Identifier" && y.type === "Identifier" && x.name === y.name;
    const how = `operator: "${operator}", where: ${this.at(node)}${self ? ", self: true" : ""}`;
    const negated = operator.startsWith("!");
    this.before(left, `${negated ? "$heddle.not(" : ""}$heddle.same(`);
    this.between(left.end as number, right.start as number, ", ");
    this.after(right, `, { ${how} })${negated ? ")" : ""}`);
    return true;
  }

  private update(node: babel.UpdateExpression): boolean {
    const { argument, operator, prefix } = node;
    if (argument.type !== "Identifier") return false;
    const [name, by] = [argument.name, operator === "++" ? 1 : -1];
    const next = prefix
      ? `(${name} = $heddle.increment(${name}, ${by}))`
      : `$heddle.first(${name}, ${name} = $heddle.increment(${name}, ${by}))`;
    this.between(node.start as number, node.end as number, next);
    return true;
  }

  private compound(node: babel.AssignmentExpression, context: Context): boolean {
    const { left, right, operator } = node;
    const plain = operator.slice(0, -1);
    const name = binary[plain];
    if (left.type !== "Identifier" || !operator.endsWith("=")) return false;
    if (name === undefined && !numericOnly.has(plain)) return false;
    this.visit(right, context);
    if (name === undefined) {
      const value = `$heddle.numeric(${left.name}, "${plain}", ${this.at(node)})`;
      this.numeric(right, plain, node);
      this.between(left.end as number, right.start as number, ` = ${value} ${plain} (`);
      this.after(right, ")");
      return true;
    }
    this.between(left.end as number, right.start as number, ` = $heddle.${name}(${left.name}, `);
    this.after(right, ")");
    return true;
  }
}
