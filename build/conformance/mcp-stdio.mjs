// The official client of the Model Context Protocol over standard input and output.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { checksOver } from './mcp.mjs';
import { app } from './suite.mjs';

const connect = async () => {
  const transport = new StdioClientTransport({ command: app.command[0], args: app.command.slice(1), env: process.env, stderr: 'inherit' });
  const client = new Client({ name: 'conformance', version: '1.0.0' });
  await client.connect(transport);
  return { client, transport };
};

export const checks = checksOver(connect, { options: (o) => [undefined, o], progress: (onprogress) => ({ onprogress }) });
