import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gradient, type Matrix, matrix } from "heddle/matrix";
import { builtins, Interpreter, runScript, type ScriptOptions } from "heddle/script";
import { expect, test } from "vitest";

/** What a script prints. */
function printed(source: string, options: ScriptOptions = {}): string {
  const lines: string[] = [];
  runScript(source, "test.dml", { print: (line) => lines.push(line), ...options });
  return lines.join("\n");
}

// Most expected values are those of the documentation of SystemDS, and of its bug reports.
test.each([
  ["precedence: -2^2 is -(2^2)", "print(-2^2)", "-4.0"],
  ["powers bind to the right", "print(2^3^2)", "512.0"],
  ["the minus binds tighter than the product", "print(as.scalar(-matrix(2, 1, 1) %*% matrix(3, 1, 1)))", "-6.0"],
  ["comparisons bind tighter than !", "print(!1 == 2)", "TRUE"],
  ["the remainder takes the sign of the dividend", "print(-7 %% 3 + 100 * (-7 %/% 3))", "-201"],
  ["ints and doubles", 'print(3 + 4 + " " + 3 / 2 + " " + 1e-4 + " " + 12345678.9)', "7 1.5 1.0E-4 1.23456789E7"],
  [
    "a product and a scalar",
    "print(toString(matrix(1, 2, 2) %*% matrix(3, 2, 2) + 10 * 2.1))",
    "27.000 27.000\n27.000 27.000",
  ],
  ["cumsum", 'print(toString(cumsum(matrix("1 2 3 4 5 6", 3, 2)), decimal=0))', "1 2\n4 6\n9 12"],
  ["cumprod", 'print(toString(cumprod(matrix("1 2 3 4 5 6", 3, 2)), decimal=0))', "1 2\n3 8\n15 48"],
  ["rowcumsum", 'print(toString(rowcumsum(matrix("1 2 3 4 5 6", 2, 3)), decimal=0))', "1 3 6\n4 9 15"],
  [
    "cholesky",
    'print(toString(cholesky(matrix("4 12 -16 12 37 -43 -16 -43 98", 3, 3)), decimal=0))',
    "2 0 0\n6 1 0\n-8 5 3",
  ],
  ["median", 'print(quantile(matrix("1 5 7 10", 4, 1), 0.5))', "6.0"],
  ["covariance", 'print(cov(matrix("2 3 1 2 6", 5, 1), matrix("2 3 1 2 6", 5, 1)))', "3.7"],
  ["rev changes the trace", 'X = matrix("1 2 3 9", 2, 2)\nprint(trace(rev(X)) + " " + trace(X))', "5.0 10.0"],
  ["a scalar by indexing", 'V = matrix("1 2 3", 3, 1)\ns = as.scalar(V[2, 1])\nprint(sum(s * V))', "12.0"],
  ["seq keeps its last element", "print(length(seq(0, 0.3, 0.1)))", "4"],
  [
    "products with zeros",
    'X = matrix("2 3 0 5", 2, 2)\nprint(toString(rowProds(X), decimal=0) + toString(colProds(X), decimal=0) + prod(X))',
    "6\n0\n0 15\n0.0",
  ],
  ["nonzeros after round", 'X = round(matrix("0.2 0.4 1.6 -0.3", 2, 2))\nprint(sum(X != 0) + sum(X == 0))', "4.0"],
  ["outer over descending numbers", 'print(sum(outer(matrix(5, 1, 1), t(seq(20, 1)), "<")))', "15.0"],
  [
    "named arguments are matched by name",
    "f = function(int a, int b = 2, int c = 3) return (int r) { r = a * 100 + b * 10 + c }\nprint(f(c = 7, a = 1))",
    "127",
  ],
  [
    "several results",
    "f = function(int a) return (int x, int y) { x = a + 1; y = a * 2 }\n[p, q] = f(5)\nprint(p + q)",
    "16",
  ],
  [
    "left indexing",
    'X = matrix(0, 2, 3)\nX[1, 2:3] = matrix("5 6", 1, 2)\nX[2, ] = 7 + X[1, ]\nX[2, 1] += 1\nprint(toString(X, decimal=0))',
    "0 5 6\n8 12 13",
  ],
  [
    "loops",
    "s = 0\nfor (i in 1:4) { if (i == 3) s = s - 1\n else s = s + i }\nk = 0\nwhile (k < 3 & s > 0) k = k + 1\nparfor (j in seq(2, 6, 2), check=0) s += j\nprint(s + k)",
    "21",
  ],
  [
    "lists",
    'l = list(a=1, b=matrix(2, 1, 1))\nl = append(l, 9)\nprint(length(l) + as.scalar(l["b"]) + as.scalar(l[3]))',
    "14.0",
  ],
  [
    "eval",
    'f = function(matrix[double] A, double k = 2) return (matrix[double] B) { B = A * k }\nprint(sum(eval("f", list(A=matrix(1, 2, 2), k=5))))',
    "20.0",
  ],
  ["ifdef and parameters", "print(ifdef($x, 3) + $1)", "5"],
  ["print with a format", 'print("%d of %.2f and %s", 3, 2.5, "x")', "3 of 2.50 and x"],
  [
    "removeEmpty, order, table",
    'X = matrix("3 0 1 0 0 0 2 0 5", 3, 3)\nprint(toString(order(target=removeEmpty(target=X, margin="rows"), by=1), decimal=0) + toString(table(matrix("1 2 2", 3, 1), matrix("1 1 2", 3, 1)), decimal=0))',
    "2 0 5\n3 0 1\n1 0\n1 1",
  ],
  [
    "aggregate",
    'print(toString(aggregate(target=matrix("1 2 3 4", 4, 1), groups=matrix("1 1 2 2", 4, 1), fn="mean")))',
    "1.500\n3.500",
  ],
  [
    "distributions",
    "print(round(10000 * pnorm(target=1.96)) + round(10000 * pchisq(target=3.841, df=1)) + round(10000 * pt(target=2.228, df=10)) + round(100 * qnorm(target=0.975)))",
    "29196.0",
  ],
])("%s", (_name, source, expected) => {
  expect(printed(source, { parameters: { 1: "2" } }).trimEnd()).toBe(expected);
});

