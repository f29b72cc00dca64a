/** @module Functions for worker threads, in tests of records. */
export default ({ x }) => ({ x, y: x * x });
export async function slow({ x }) {
  await new Promise((resolve) => setTimeout(resolve, (x * 7) % 5));
  if (x === 13) throw new Error("thirteen");
  return { y: x + 0.5 };
}
