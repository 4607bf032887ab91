// The official client of the Model Context Protocol over streamable HTTP.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { checksOver } from './mcp.mjs';
import { app, assert, fails } from './suite.mjs';

const url = new URL(`${app.base}/mcp`);

const connect = async (token = app.token) => {
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
  const client = new Client({ name: 'conformance', version: '1.0.0' });
  await client.connect(transport);
  return { client, transport };
};

export const checks = {
  ...checksOver(() => connect(), { options: (o) => [undefined, o], progress: (onprogress) => ({ onprogress }) }),
  'without the token': async () => {
    await fails(() => connect('not-the-token-of-this-app'), /401|unauthorized/i);
  },
  'a session that is gone': async () => {
    const { client, transport } = await connect();
    assert.ok(transport.sessionId);
    await transport.terminateSession();
    const other = new StreamableHTTPClientTransport(url, { requestInit: { headers: { Authorization: `Bearer ${app.token}` } }, sessionId: 'OFANEARLIERRUN' });
    const again = new Client({ name: 'conformance', version: '1.0.0' });
    await again.connect(other);
    assert.equal((await again.callTool({ name: 'status', arguments: {} })).structuredContent.engine.state, 'ready');
    await again.close();
    await client.close();
  },
};
