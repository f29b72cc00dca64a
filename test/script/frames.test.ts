// Frames and layers in scripts: encoders, lambda expressions, words, parameter servers, and how they fail.
import type { matrix } from "heddle/matrix";
import { runScript } from "heddle/script";
import { describe, expect, test } from "vitest";

function printed(source: string): string {
  const lines: string[] = [];
  runScript(source, "test.dml", { print: (line) => lines.push(line) });
  return lines.join("\n").trimEnd();
}

const letters = 'F = cbind(frame(["b", "a", "c", "a"], rows=4, cols=1), as.frame(matrix("1.5 2.5 3.5 10", 4, 1)))\n';
const spec = '"{ids:true, dummycode:[1], bin:[{id:2, method:equi-height, numbins:2}]}"';

describe("encoders (what SystemDS 3.4 prints)", () => {
  test.each([
    [
      "recode and bins of equal width",
      `${letters}[X, M] = transformencode(target=F, spec="{ids:true, recode:[1], bin:[{id:2, method:equi-width, numbins:3}]}")\nprint(toString(X, decimal=0))`,
      "1 1\n2 1\n3 1\n2 3",
    ],
    [
      "dummy codes and bins of equal counts",
      `${letters}[X, M] = transformencode(target=F, spec=${spec})\nprint(toString(X, decimal=0))`,
      "1 0 0 1\n0 1 0 1\n0 0 1 2\n0 1 0 2",
    ],
    [
      "decoded: tokens, and the middle of bins",
      `${letters}[X, M] = transformencode(target=F, spec=${spec})\nD = transformdecode(target=X, spec=${spec}, meta=M)\nprint(as.scalar(D[1, 1]) + as.scalar(D[3, 1]) + " " + as.scalar(D[1, 2]) + " " + as.scalar(D[4, 2]))`,
      "bc 2.0 6.25",
    ],
    [
      "the columns that a column becomes",
      `${letters}[X, M] = transformencode(target=F, spec=${spec})\nprint(toString(transformcolmap(target=M, spec=${spec}), decimal=0))`,
      "1 1 3\n2 4 4",
    ],
    [
      "hashes of Java",
      `${letters}[X, M] = transformencode(target=F, spec="{ids:true, hash:[1], K:3}")\nprint(toString(X[, 1], decimal=0))`,
      "3\n2\n1\n2",
    ],
    [
      "a token that was not learned has no code; a missing value gets the mean",
      `F = frame(["a", "1", "", "3"], rows=2, cols=2)\nS = "{ids:true, recode:[1], impute:[{id:2, method:global_mean}]}"\n[X, M] = transformencode(target=F, spec=S)\nprint(toString(transformapply(target=frame(["b", "", "a", "9"], rows=2, cols=2), spec=S, meta=M), decimal=0))`,
      "NaN 2\n1 9",
    ],
    [
      "rows with a missing value are left out",
      `F = frame(["a", "1", "", "3"], rows=2, cols=2)\n[X, M] = transformencode(target=F, spec="{ids:true, recode:[1], omit:[1]}")\nprint(nrow(X))`,
      "1",
    ],
  ])("%s", (_name, source, expected) => {
    expect(printed(source)).toBe(expected);
  });

  test("what was encoded by codes is what is decoded", () => {
    const both = `${letters}S = "{ids:true, recode:[1, 2]}"\n[X, M] = transformencode(target=F, spec=S)\nD = transformdecode(target=X, spec=S, meta=M)\n`;
    expect(
      printed(`${both}s = 0\nfor (i in 1:4) s = s + ifelse(as.scalar(D[i, 1]) == as.scalar(F[i, 1]), 1, 0)\nprint(s)`),
    ).toBe("4");
  });
});

