import { constructLlmApi } from '@continuedev/openai-adapters';
import { app, assert, endless, fails, retried, same, says, texts } from './suite.mjs';

const client = (provider = 'openai', apiBase = `${app.base}/v1/`) => constructLlmApi({ provider, apiKey: 'any', apiBase });

async function vectors(api, input, model = app.model) {
  const reply = await api.embed({ model, input });
  return reply.data.map((item) => item.embedding);
}

export const checks = {
  single: async () => same(await vectors(client(), texts[0]), texts.slice(0, 1)),
  batch: async () => same(await vectors(client(), texts), texts),
  float: async () => {
    const reply = await client().embed({ model: app.model, input: texts, encoding_format: 'float' });
    await same(reply.data.map((item) => item.embedding), texts);
  },
  'as LM Studio': async () => same(await vectors(client('lmstudio'), texts), texts),
  'as Ollama': async () => same(await vectors(client('ollama', app.base), texts), texts),
  models: async () => {
    const listed = (await client().list()).map((m) => m.id);
    assert.ok(listed.includes(app.model), `listed: ${listed}`);
  },
  'too long': async () => {
    const error = await fails(() => vectors(client(), endless), ...says.tooLong);
    assert.equal(error.code, 'context_length_exceeded');
  },
  'wrong model': async () => {
    const error = await fails(() => vectors(client(), 'cake', 'no-such-model'), ...says.otherModel);
    assert.equal(error.status, 404);
  },
  'no reranker': async () => {
    const reply = await client().rerank({ model: app.model, query: 'cake', documents: texts });
    assert.match(reply.error.message, /rerank/);
  },
  retry: retried('continue', async (text) => (await vectors(client(), text))[0]),
};
