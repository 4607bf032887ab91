// The checks that every MCP client passes, whatever it speaks: what the contract says of unknown arguments, paths
// outside the folders, a document of 10 MB, cancelled and parallel calls. connect returns a connected client and the
// transport below it.
import { app, ask, assert } from './suite.mjs';

const longest = 20_000; // bytes of a message

// session is a connected client whose messages are measured.
async function session(connect, work) {
  const { client, transport } = await connect();
  const heard = transport.onmessage;
  const sizes = [];
  transport.onmessage = (message, extra) => {
    sizes.push(Buffer.byteLength(JSON.stringify(message)));
    heard.call(transport, message, extra);
  };
  try {
    await client.listTools(); // so that the client checks answers against the schemas
    await work(client);
    assert.ok(Math.max(...sizes) <= longest, `a message of ${Math.max(...sizes)} bytes`);
  } finally {
    await client.close();
  }
}

// answer calls a tool that must not refuse.
async function answer(client, name, args, options) {
  const result = await client.callTool({ name, arguments: args }, ...options ?? []);
  assert.ok(!result.isError, result.content[0].text);
  return result.structuredContent;
}

// refused calls a tool that must refuse, and returns why.
async function refused(client, name, args) {
  const result = await client.callTool({ name, arguments: args });
  assert.equal(result.isError, true, JSON.stringify(result).slice(0, 300));
  return result.content[0].text;
}

const path = (name) => `${app.docs}/${name}`;