const f =
  "f = function(matrix[double] X, int n = 1, boolean b = TRUE) return (string r) { r = n + ' ' + b + ' ' + sum(X) }\n";

test.each([
  ["X = matrix(1, 2, 2)\ny = X %*% matrix(1, 3, 1)", "test.dml:2:7"],
  ["X = matrix(1, 3, 3)\nY = X[2:4, 1:3]", "rows 2 to 4 are outside of 1 to 3"],
  ["x = matrix(1, 3, 1) + matrix(1, 1, 2)", "write outer("],
  ["if (TRUE) {\n  x = (1 + ]\n}", "test.dml:2:12"],
  ["x = nosuch(1)", "there is no function 'nosuch'"],
  ["x = $missing", "give it with -nvargs missing"],
  ['stop("enough")', "enough"],
  ["assert(1 == 2)", "the assertion does not hold"],
  ['x = solve(matrix("1 2 2 4", 2, 2), matrix(1, 2, 1))\nprint(sum(x))', "test.dml:2:1"],
  ["X = matrix(1, 2, 2)\nY = X[1:, ]", "the end of a range is missing"],
  ['y = eigen(matrix("1 2 3 4", 2, 2))', "not symmetric"],
  [`${f}y = f(matrix(1, 1, 1), X=matrix(1, 1, 1))`, "f: the argument 'X' is given twice"],
  [`${f}y = f(X=matrix(1, 1, 1), 5)`, "f: argument 2 has no name, and stands after 'X'"],
  [`${f}y = f(X=matrix(1, 1, 1), 5)`, "test.dml:2:26"],
  [`${f}y = f(X=matrix(1, 1, 1), X=matrix(1, 1, 1))`, "f: the argument 'X' is given twice"],
  ["y = matrix(1, rows=2, 3)", "matrix: argument 3 has no name, and stands after 'rows'"],
  ["y = sum(X=matrix(1, 1, 1), X=matrix(1, 1, 1))", "sum: the argument 'X' is given twice"],
  ["X = matrix(1, 2, 2)\ny = X[1, 2, 3]", "an index has at most a range of rows and one of columns"],
  ["l = list(1, 2)\ny = l[1, 2]", "a list has one index"],
  [`${f}y = f(matrix(1, 1, 1), "abc")`, `f: 'n' is the string "abc", not a scalar (int)`],
  [`${f}y = f(matrix(1, 1, 1), 1, "5")`, `f: 'b' is the string "5", not a scalar (boolean)`],
  [`${f}y = f(matrix(1, 1, 1), matrix(1, 2, 2))`, "f: 'n' is a matrix of 2x2, not a scalar (int)"],
  ["X = matrix(0, 1000000, 1000000)\nprint(sum(X))", "test.dml:2:1"],
  ["y = matrix(1)", "matrix: the argument 'rows' is missing"],
  ["y = quantile(matrix(1, 2, 1))", "quantile: the argument 'p' is missing"],
  ["y = moment(matrix(1, 2, 1))", "moment: the argument 'order' is missing"],
  ["y = table(A=matrix(1, 2, 1))", "table: the argument 'B' is missing"],
  ["y = table(matrix(1, 2, 1), matrix(1, 2, 1), rows=3)", "table: there is no argument 'rows'"],
  ["y = cbind()", "cbind: takes at least one value"],
  ['y = 1\nx = "abc', "test.dml:2:5"],
  ['y = "abc', 'the string that begins here has no end: " is missing'],
  ["y = 1 /* and so on", "the comment that begins here has no end: */ is missing"],
  ["y = trace(matrix(1, 3, 1))", "trace: takes a square matrix, got 3x1"],
  ["y = table(matrix('1 NaN', 2, 1), matrix(1, 2, 1))", "NaN, 1 at 2 is not a place in a matrix"],
  ["y = rexpand(target=matrix('1 0 2', 3, 1), max=2)", "2, 0 at 2 is not a place in a matrix"],
  ["x = 1; if (matrix(1, 2, 2)) print(x)", "a condition must be a scalar, and this one is a matrix of 2x2"],
  ["x = 1; if (matrix(1, 2, 2)) print(x)", "test.dml:1:12"],
  ["while (list(1, 2)) x = 1", "a condition must be a scalar, and this one is a list"],
  ["f = function(int n) return (int r) { r = f(n + 1) }\nprint(f(1))", "f: calls itself too deeply"],
  ["f = function(int n) return (int r) { r = f(n + 1) }\nprint(f(1))", "test.dml:1:42"],
  [
    "f = function(int n) return (int r) { r = g(n) }\ng = function(int n) return (int r) { r = f(n) }\nx = f(1)",
    "calls itself too deeply",
  ],
  [`x = ${"(".repeat(30_000)}1${")".repeat(30_000)}`, "an expression that is nested too deeply\n  at test.dml:1:1"],
  [`x = ${new Array(30_000).fill("1").join("+")}`, "an expression that is nested too deeply\n  at test.dml:1:1"],
  ['source("nofile.dml") as q', `there is no file nofile.dml in ${process.cwd()} or a folder around it`],
  ["x = (1 + 2", "')' is missing after the expression, before the end of the file"],
])("a script that is wrong: %s", (source, message) => {
  expect(() => printed(source)).toThrow(message);
});

