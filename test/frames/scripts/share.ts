/** Each worker learns from its part of the records; prints the frame that all have. */
import { comm, data, frames } from "heddle";

const path = process.argv[2] as string;
await comm.connect();
const rows = data.csv(path, { columns: { number: "f64", word: "text", text: "text" } });
const known = await rows.load();
const columns = {
  x: [frames.scale("number", { impute: "median" }), frames.oneHot("word"), frames.bin("number", { impute: 0 })],
  ids: frames.words("text"),
} as const;
for (const records of [rows, known]) {
  const frame = await frames.fit(records, columns, { share: true });
  console.log(`FRAME ${JSON.stringify(frame)}`);
}
