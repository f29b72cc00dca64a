/** @module What pipelines can do beside the plain ones: schedules with several stages on a rank, and backward passes in two parts. */
import { interleaved, pipedream, pipedreamVertical, twoBuffered, zeroBubbleH1, zeroBubbleH2 } from "./makers.ts";
import { registerPipelineSchedule } from "./register.ts";

export { interleaved, pipedream, pipedreamVertical, twoBuffered, zeroBubbleH1, zeroBubbleH2 } from "./makers.ts";
export { registerPipelineSchedule } from "./register.ts";
export { splitBackward } from "./weights.ts";

registerPipelineSchedule("interleaved", interleaved);
registerPipelineSchedule("zb-h1", zeroBubbleH1);
registerPipelineSchedule("zb-h2", zeroBubbleH2);
registerPipelineSchedule("pipedream", pipedream);
registerPipelineSchedule("pipedream-vertical", pipedreamVertical);
registerPipelineSchedule("pipedream-2bw", twoBuffered());