test("files: csv, text and Matrix Market, with metadata; ragged rows name the line", () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-dml-"));
  try {
    const script = `X = matrix("1 0 2.5 -3", 2, 2)
      write(X, "x.csv", format="csv"); write(X, "x.txt", format="text"); write(X, "x.mm", format="mm"); write(7, "n")
      print(sum(abs(X - read("x.csv"))) + sum(abs(X - read("x.txt"))) + sum(abs(X - read("x.mm"))) + " " + read("n"))`;
    expect(printed(script, { folder })).toBe("0.0 7");
    expect(readFileSync(join(folder, "x.txt"), "utf8")).toBe("1 1 1\n2 1 2.5\n2 2 -3\n");
    writeFileSync(join(folder, "bad.csv"), "1,2\n3\n");
    expect(() => printed('X = read("bad.csv", format="csv")', { folder })).toThrow(
      /bad\.csv:2: 1 columns, where the first row has 2/,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

// Files with their text, what reads them, and what it gives or says.
test.each([
  [
    "columns that the metadata denies",
    { "x.csv": "1,2\n", "x.csv.mtd": '{"cols": 3}' },
    'read("x.csv")',
    "x.csv:1: 2 columns, where 3 are said",
  ],
  [
    "counts that the metadata does not know",
    { "x.csv": "1,2\n\f\n", "x.csv.mtd": '{"rows": -1, "cols": -1}' },
    'sum(read("x.csv"))',
    "3.0",
  ],
  [
    "a fractional index",
    { "x.txt": "1 1 1\n1.5 1 2\n" },
    'read("x.txt", format="text", rows=2, cols=2)',
    'x.txt:2: "1.5" is not a row',
  ],
  [
    "fewer entries than declared",
    { "x.mm": "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n" },
    'read("x.mm")',
    "x.mm:3: 1 entries, where 3 are said",
  ],
  [
    "two entries at one place",
    { "x.mm": "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n1 1 4\n" },
    'sum(read("x.mm"))',
    "5.0",
  ],
  [
    "two entries at one place of a large matrix",
    { "x.mm": "%%MatrixMarket matrix coordinate real general\n90 90 2\n1 1 1\n1 1 4\n" },
    'sum(read("x.mm"))',
    "5.0",
  ],
  [
    "a scalar that is no number",
    { n: "abc\n" },
    'read("n", data_type="scalar", value_type="double")',
    'n:1: "abc" is not a number',
  ],
  ["a hexadecimal number", { "x.csv": "1\n0x10\n" }, 'sum(read("x.csv"))', 'x.csv:2: "0x10" is not a number'],
  ["a folder", {}, 'sum(read(".", format="csv"))', /test\.dml:1:\d+/],
  ["a folder that cannot be made", {}, 'write(1, "/proc/x/y.csv")', "write: /proc/x/y.csv"],
  [
    "a label of libsvm with a fractional feature",
    { "x.svm": "1 1.5:2\n" },
    'sum(read("x.svm", format="libsvm", cols=3))',
    "1, 1.5 is outside of 1x3",
  ],
  [
    "a schema with another number of columns",
    { "f.csv": "a,1\n", "f.csv.mtd": '{"data_type": "frame", "format": "csv", "schema": "STRING"}' },
    'toString(read("f.csv"))',
    "f.csv has 2 columns, and its schema has 1",
  ],
  [
    "a cell that is not of its column's type",
    { "f.csv": "a,1\nb,x\n" },
    'toString(read("f.csv", data_type="frame", format="csv", schema="STRING,FP64"))',
    'row 2, column 2: "x" is not FP64',
  ],
  [
    "a whole number with a fraction",
    { "f.csv": "a,1.5\n" },
    'toString(read("f.csv", data_type="frame", format="csv", schema="STRING,INT64"))',
    '"1.5" is not INT64',
  ],
  [
    "a type that is not there",
    { "f.csv": "a,1\n" },
    'toString(read("f.csv", data_type="frame", format="csv", schema="STRING,FLOAT"))',
    '"FLOAT" of the schema is not a type of columns',
  ],
] as const)("a file: %s", (_name, files, source, expected) => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-dml-"));
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text as string);
    const run = (): string => printed(source.startsWith("write") ? source : `print(${source})`, { folder });
    if (typeof expected === "string" && /^[\d.]+$/.test(expected)) expect(run()).toBe(expected);
    else expect(run).toThrow(expected);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a frame has the schema of the call, else of its metadata, and cells as SystemDS 3.4 writes them; both come back", () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-dml-"));
  try {
    writeFileSync(join(folder, "f.csv"), "a,3,TRUE,7\nb,,false,\nc,1.50,1,9007199254740993\n");
    // SystemDS ends a schema with a comma.
    const schema = "STRING,FP64,BOOLEAN,INT64,";
    const mtd = { data_type: "frame", format: "csv", header: false, sep: ",", rows: 3, cols: 4, schema };
    writeFileSync(join(folder, "f.csv.mtd"), JSON.stringify(mtd));
    const shown = "# FRAME: nrow = 3, ncol = 4\n# C1 C2 C3 C4\n";
    const cells = "a 3.0 true 7\nb 0.0 false 0\nc 1.5 true 9007199254740993";
    const said = (source: string): string => printed(source, { folder });
    expect(said('F = read("f.csv")\nprint(toString(F))').trimEnd()).toBe(
      `${shown}# STRING FP64 BOOLEAN INT64\n${cells}`,
    );
    expect(said('F = read("f.csv", schema="string,double,string,int")\nprint(toString(F))')).toContain(
      "# STRING FP64 STRING INT64\na 3.0 TRUE 7\n",
    );
    const scalars = "print(as.scalar(F[1, 2]) / 2 + ' ' + as.scalar(F[1, 4]) + ' ' + !as.scalar(F[1, 3]))";
    expect(said(`F = read("f.csv")\n${scalars}\nwrite(F, "g.csv", format="csv", header=TRUE)`)).toBe("1.5 7 FALSE");
    const { schema: written, header } = JSON.parse(readFileSync(join(folder, "g.csv.mtd"), "utf8"));
    expect([written, header]).toEqual(["STRING,FP64,BOOLEAN,INT64", true]);
    expect(said('print(toString(read("g.csv")))')).toBe(said('print(toString(read("f.csv")))'));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("fields of csv with separators, quotes and ends of lines come back as they were; a folder cannot be sourced", () => {
  const folder = mkdtempSync(join(tmpdir(), "heddle-dml-"));
  try {
    const script = `F = frame("a,b", rows=1, cols=2)
      F[1, 2] = 'say "x"\ny'
      write(F, "f.csv", format="csv"); G = read("f.csv", data_type="frame", format="csv")
      print(toString(G[1, 1]) + toString(G[1, 2]))`;
    expect(printed(script, { folder })).toContain('say "x"\ny');
    expect(readFileSync(join(folder, "f.csv"), "utf8")).toBe('"a,b","say ""x""\ny"\n');
    expect(() => printed('source(".") as s', { folder })).toThrow(/source: .* is a folder[\s\S]*test\.dml:1:1/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a gradient through a script equals finite differences: logistic regression in DML", () => {
  const run = new Interpreter();
  run.load(
    `loss = function(matrix[double] X, matrix[double] y, matrix[double] w, double reg) return (double r) {
       p = 1 / (1 + exp(-(X %*% w)))
       r = -sum(y * log(p) + (1 - y) * log(1 - p)) / nrow(X) + reg * sum(w^2)
       k = 0
       while (k < 2) { r = r + 0.1 * sum(p^2) / nrow(X); k = k + 1 }
     }`,
    "loss.dml",
  );
  const X = matrix([
    [0.2, 1.5],
    [-0.7, 0.3],
    [1.1, -0.4],
    [0.5, 0.9],
  ]);
  const y = matrix([1, 0, 1, 0]);
  const loss = (w: Matrix): Matrix => {
    const [value] = run.call("loss", [
      { name: "X", value: X },
      { name: "y", value: y },
      { name: "w", value: w },
      { name: "reg", value: runScript("r = 0.01", "r.dml").get("r") as never },
    ]);
    return (value as { matrix: Matrix }).matrix;
  };
  const w = [0.3, -0.8];
  const slopes = gradient(loss, [matrix(w)]).gradients[0]?.dataSync() as Float64Array;
  const eps = 1e-6;
  w.forEach((_value, index) => {
    const at = (by: number): number =>
      loss(matrix(w.map((value, other) => (other === index ? value + by : value)))).itemSync();
    expect(slopes[index]).toBeCloseTo((at(eps) - at(-eps)) / (2 * eps), 7);
  });
});

test.each([
  ["f(matrix(2, 1, 1), 2.7, 0)", "2 FALSE 2.0"],
  ["f(matrix(2, 1, 1), as.scalar(matrix(-2.7, 1, 1)), as.scalar(matrix(3, 1, 1)))", "-2 TRUE 2.0"],
  ["f(matrix(2, 1, 1), '5', 'false')", "5 FALSE 2.0"],
])("arguments are converted to the declared type: %s", (call, expected) => {
  expect(printed(`${f}print(${call})`)).toBe(expected);
});

test("a library that is not there is refused", () => {
  expect(() => printed("x = 1", { library: ["no-such-folder"] })).toThrow("the library no-such-folder is not a folder");
});

const text = (x: string): string => `toString(${x}, decimal=0, sep=" ", linesep=";")`;
const odd = "matrix('1 NaN 3 4', 2, 2)";
const none = "matrix(0, 0, 2)";

const values: readonly (readonly [source: string, expected: string])[] = [
  // Aggregates of no elements
  ...(["mean", "var", "sd", "median"] as const).map((name) => [`${name}(${none})`, "NaN"] as const),
  [`cov(matrix(0, 0, 1), matrix(0, 0, 1))`, "NaN"],
  [`sum(${none})`, "0.0"],
  [`prod(${none})`, "1.0"],
  [`min(${none})`, "Infinity"],
  [`max(${none})`, "-Infinity"],
  ...(["Means", "Vars", "Sds"] as const).map((name) => [text(`col${name}(${none})`), "NaN NaN;"] as const),
  [text(`colSums(${none})`), "0 0;"],
  [text(`colMins(${none})`), "∞ ∞;"],
  [text(`colMaxs(${none})`), "-∞ -∞;"],
  [text("rowIndexMax(matrix(0, 2, 0))"), "NaN;NaN;"],
  // NaN in cells without a part
  [`trace(${odd})`, "5.0"],
  [text("aggregate(target=matrix('1 NaN 3', 3, 1), groups=matrix('1 2 1', 3, 1), fn='sum')"), "4;NaN;"],
  [text("aggregate(target=matrix('1 5 9', 3, 1), groups=matrix('1 3 1', 3, 1), fn='var', ngroups=2)"), "32;NaN;"],
  [text("order(target=matrix('2 NaN 1', 3, 1), by=1)"), "1;2;NaN;"],
  [text("order(target=matrix('2 NaN 3', 3, 1), by=1, decreasing=TRUE, index.return=TRUE)"), "3;1;2;"],
  [text(`rowIndexMax(${odd})`), "1;2;"],
  [text("rowIndexMin(matrix('NaN NaN 3 3', 2, 2))"), "NaN;2;"],
  [text("table(B=matrix('1 2', 2, 1), A=matrix('2 2', 2, 1), C=matrix('3 4', 2, 1))"), "0 0;3 4;"],
  // Data is never the arguments of one call
  ["nrow(eigen(diag(matrix(2, 400, 1))))", "400"],
  [text("aggregate(target=matrix(1, 200000, 1), groups=matrix(1, 200000, 1), fn='sum')"), "200000;"],
  ["sum(rexpand(target=matrix(2, 200000, 1), dir='cols'))", "200000.0"],
  [text("rexpand(target=matrix('1 0 2', 3, 1), max=2, ignore=TRUE)"), "1 0;0 0;0 1;"],
  ["round(0.49999999999999994) + round(-0.5) + round(4503599627370497) - 4503599627370497", "0.0"],
];

test.each(values)("%s is %s", (source, expected) => {
  expect(printed(`print(${source})`)).toBe(expected);
});

// Tails by closed forms, by erfc of Python, or by tables of R.
test.each([
  ["pnorm(target=-10)", 7.619853024160593e-24],
  ["pnorm(target=10, lower.tail=FALSE)", 7.619853024160593e-24],
  ["pnorm(target=3, mean=1, sd=2)", 0.841344746068543],
  ["pchisq(target=300, df=1, lower.tail=FALSE)", 3.294362383314057e-67],
  ["pexp(target=1e-20, rate=1)", 1e-20],
  ["pexp(target=100, rate=1, lower.tail=FALSE)", 3.72007597602084e-44],
  ["pt(target=-1000000, df=2)", 4.9999999999925e-13],
  ["pt(target=0.5, df=1)", 0.5 + Math.atan(0.5) / Math.PI],
  ["pf(target=4, df1=2, df2=10, lower.tail=FALSE)", 1.8 ** -5],
  ["qnorm(target=1e-20)", -9.262340089798405],
  ["qnorm(target=1e-20, lower.tail=FALSE)", 9.262340089798405],
  ["qnorm(target=0.975)", 1.95996398454005],
  ["qnorm(target=0)", -Infinity],
  ["qexp(target=1e-20)", 1e-20],
  ["qexp(target=0.25, rate=2, lower.tail=FALSE)", Math.log(4) / 2],
  ["qt(target=0.5, df=3)", 0],
  ["qt(target=0.975, df=10)", 2.22813885198627],
  ["qchisq(target=0.05, df=1, lower.tail=FALSE)", 3.84145882069412],
  ["qf(target=0.05, df1=2, df2=10, lower.tail=FALSE)", 5 * (0.05 ** -0.2 - 1)],
  ["icdf(target=0.5, dist='exp')", Math.LN2],
] as const)("%s is %d", (source, expected) => {
  const value = (runScript(`x = ${source}`, "d.dml").get("x") as { number: number }).number;
  if (expected === 0 || !Number.isFinite(expected)) expect(value).toBe(expected);
  else expect(value / expected).toBeCloseTo(1, 11);
});

// The gradient of `f(w)` at w = (0.7, 1.3, 2.1), by the script's body.
const slopesOf = (body: string): number[] => {
  const run = new Interpreter({ print: () => {} });
  run.load(`f = function(matrix[double] w) return (double r) { ${body} }`, "f.dml");
  const f = (w: Matrix): Matrix => (run.call("f", [{ name: "w", value: w }])[0] as { matrix: Matrix }).matrix;
  return [...(gradient(f, [matrix([0.7, 1.3, 2.1])]).gradients[0] as Matrix).dataSync()];
};

test.each([
  ["a scalar that was printed", "s = sum(w^2); print('s ' + s); r = s * 2", [2.8, 5.2, 8.4]],
  ["a scalar as text", "s = sum(w^2); t = toString(s); r = s * 2", [2.8, 5.2, 8.4]],
  ["a loop that prints", "r = sum(w); while (r < 100) { print('r ' + r); r = r * 2 }", [32, 32, 32]],
  ["a condition", "s = sum(w^2); if (s > 1) { r = s * 2 } else { r = 0 }", [2.8, 5.2, 8.4]],
  ["median", "r = median(w)", [0, 1, 0]],
  ["quantile", "r = sum(quantile(w, matrix('0.1 0.9', 2, 1)))", [1, 0, 1]],
  ["quantile of an even number", "r = quantile(w[1:2, ], 0.5)", [0.5, 0.5, 0]],
  ["interQuartileMean", "r = interQuartileMean(w)", [0.25 / 1.5, 1 / 1.5, 0.25 / 1.5]],
  ["unique", "r = sum(unique(rbind(w, w))^2)", [1.4, 2.6, 4.2]],
  ["for over elements", "r = 0; for (v in w) { r = r + v^2 }", [1.4, 2.6, 4.2]],
  ["a list of scalars", "r = sum(as.matrix(list(as.scalar(w[1, 1]), 3))^2)", [1.4, 0, 0]],
  ["the base of a logarithm", "r = log(8, as.scalar(w[3, 1]))", [0, 0, -Math.log(8) / (2.1 * Math.log(2.1) ** 2)]],
] as const)("the gradient of %s", (_name, body, expected) => {
  slopesOf(body).forEach((slope, index) => {
    expect(slope).toBeCloseTo(expected[index] as number, 10);
  });
});

test.each([
  ["cumsumprod", "r = sum(cumsumprod(cbind(w, w)))"],
  ["cdf", "r = cdf(target=as.scalar(w[1, 1]))"],
  ["qnorm", "r = qnorm(target=as.scalar(w[1, 1]))"],
  ["as.frame", "r = sum(as.matrix(as.frame(w)))"],
  ["seq", "r = sum(seq(as.scalar(w[1, 1]), 3))"],
])("%s reads values, and says that it has no gradient", (name, body) => {
  expect(() => slopesOf(body)).toThrow(`${name}: reads values, and has no gradient`);
});

test("every builtin has a line for the reference", () => {
  expect(
    builtins()
      .filter(({ doc }) => doc.length < 8)
      .map(({ name }) => name),
  ).toEqual([]);
});

test.each(["builtins", "layers"])("native builtins give what SystemDS gives: %s", (name) => {
  const folder = fileURLToPath(new URL("fixtures", import.meta.url));
  const scratch = mkdtempSync(join(tmpdir(), "heddle-dml-"));
  try {
    runScript(readFileSync(join(folder, `${name}.dml`), "utf8"), `${name}.dml`, {
      parameters: { out: join(scratch, "r.csv") },
    });
    const [ours, theirs] = [join(scratch, "r.csv"), join(folder, `${name}.csv`)].map((file) =>
      readFileSync(file, "utf8").trim().split("\n").map(Number),
    ) as [number[], number[]];
    expect(ours.length).toBe(theirs.length);
    const differing = theirs.flatMap((value, index) =>
      Math.abs(value - (ours[index] as number)) <= 1e-9 * Math.max(1, Math.abs(value))
        ? []
        : [[index + 1, value, ours[index]]],
    );
    expect(differing).toEqual([]);
  } finally {
    rmSync(scratch, { recursive: true });
  }
});