export const checksOver = (connect, { options, progress }) => {
  const over = (work) => () => session(connect, work);
  return {
    tools: over(async (client) => {
      const { tools } = await client.listTools();
      assert.deepEqual(tools.map((tool) => tool.name).sort(), ['list', 'read', 'search', 'status']);
      for (const tool of tools) {
        assert.equal(tool.inputSchema.additionalProperties, false, tool.name);
        assert.equal(tool.annotations.readOnlyHint, true, tool.name);
      }
      assert.match(client.getInstructions(), /evidence\.found/);
    }),
    search: over(async (client) => {
      const found = await answer(client, 'search', { query: 'vehicle maintenance' }); // no word in common
      assert.equal(found.evidence.found, true);
      assert.equal(found.results[0].path, path('garage.md'));
      const read = await answer(client, 'read', { document: found.results[0].document, from: found.results[0].location.lines[0] });
      assert.match(read.text, /automobile/);
      const korean = await answer(client, 'search', { query: '예산', kinds: ['text'], path: '*.txt', after: '2020-01-01', limit: 1 });
      assert.equal(korean.results[0].path, path('의회.txt'));
      const nothing = await answer(client, 'search', { query: 'qwxz vbnmkl' });
      assert.equal(nothing.evidence.found, false);
      assert.deepEqual(nothing.results, []);
    }),
    list: over(async (client) => {
      const listed = [];
      let cursor;
      do {
        const page = await answer(client, 'list', { path: app.docs, cursor });
        listed.push(...page.documents.map((d) => d.path));
        cursor = page.next;
      } while (cursor !== '');
      assert.equal(new Set(listed).size, listed.length, 'something is listed twice');
      for (const name of ['garage.md', '의회.txt', 'ledger.txt', 'many/note 199.md']) assert.ok(listed.includes(path(name)), `${name} is not listed`);
      assert.deepEqual((await answer(client, 'list', { kinds: ['markdown'], path: 'garage.md' })).documents.length, 1);
      const status = await answer(client, 'status', {});
      assert.equal(status.index.found, listed.length);
      assert.equal(status.folders[0].path, app.docs);
      assert.deepEqual((await answer(client, 'list', { folder: status.folders[0].id, path: 'many/note 1.md' })).documents.length, 1);
    }),
    'unknown argument': over(async (client) => {
      assert.match(await refused(client, 'search', { query: 'cake', lmit: 3 }), /unknown argument "lmit"; this tool takes .*limit/);
      assert.match(await refused(client, 'status', { verbose: true }), /unknown argument "verbose"/);
      assert.match(await refused(client, 'search', { query: 'cake', limit: 1000 }), /limit must be a whole number from 1 to 100/);
    }),
    'outside the folders': over(async (client) => {
      for (const outside of ['/etc/passwd', app.secret, `${app.secret}-missing`, path('../secret/key.txt'), '/', '../secret/key.txt']) {
        assert.match(await refused(client, 'read', { path: outside }), /lies in no watched folder/, outside);
        assert.match(await refused(client, 'list', { path: outside }), /lies in no watched folder/, outside);
        assert.match(await refused(client, 'search', { query: 'treasure', path: outside }), /lies in no watched folder/, outside);
      }
      // A link out of a folder leads nowhere, one into it is a way like any other.
      assert.match(await refused(client, 'read', { path: path('hole/key.txt') }), /no document lies at/);
      assert.deepEqual((await answer(client, 'list', { path: path('hole') })).documents, []);
      assert.match((await answer(client, 'read', { path: `${app.way}/garage.md` })).text, /automobile/);
      assert.equal((await answer(client, 'search', { query: 'treasure' })).evidence.found, false);
    }),
    'a document of 10 MB': over(async (client) => {
      const first = await answer(client, 'read', { path: path('ledger.txt') });
      assert.equal(first.from, 1);
      assert.equal(first.lines, app.ledgerLines);
      let at = first;
      for (let page = 0; page < 20; page++) {
        const next = await answer(client, 'read', { document: first.document, from: at.next });
        assert.equal(next.from, at.to + 1);
        at = next;
      }
      const middle = await answer(client, 'read', { document: first.document, from: app.ledgerLines / 2, to: app.ledgerLines / 2 + 1 });
      assert.equal(middle.text.split('\n').filter(Boolean).length, 2);
      const last = await answer(client, 'read', { document: first.document, from: app.ledgerLines });
      assert.match(last.text, /the last line of the ledger/);
      assert.equal(last.next, undefined);
      assert.match(await refused(client, 'read', { document: first.document, from: app.ledgerLines + 1 }), /behind the end/);
      // One whose lines are longer than an answer.
      let whole = '';
      for (let from = 1; from !== undefined; ) {
        const page = await answer(client, 'read', { path: path('one line.txt'), from });
        whole += page.text;
        from = page.next;
      }
      assert.equal(whole, app.oneLine.repeat(5000).trimEnd());
    }),
    'a cancelled call': over(async (client) => {
      // The engine stands still, so that a search waits for it; two seconds later it would give up by itself. Only a
      // call that left the queue before that was cancelled, so a slow run is made again.
      for (let attempt = 1; ; attempt++) {
        await ask('/freeze');
        let error;
        try {
          const began = performance.now();
          const controller = new AbortController();
          const call = client.callTool({ name: 'search', arguments: { query: `a search that nobody wants ${attempt} ${Math.random()}` } },
            ...options({ signal: controller.signal }));
          const ended = call.then(() => undefined, (e) => e);
          await ask('/waiting', { waiting: 1 });
          controller.abort();
          await ask('/waiting', { waiting: 0 });
          const took = performance.now() - began;
          error = await ended;
          assert.ok(error instanceof Error, 'the call was answered');
          if (took < 1900) break;
          assert.ok(attempt < 10, `the search left the queue after ${took} ms`);
        } finally {
          await ask('/thaw');
        }
      }
      assert.equal((await answer(client, 'search', { query: 'vehicle maintenance' })).evidence.found, true);
    }),
    'six searches at once': over(async (client) => {
      await ask('/freeze');
      try {
        let begun = 0;
        let ended = 0;
        let all;
        const allBegun = new Promise((resolve) => (all = resolve));
        const calls = Array.from({ length: 6 }, (_, i) => answer(client, 'search', { query: `automobile repair manual brakes clutch gearbox ${i}${Math.random()}` },
          options(progress(() => ++begun === 6 && all()))).finally(() => ended++));
        await allBegun;
        const times = [];
        for (let i = 0; i < 10; i++) {
          const sent = performance.now();
          const reply = await fetch(`${app.base}/healthz`);
          assert.ok(reply.ok);
          await reply.text();
          times.push(performance.now() - sent);
        }
        assert.equal(ended, 0, `${ended} searches had ended before /healthz had answered ten times, in ${times.map(Math.round)} ms`);
        for (const found of await Promise.all(calls)) {
          assert.equal(found.results[0].path, path('garage.md')); // by words: the engine did not answer in time
          assert.deepEqual(found.degraded, ['engine_timeout']);
        }
      } finally {
        await ask('/thaw');
      }
    }),
  };
};
