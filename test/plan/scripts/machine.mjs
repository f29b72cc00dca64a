// Each rank describes another machine; all must plan by that of rank 0.
const rank = Number(process.env.RANK);
process.env.HEDDLE_MACHINE = JSON.stringify({ flops: 1e9 * (1 + rank), memory: 1e9, latency: 1e-6, bandwidth: 1e9 });
const { connect } = await import("heddle");
const runtime = await connect();
console.log(`RESULT ${JSON.stringify({ rank, flops: runtime.machine.flops })}`);