describe("map", () => {
  test.each([
    ["s -> s.toUpperCase()", "Ab, c", "AB, C"],
    ["s -> s.length()", "abc", "3"],
    ["s -> s.split(',')[1].trim()", "a, b", "b"],
    ["s -> s.replaceAll('[^a-z]', '') + 1 + 2", "a-b", "ab12"],
    ["s -> 1 + 2 + s", "x", "3x"],
    ["s -> s.equals('a') ? 'yes' : 'no'", "a", "yes"],
    ["s -> !s.isEmpty() && s.charAt(0) == 'b'", "bc", "true"],
    ["s -> Integer.parseInt(s) / 2", "7", "3"],
    ["s -> Double.parseDouble(s) / 2", "7", "3.5"],
    ["s -> UtilFunctions.getAsciiAtIdx(s, 2)", "ab", "98"],
    ["s -> s.substring(1, 3).concat('!')", "abcd", "bc!"],
    ["s -> s.split('').length", "abc", "3"],
    ["s -> -s.length() * 2 % 4", "abc", "-2"],
  ])("%s of %j", (expression, cell, expected) => {
    expect(printed(`print(as.scalar(map(as.frame("${cell}"), "${expression}")))`)).toBe(expected);
  });

  test("pairs of rows, and rows as arrays", () => {
    const names = 'F = frame(["ab", "x", "abc", "y"], rows=2, cols=2)\n';
    expect(
      printed(
        `${names}D = map(F[, 1], "(x, y) -> UtilFunctions.jaccardSim(x, y)")\nprint(as.scalar(D[1, 2]) + " " + as.scalar(D[2, 1]))`,
      ),
    ).toBe("0.6666666666666666 0.0");
    expect(
      printed(
        `${names}D = map(F, "r -> new String[]{r[1], r[0] + r[1]}", margin=1)\nprint(as.scalar(D[2, 1]) + as.scalar(D[2, 2]))`,
      ),
    ).toBe("yabcy");
  });
});

test("words with places and counts, as SystemDS gives them", () => {
  const frame = 'F = frame(["1", "A dog sat, by the dog"], rows=1, cols=2)\n';
  const words = (rest: string, most: number) =>
    printed(
      `${frame}T = tokenize(target=F, spec="{'algo': 'split', ${rest}, 'id_cols': [1], 'tokenize_col': 2}", max_tokens=${most})\nprint(toString(T))`,
    )
      .split("\n")
      .slice(3);
  expect(words("'out': 'position'", 3)).toEqual(["1 1 A", "1 3 dog", "1 7 sat,"]);
  expect(words("'out': 'count', 'out_params': {'sort_alpha': true}", 9)).toEqual([
    "1 A 1",
    "1 by 1",
    "1 dog 2",
    "1 sat, 1",
    "1 the 1",
  ]);
  expect(words("'out': 'position', 'format_wide': true", 2)).toEqual(["1 A dog"]);
});

test.each([
  ['x = map(as.frame("a"), "s -> s.nosuch()")', "strings have no method 'nosuch'"],
  ['x = map(as.frame("a"), "s -> s.length("))', "is missing"],
  ['x = map(as.frame("a"), "s -> t")', "there is no 't'"],
  ['x = map(as.frame("a"), "s -> Runtime.exit(1)")', "strings have no method 'exit'"],
  ['x = map(as.frame("a"), "s -> s.split(\',\')[3]")', "there is no element 3"],
  ['x = map(as.frame("a"), "s -> Integer.parseInt(s)")', '"a" is not a number'],
  ['[X, M] = transformencode(target=as.frame("a"), spec="{ids:true}")', '"a" in column 1 is not a number'],
  [
    '[X, M] = transformencode(target=as.frame("a"), spec="{ids:true, recode:[2]}")',
    "the column 2 is outside of 1 to 1",
  ],
  ['[X, M] = transformencode(target=as.frame("a"), spec="{recode:[size]}")', 'the frame has no column "size"'],
  ['[X, M] = transformencode(target=as.frame("a"), spec="{ids:true, recod:[1]}")', '"recod" is not there'],
  ['[X, M] = transformencode(target=matrix(1, 1, 1), spec="{}")', "write as.frame(X)"],
  ['x = transformapply(target=as.frame("a"), spec="{ids:true, recode:[1]}", meta=as.frame("a"))', "has no '·'"],
  [
    "X = matrix(1, 1, 25)\ny = conv2d(X, matrix(1, 1, 9), input_shape=[1, 1, 5, 4], filter_shape=[1, 1, 3, 3], stride=[1, 1], padding=[0, 0])",
    "the input is 1x25, and the sizes that are given make it 1x20",
  ],
  [
    "X = matrix(1, 1, 25)\ny = max_pool(X, input_shape=[1, 1, 5, 5], pool_size=[7, 7], stride=[1, 1], padding=[0, 0])",
    "test.dml:2:5",
  ],
  [
    "X = matrix(1, 1, 25)\ny = max_pool(X, input_shape=[1, 5, 5], pool_size=[2, 2], stride=[1, 1], padding=[0, 0])",
    "'input_shape' is [images, channels, rows, columns]",
  ],
  [
    "x = lstm(matrix(1, 2, 5), matrix(1, 5, 8), matrix(1, 1, 8), matrix(0, 2, 2), matrix(0, 2, 2), TRUE)",
    "with D features and M neurons",
  ],
])("%s", (source, message) => {
  expect(() => printed(source)).toThrow(message);
});

