// Runs the checks of the clients that are its arguments, one after the other, against the app named in
// ONDOL_CONFORMANCE (suite.mjs).
// The first line says what will be checked, then one line a check: {client, check, ok, ms, error}.
const clients = process.argv.slice(2);

const print = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const suites = await Promise.all(clients.map(async (client) => ({ client, checks: (await import(`./${client}.mjs`)).checks })));
print({ plan: suites.map(({ client, checks }) => ({ client, checks: Object.keys(checks) })) });

for (const { client, checks } of suites) {
  for (const [check, run] of Object.entries(checks)) {
    const began = performance.now();
    let error;
    try {
      await run();
    } catch (e) {
      error = String(e?.stack ?? e);
    }
    print({ client, check, ok: error === undefined, ms: Math.round(performance.now() - began), error });
  }
}
process.exit(0); // some clients keep connections open
