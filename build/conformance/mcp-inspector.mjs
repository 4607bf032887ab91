// The command line of the MCP inspector, which is a process of its own for each call. Its page is not installed
// ("overrides" in package.json): it is a hundred megabytes, and nothing here opens it.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { app, assert } from './suite.mjs';

const run = promisify(execFile);

async function inspect(target, ...args) {
  const { stdout } = await run(process.execPath, ['node_modules/@modelcontextprotocol/inspector/cli/build/cli.js', '--cli', ...target, ...args], { env: process.env });
  return JSON.parse(stdout);
}

const over = (target) => async () => {
  const { tools } = await inspect(target, '--method', 'tools/list');
  assert.deepEqual(tools.map((tool) => tool.name).sort(), ['list', 'read', 'search', 'status']);
  const found = await inspect(target, '--method', 'tools/call', '--tool-name', 'search', '--tool-arg', 'query=vehicle maintenance', 'limit=1');
  assert.equal(found.structuredContent.results[0].path, `${app.docs}/garage.md`);
  const refused = await inspect(target, '--method', 'tools/call', '--tool-name', 'search', '--tool-arg', 'query=cake', 'lmit=3');
  assert.equal(refused.isError, true);
  assert.match(refused.content[0].text, /unknown argument "lmit"/);
};

export const checks = {
  stdio: over(app.command ?? []),
  http: over([`${app.base}/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${app.token}`]),
};
