/** @module Runs one of the trainings whose plans are compared: `heddle profile bench/plans/steps.ts -- mlp`. */
import { type TrainOptions, train } from "heddle";
import { trainings } from "./trainings.ts";

await train(trainings[process.argv[2] as string] as TrainOptions);
