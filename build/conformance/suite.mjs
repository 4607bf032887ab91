// What every client's checks are made of: the test that started this process, the texts, comparing vectors,
// expecting errors, and a queue that is full when it has to be.
import assert from 'node:assert/strict';

// Set by the Go test: base is the app's address, control the test's own; the rest is for the checks that read it.
export const app = JSON.parse(process.env.ONDOL_CONFORMANCE ?? '{}');

export const texts = [
  'the automobile repair manual',
  '시의회는 내년 예산안을 심의했다 budget law',
  'import { useState } from "react";',
  'a chocolate cake needs butter and flour',
  'the automobile repair manual',
];

// Longer than the engine's context for one input.
export const endless = 'budget law '.repeat(6000);

// The largest difference of a component. Vectors travel as float32, so equal ones differ by nothing at all; the
// engine itself differs by some 1e-7 between one text and several at once.
const tolerance = 1e-6;

export async function ask(path, body) {
  const reply = await fetch(app.control + path, { method: 'POST', body: JSON.stringify(body ?? {}) });
  const text = await reply.text();
  assert.ok(reply.ok, `${path}: ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

// reference is what the engine itself gives for the texts.
export const reference = (list) => ask('/reference', list);

// same checks vectors against those of the engine for the same texts.
export async function same(got, list, shape = (v) => v) {
  const want = (await reference(list)).map(shape);
  assert.equal(got.length, want.length, 'number of vectors');
  want.forEach((vector, i) => {
    assert.equal(got[i].length, vector.length, `dimensions of vector ${i}`);
    vector.forEach((x, j) => {
      const difference = Math.abs(got[i][j] - x);
      assert.ok(difference <= tolerance, `vector ${i}, component ${j}: ${got[i][j]}, the engine has ${x}`);
    });
  });
}

// shortened cuts a vector to n dimensions and gives it length 1 again.
export const shortened = (n) => (vector) => {
  const cut = vector.slice(0, n);
  const norm = Math.hypot(...cut);
  return cut.map((x) => x / norm);
};

// fails expects work to fail, all of the patterns in what the error says, and returns the error.
export async function fails(work, ...patterns) {
  let error;
  try {
    await work();
  } catch (e) {
    error = e;
  }
  assert.ok(error instanceof Error, 'no error came');
  for (const pattern of patterns) assert.match(error.message, pattern);
  return error;
}

// What the messages have to tell, whatever a client makes of them.
export const says = {
  tooLong: [/has \d{4,} tokens/, /at most 8192/, /split/],
  otherModel: [/no-such-model/, new RegExp(app.model)],
  queueFull: [/queue is full/],
};

// full runs work while the one place there is is taken; it becomes free soon after the first refusal.
export async function full(work) {
  await ask('/hold');
  const [outcome] = await Promise.allSettled([work()]);
  const { refused } = await ask('/release');
  if (outcome.status === 'rejected') throw outcome.reason;
  assert.ok(refused >= 1, 'nothing was refused');
  return outcome.value;
}

// retried checks that a client is refused at first, comes back by itself and is served.
export const retried = (name, embed) => async () => {
  const text = `the budget of ${name}`;
  await same([await full(() => embed(text))], [text]);
};

// surfaced checks that a client without retries shows the refusal, and is served when it is asked again.
export const surfaced = (name, embed) => async () => {
  const text = `the budget of ${name}`;
  await full(() => fails(() => embed(text), ...says.queueFull));
  await same([await embed(text)], [text]);
};

// seen records what goes over global fetch while work runs, and changes nothing.
export async function seen(work) {
  const original = globalThis.fetch;
  const requests = [];
  globalThis.fetch = async (input, init) => {
    const request = { url: String(input?.url ?? input), body: typeof init?.body === 'string' ? JSON.parse(init.body) : undefined };
    requests.push(request);
    const reply = await original(input, init);
    request.status = reply.status;
    request.headers = reply.headers;
    return reply;
  };
  try {
    await work();
  } finally {
    globalThis.fetch = original;
  }
  return requests;
}

export { assert };
