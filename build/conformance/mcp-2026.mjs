// The client of the protocol that has no sessions (2026-07-28), over streamable HTTP.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { checksOver } from './mcp.mjs';
import { app, assert } from './suite.mjs';

const connect = async () => {
  const transport = new StreamableHTTPClientTransport(new URL(`${app.base}/mcp`), { requestInit: { headers: { Authorization: `Bearer ${app.token}` } } });
  const client = new Client({ name: 'conformance', version: '1.0.0' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  await client.connect(transport);
  assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
  return { client, transport };
};

export const checks = checksOver(connect, { options: (o) => [o], progress: (onprogress) => ({ onprogress }) });
