/** @module Functions of one operand that are composed of the scalar functions, or are ops of their own. */
import * as ops from "../../ops/index.ts";
import { type Unary, unary } from "../spelling.ts";

/** Whether x is neither infinite nor NaN; bool. Of floats only. */
export const isFinite: Unary = unary("isFinite", ops.isFinite);
/** 1 / x. */
export const reciprocal: Unary = unary("reciprocal", ops.reciprocal);
/** x times x; integers wrap. */
export const square: Unary = unary("square", ops.square);
/** Whether x is NaN; bool. */
export const isNaN: Unary = unary("isNaN", ops.isNaN);
/** Whether x is infinite; bool. */
export const isInf: Unary = unary("isInf", ops.isInf);
/** max(x, 0), of floats and integers; NaN stays. The gradient at 0 is 0, as in PyTorch. */
export const relu: Unary = unary("relu", ops.relu);
/** x itself, which derivatives take for a constant. */
export const stopGradient: Unary = unary("stopGradient", ops.stopGradient);
