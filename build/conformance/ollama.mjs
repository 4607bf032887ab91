import { Ollama } from 'ollama';
import { app, assert, endless, fails, same, says, seen, shortened, surfaced, texts } from './suite.mjs';

const client = () => new Ollama({ host: app.base });
const model = app.model;

async function embed(input, options = {}) {
  return (await client().embed({ model, input, ...options })).embeddings;
}

export const checks = {
  single: async () => same(await embed(texts[0]), texts.slice(0, 1)),
  batch: async () => same(await embed(texts), texts),
  'older route': async () => {
    const reply = await client().embeddings({ model, prompt: texts[0] });
    await same([reply.embedding], texts.slice(0, 1));
  },
  'tag in the name': async () => same(await embed(texts, { model: `${model}:latest` }), texts),
  dimensions: async () => same(await embed(texts, { dimensions: 64 }), texts, shortened(64)),
  'durations and tokens': async () => {
    const reply = await client().embed({ model, input: texts });
    assert.equal(reply.model, model);
    assert.ok(reply.total_duration > 1000 && reply.prompt_eval_count > texts.length, JSON.stringify({ ...reply, embeddings: 0 }));
  },
  'too long': async () => {
    for (const options of [{}, { truncate: false }]) {
      const error = await fails(() => embed(endless, options), ...says.tooLong);
      assert.equal(error.status_code, 400);
    }
  },
  'truncate at its wish': async () => {
    let vectors;
    const [request] = await seen(async () => {
      vectors = await embed([texts[0], endless], { truncate: true });
    });
    assert.equal(request.headers.get('x-ondol-truncated'), '1');
    await same(vectors.slice(0, 1), texts.slice(0, 1));
    assert.equal(vectors[1].length, vectors[0].length);
  },
  'wrong model': async () => {
    const error = await fails(() => embed('cake', { model: 'no-such-model' }), ...says.otherModel);
    assert.equal(error.status_code, 404);
  },
  models: async () => {
    const name = `${model}:latest`;
    const [listed] = (await client().list()).models;
    assert.equal(listed.name, name);
    assert.match(listed.digest, /^[0-9a-f]{64}$/);
    assert.equal((await client().ps()).models[0].name, name);
    const shown = await client().show({ model });
    assert.ok(shown.capabilities.includes('embedding'), JSON.stringify(shown.capabilities));
    assert.match((await client().version()).version, /^\d+\.\d+\.\d+$/);
  },
  'no chat engine': async () => {
    const error = await fails(() => client().chat({ model, messages: [{ role: 'user', content: 'hello' }] }), /chat/);
    assert.equal(error.status_code, 501);
  },
  refusal: surfaced('ollama', async (text) => (await embed(text))[0]),
};
