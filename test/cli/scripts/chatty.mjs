// Prints more than a pipe holds, and goes on for a while.
for (let round = 0; round < 100; round++) {
  console.log("x".repeat(10_000));
  await new Promise((resolve) => setTimeout(resolve, 10));
}