test("the gradient of a pooling with windows that overlap is the derivative", () => {
  const at = (x: number[][]): Map<string, unknown> =>
    runScript(
      `X = matrix("${x.flat().join(" ")}", 1, 9)
P = max_pool(X, input_shape=[1, 1, 3, 3], pool_size=[2, 2], stride=[1, 1], padding=[0, 0])
s = sum(P * matrix("1 2 3 4", 1, 4))
d = max_pool_backward(X, matrix("1 2 3 4", 1, 4), input_shape=[1, 1, 3, 3], pool_size=[2, 2], stride=[1, 1], padding=[0, 0])`,
      "test.dml",
    ) as Map<string, unknown>;
  const x = [[1, 5, 2, 8, 9, 3, 4, 7, 6]];
  const [[...slope]] = (at(x).get("d") as ReturnType<typeof matrix>).arraySync() as [number[]];
  const sum = (values: number[]): number => (at([values]).get("s") as { number: number }).number;
  const differences = x[0]?.map(
    (value, index) => (sum(x[0]!.with(index, value + 1e-3)) - sum(x[0]!)) / 1e-3,
  ) as number[];
  for (const [index, difference] of differences.entries()) expect(slope[index]).toBeCloseTo(difference, 6);
});

describe("paramserv", () => {
  const training = `gradients = function(list[unknown] model, list[unknown] hyperparams, matrix[double] features, matrix[double] labels)
    return (list[unknown] result) {
  w = as.matrix(model["w"])
  result = list(w=t(features) %*% (features %*% w - labels))
}
step = function(list[unknown] model, list[unknown] hyperparams, list[unknown] gradients) return (list[unknown] result) {
  result = list(w=as.matrix(model["w"]) - as.scalar(hyperparams["rate"]) * as.matrix(gradients["w"]))
}
X = sin(matrix(seq(1, 32), 8, 4) * 1.7)
y = X %*% matrix("1 -2 0.5 3", 4, 1)
w = matrix(0, 4, 1)
`;
  const call = (rest: string): string =>
    `m = paramserv(model=list(w=w), features=X, labels=y, upd="gradients", agg="step", mode="LOCAL", freq="BATCH", hyperparams=list(rate=0.05), ${rest})\n`;
  const difference = (rest: string, byHand: string): number =>
    Number(printed(`${training}${call(rest)}${byHand}print(max(abs(as.matrix(m["w"]) - w)))`));

  test("BSP: the model moves by the sum of the gradients of all workers", () => {
    const byHand = `for (e in 1:3) { for (b in 0:1) {
  i = 2 * b + 1
  w = w - 0.05 * (t(X[i:(i + 1), ]) %*% (X[i:(i + 1), ] %*% w - y[i:(i + 1), ]) + t(X[(i + 4):(i + 5), ]) %*% (X[(i + 4):(i + 5), ] %*% w - y[(i + 4):(i + 5), ]))
} }
`;
    expect(difference('utype="BSP", epochs=3, batchsize=2, k=2, scheme="DISJOINT_CONTIGUOUS"', byHand)).toBeLessThan(
      1e-12,
    );
  });

  test("ASP with one worker is stochastic gradient descent", () => {
    const byHand = `for (e in 1:2) { for (b in 0:2) {
  i = 3 * b + 1
  j = min(i + 2, 8)
  w = w - 0.05 * t(X[i:j, ]) %*% (X[i:j, ] %*% w - y[i:j, ])
} }
`;
    expect(difference('utype="ASP", epochs=2, batchsize=3, k=1', byHand)).toBeLessThan(1e-12);
  });

  test("ASP with three workers comes to the weights, and to the same ones each time", () => {
    const source = `${training}${call('utype="ASP", epochs=200, batchsize=2, k=3, scheme="DISJOINT_ROUND_ROBIN"')}print(max(abs(X %*% as.matrix(m["w"]) - y)))`;
    expect(Number(printed(source))).toBeLessThan(0.05);
    expect(printed(source)).toBe(printed(source));
  });

  test.each([
    ['utype="XSP", epochs=1', 'there is no update type "XSP"'],
    ['utype="BSP", epochs=1, k=9', "9 workers for 8 rows"],
    ['utype="BSP", epochs=1, scheme="OVERLAP_RESHUFFLE"', 'there is no scheme "OVERLAP_RESHUFFLE"'],
    ['utype="BSP", epochs=1, modelAvg=TRUE', "modelAvg is FALSE, not TRUE"],
    ['utype="SBP", epochs=1, k=2, num_backup_workers=2', "2 of 2 workers cannot be backups"],
    ['utype="BSP", epochs=1, batchsize=0', "the batch size is 0"],
  ])("%s", (rest, message) => {
    expect(() => printed(training + call(rest))).toThrow(message);
  });
});
