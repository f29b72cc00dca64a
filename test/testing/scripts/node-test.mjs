// Run by `node --test`, as a user's tests are.
import assert from "node:assert";
import test from "node:test";
import { tensor } from "heddle";
import { expectClose } from "heddle/testing";

test("close", () => expectClose(tensor([1, 2]).mul(0.5), [0.5, 1]));
test("apart", () => expectClose(tensor([1, 2]), [1, 3]));
test("deeply equal", () => assert.deepStrictEqual({ x: tensor([1, 2]) }, { x: tensor([1, 2]) }));
